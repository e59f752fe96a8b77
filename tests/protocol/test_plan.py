import msgspec
import pytest

from django_ray.errors import ConfigurationError
from django_ray.identity import RunIdentity
from django_ray.protocol import canonical, plan
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import Effects, ReportingPolicy, SelectionPolicy
from tests.recording import replay


def make(**changes):
    options = {
        "policy": ReportingPolicy.full,
        "strategy": SelectionPolicy.dynamic,
        "limits_profile": "v1",
        "effects": Effects.read_only,
        **changes,
    }
    return plan.make(options.pop("task_path", "app.tasks.census"), **options)


def settings(**changes):
    fields = {
        "identity": RunIdentity(
            task_execution_pk=1,
            attempt_number=2,
            execution_generation=3,
            run_id="6f1c3b0e-7a52-4c1d-9f52-0d8a4b1e2c33",
        ),
        "policy": ReportingPolicy.full,
        "strategy": SelectionPolicy.dynamic,
        "plan_fingerprint": "ab" * 32,
        "started_at_ms": 1_700_000_000_000,
        "retention_days": 7,
        "limits": V1,
        "redact": ("account",),
    }
    return plan.RunSettings(**{**fields, **changes})


@pytest.mark.parametrize("strategy", SelectionPolicy)
def test_a_recorded_plan_is_replayed_byte_for_byte(strategy):
    made = make(strategy=strategy)
    recorded = replay(f"plan_{strategy}.json", canonical.encode(made))
    assert plan.fingerprint(made) == canonical.digest(recorded).hex()


def test_only_a_compiled_plan_names_the_lifecycle_protocol():
    assert make().strategy_requirements == {}
    compiled = make(strategy=SelectionPolicy.compiled_graph)
    assert compiled.strategy_requirements == {
        "compiled_graph": {"lifecycle_protocol_version": 1}
    }
    automatic = make(strategy=SelectionPolicy.automatic, effects=Effects.declared)
    assert automatic.strategy_requirements == {
        "compiled_graph": {"lifecycle_protocol_version": 1, "effects": "declared"}
    }


@pytest.mark.parametrize(
    ("strategy", "required"),
    [
        (SelectionPolicy.compiled_graph, {}),
        (SelectionPolicy.automatic, {"lifecycle_protocol_version": 2}),
        (SelectionPolicy.dynamic, {"lifecycle_protocol_version": 1}),
        (SelectionPolicy.compiled_graph, {"lifecycle_protocol_version": "1"}),
    ],
)
def test_a_plan_of_another_lifecycle_protocol_is_refused(strategy, required):
    pinned = msgspec.to_builtins(make(strategy=strategy))
    assert plan.materialize(pinned) == make(strategy=strategy)
    pinned["strategy_requirements"] = {"compiled_graph": required}
    with pytest.raises(ConfigurationError, match="lifecycle protocol"):
        plan.materialize(pinned)


def test_a_plan_that_does_not_parse_is_refused():
    with pytest.raises(ConfigurationError):
        plan.materialize({"strategy": "eager"})


@pytest.mark.parametrize(
    "changed",
    [
        {"task_path": "app.tasks.other"},
        {"policy": ReportingPolicy.summary},
        {"strategy": SelectionPolicy.compiled_graph},
        {"strategy": SelectionPolicy.automatic},
        {"limits_profile": "small"},
    ],
)
def test_plans_that_differ_have_different_fingerprints(changed):
    assert plan.fingerprint(make(**changed)) != plan.fingerprint(make())


def test_equal_plans_have_equal_fingerprints():
    assert plan.fingerprint(make()) == plan.fingerprint(make())


def test_settings_arrive_as_they_were_sent():
    sent = settings()
    assert plan.decode_settings(plan.encode_settings(sent)) == sent


@pytest.mark.parametrize("days", [0, 30])
def test_a_retention_within_bounds_arrives(days):
    data = plan.encode_settings(settings(retention_days=days))
    assert plan.decode_settings(data).retention_days == days


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        plan.encode_settings(settings(retention_days=-1)),
        plan.encode_settings(settings(retention_days=31)),
        plan.encode_settings(settings()) + b"\x00",
        plan.encode_settings(settings(policy="loud")),
        msgspec.msgpack.encode({**msgspec.to_builtins(settings()), "dsn": "x"}),
        msgspec.msgpack.encode(
            {
                **msgspec.to_builtins(settings()),
                "identity": {
                    "task_execution_pk": 0,
                    "attempt_number": 1,
                    "execution_generation": 1,
                    "run_id": "6f1c3b0e-7a52-4c1d-9f52-0d8a4b1e2c33",
                },
            }
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(data):
    with pytest.raises(ConfigurationError):
        plan.decode_settings(data)
