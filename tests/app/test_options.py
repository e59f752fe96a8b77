"""Options of a task and of a call: settings first, then the task's, then the call's."""

import pytest
from django.tasks import task

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.vocabulary import ReportingPolicy
from django_ray.tasks.options import enqueue_with, ray_options
from tests.app import taskbook

SMALL = {"name": "small", "values": {"retained_nodes": 10}}
TINY = {"name": "tiny", "values": {"retained_nodes": 2}}


def frozen(result):
    """Return the options in the row, parsed."""
    row = RayTaskExecution.objects.get(public_id=result.id)
    return conf.parse_options(row.options)


@pytest.mark.django_db
def test_task_without_options_has_those_of_the_settings(settings):
    settings.DJANGO_RAY = {"REPORTING_POLICY": "summary", "RETENTION_DAYS": 3}

    options = frozen(taskbook.plain.enqueue())

    assert options == conf.current().options
    assert (options.policy, options.retention_days) == (ReportingPolicy.summary, 3)


@pytest.mark.django_db
def test_option_of_the_task_comes_before_the_settings_and_leaves_the_others(settings):
    settings.DJANGO_RAY = {"REPORTING_POLICY": "summary", "RETENTION_DAYS": 3}

    options = frozen(taskbook.brief.enqueue())

    assert options.policy is ReportingPolicy.terminal_only
    assert (options.retention_days, options.profile.name) == (3, "small")


@pytest.mark.django_db
def test_option_of_the_call_comes_before_the_tasks(settings):
    settings.DJANGO_RAY = {"RETENTION_DAYS": 3}

    options = frozen(
        enqueue_with(taskbook.brief, {"policy": "disabled", "limits": TINY}, 1, two=2)
    )

    assert options.policy is ReportingPolicy.disabled
    assert (options.retention_days, options.profile.name) == (3, "tiny")
    row = RayTaskExecution.objects.get()
    assert row.arguments == {"args": [1], "kwargs": {"two": 2}}
    assert frozen(taskbook.brief.enqueue()).policy is ReportingPolicy.terminal_only


@pytest.mark.django_db
def test_call_may_take_away_the_time_out_of_the_settings(settings):
    settings.DJANGO_RAY = {"TIMEOUT_SECONDS": 60}

    assert frozen(taskbook.plain.enqueue()).timeout_seconds == 60
    none = enqueue_with(taskbook.plain, {"timeout_seconds": None})
    assert frozen(none).timeout_seconds is None


@pytest.mark.django_db
def test_options_of_an_earlier_version_parse():
    row = RayTaskExecution.objects.get(public_id=taskbook.plain.enqueue().id)
    added = {"timeout_seconds", "max_attempts"}
    added |= {"backoff_seconds", "backoff_max_seconds", "idempotent"}

    kept = {key: row.options[key] for key in row.options.keys() - added}

    assert conf.parse_options(kept) == conf.parse_options(row.options)


@pytest.mark.django_db
def test_call_without_options_is_a_plain_enqueue_and_keeps_what_using_said(settings):
    ours = "django_ray.tasks.backend.RayBackend"
    settings.TASKS = {"default": {"BACKEND": ours, "QUEUES": ["default", "slow"]}}

    result = enqueue_with(taskbook.brief.using(queue_name="slow"), {})

    row = RayTaskExecution.objects.get(public_id=result.id)
    assert row.queue_name == "slow"
    assert frozen(result) == frozen(taskbook.brief.enqueue())


@pytest.mark.django_db
def test_options_are_frozen_when_the_task_is_enqueued(settings):
    result = taskbook.plain.enqueue()
    before = frozen(result)

    settings.DJANGO_RAY = {"REPORTING_POLICY": "disabled", "RETENTION_DAYS": 0}

    assert frozen(result) == before


BAD = [
    {"policy": "everything"},
    {"policy": None},
    {"retention_days": -1},
    {"retention_days": 31},
    {"retention_days": True},
    {"retention_days": "7"},
    {"limits": "small"},
    {"limits": {"name": "small"}},
    {"limits": {"name": "v1", "values": {"retained_nodes": 5}}},
    {"limits": {"name": "big", "values": {"retained_nodes": 25_001}}},
    {"limits": {"name": "n\x00", "values": {"retained_nodes": 1}}},
    {"limits": {"name": "\ud800", "values": {"retained_nodes": 1}}},
    {"\ud800": 1},
    {"policy": "\ud800"},
    {"redact": ["patient"]},
    {"timeout_seconds": 0},
    {"timeout_seconds": 2_592_001},
    {"timeout_seconds": 1.5},
    {"max_attempts": 0},
    {"max_attempts": 101},
    {"backoff_seconds": -1},
    {"backoff_max_seconds": 86_401},
    {"idempotent": 1},
    {"polcy": "full"},
]


@pytest.mark.parametrize("options", BAD, ids=ascii)
def test_options_that_can_never_work_are_refused_where_they_are_written(options):
    with pytest.raises(ConfigurationError):
        ray_options(**options)


@pytest.mark.django_db
@pytest.mark.parametrize("options", BAD, ids=ascii)
def test_call_with_options_that_can_never_work_stores_nothing(options):
    with pytest.raises(ConfigurationError):
        enqueue_with(taskbook.plain, options)

    assert not RayTaskExecution.objects.exists()


@pytest.mark.parametrize("days", [0, 30])
@pytest.mark.parametrize("policy", [ReportingPolicy.disabled, "summary"])
def test_options_at_their_bounds_and_of_either_spelling_are_taken(policy, days):
    function = ray_options(policy=policy, retention_days=days)(taskbook.no_task)

    assert function is taskbook.no_task
    assert taskbook.no_task() is None


def test_options_above_the_task_are_refused():
    with pytest.raises(ConfigurationError, match="under @task"):
        ray_options(policy="full")(taskbook.plain)


@pytest.mark.django_db
def test_options_pass_through_a_decorator_between_them_and_the_task():
    options = frozen(taskbook.decorated.enqueue())

    assert options.retention_days == 1


@pytest.mark.django_db
def test_a_strategy_and_effects_are_chosen_like_any_option(settings):
    settings.DJANGO_RAY = {"STRATEGY": "automatic"}
    assert frozen(taskbook.plain.enqueue(1)).strategy == "automatic"

    chosen = {"strategy": "compiled_graph", "effects": "declared"}
    options = frozen(enqueue_with(taskbook.plain, chosen, 1))

    assert (options.strategy, options.effects) == ("compiled_graph", "declared")
    with pytest.raises(ConfigurationError):
        enqueue_with(taskbook.plain, {"strategy": "eager"}, 1)


def test_under_another_backend_the_task_is_enqueued_as_it_is(settings):
    settings.TASKS = {
        "default": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}
    }

    result = enqueue_with(immediate, {"policy": "disabled"}, 20, plus=1)

    assert result.return_value == 21
    with pytest.raises(ConfigurationError):
        enqueue_with(immediate, {"policy": "everything"}, 20)


@task
def immediate(number, plus=0):
    return number + plus
