import msgspec
import pytest

from django_ray.errors import IntegrityFault, LimitExceeded, ProtocolError
from django_ray.identity import MAXIMUM_63, RunIdentity
from django_ray.protocol import canonical, summary
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    DetailAvailability,
    ExecutionStrategy,
    NodeState,
    ReportingPolicy,
    TruncationReason,
    WorkflowState,
)
from tests.recording import replay

IDENTITY = RunIdentity(
    task_execution_pk=42,
    attempt_number=2,
    execution_generation=5,
    run_id="6f1c3b0e-7a52-4c1d-9f52-0d8a4b1e2c33",
)
TERMINAL = b'"terminal":{"derived":false,"outcome":"LOST","reason":"reported"}'
ENDS = tuple(WorkflowState)[1:]
START = 1_700_000_000_000


def make(**changes):
    fields = {
        "changed_at_ms": START + 1_000,
        "declared_nodes": 10,
        "detail": summary.Detail(
            availability=DetailAvailability.AVAILABLE, complete=True, reasons=()
        ),
        "detail_revision": 7,
        "discovered_edges": 12,
        "discovered_nodes": 9,
        "ended_at_ms": None,
        "ended_by_minute": (1, 0, 4),
        "expires_at_ms": None,
        "hosts": 3,
        "limits_profile": "v1",
        "manifest_id": 77,
        "node_counts": NodeCounts(succeeded=5, failed=1, running=1, pending=2),
        "observed_at_ms": START + 1_500,
        "percent": 60,
        "plan_fingerprint": "ab" * 32,
        "policy": ReportingPolicy.full,
        "retained_edges": 12,
        "retained_nodes": 9,
        "retention_days": 7,
        "revision": 11,
        "run": summary.run_of(IDENTITY),
        "schema": summary.SCHEMA,
        "session": None,
        "started_at_ms": START,
        "state": WorkflowState.RUNNING,
        "storage": "database",
        "storage_protocol": summary.STORAGE_PROTOCOL,
        "strategy": ExecutionStrategy.dynamic,
        "terminal": None,
        "topology_version": 3,
    }
    return summary.Summary(**{**fields, **changes})


def test_a_recorded_summary_is_replayed_byte_for_byte():
    built = make()
    recorded = replay("summary.json", summary.encode(built))
    assert summary.decode(recorded) == built


def test_a_recorded_derived_summary_is_replayed_byte_for_byte():
    session = msgspec.Raw(b'{"state":"READY"}')
    derived = summary.derive(
        make(session=session), WorkflowState.SUCCEEDED, START + 9_000, "unreported"
    )
    recorded = replay("summary_derived.json", summary.encode(derived))
    decoded = summary.decode(recorded)
    assert decoded == derived
    assert type(decoded) is summary.Summary
    assert summary.encode(decoded) == recorded


def test_every_struct_declares_its_fields_in_canonical_order():
    for kind in (
        *(summary.Summary, summary.Detail, summary.NodeCounts, summary.Run),
        summary.Terminal,
    ):
        names = kind.__struct_encode_fields__
        assert list(names) == sorted(names), kind


def test_the_largest_summary_is_within_its_limit():
    session = msgspec.Raw(b'"' + b"s" * (V1.session_compact - 2) + b'"')
    largest = make(
        **dict.fromkeys(
            ("changed_at_ms", "ended_at_ms", "expires_at_ms", "observed_at_ms"),
            253_402_300_799_999,
        ),
        **dict.fromkeys(
            ("declared_nodes", "discovered_edges", "hosts", "manifest_id", "revision"),
            MAXIMUM_63,
        ),
        detail=summary.Detail(
            availability=DetailAvailability.TRUNCATED,
            complete=False,
            reasons=tuple(TruncationReason),
        ),
        ended_by_minute=(MAXIMUM_63,) * 10,
        limits_profile="é" * 64,
        plan_fingerprint="f" * 64,
        session=session,
        terminal=summary.Terminal(
            derived=True, outcome=WorkflowState.CANCELLED, reason="é" * 64
        ),
    )
    assert len(summary.encode(largest)) <= V1.summary // 2


def sized(size):
    """Return a summary of so many bytes; no valid one is as large as the limit."""
    bare = len(canonical.encode(make(plan_fingerprint="")))
    return make(plan_fingerprint="f" * (size - bare))


def test_a_summary_is_refused_one_byte_above_its_limit():
    for size in (V1.summary - 1, V1.summary):
        assert len(summary.encode(sized(size))) == size
    with pytest.raises(LimitExceeded) as caught:
        summary.encode(sized(V1.summary + 1))
    assert (caught.value.boundary, caught.value.actual) == ("summary", V1.summary + 1)


def test_stored_bytes_one_above_the_limit_are_corrupt():
    data = summary.encode(make())
    for size in (V1.summary - 1, V1.summary):
        assert summary.decode(data.ljust(size)) == make()
    with pytest.raises(IntegrityFault) as caught:
        summary.decode(data.ljust(V1.summary + 1))
    assert caught.value.availability == DetailAvailability.CORRUPT


def session_of(size):
    return msgspec.Raw(b'"' + b"s" * (size - 2) + b'"')


def test_a_session_of_2_kib_is_the_largest_in_a_summary():
    for size in (V1.session_compact - 1, V1.session_compact):
        data = summary.encode(make(session=session_of(size)))
        assert len(bytes(summary.decode(data).session)) == size
    above = make(session=session_of(V1.session_compact + 1))
    with pytest.raises(LimitExceeded):
        summary.encode(above)
    with pytest.raises(IntegrityFault):
        summary.decode(canonical.encode(above))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'null,"started', b'"\xff","started'),
        (b'null,"started', b'{"b":1,"a":2},"started'),
        (b'"limits_profile":"v1"', b'"limits_profile":"v\\u001b1"'),
        (b'"terminal":null', TERMINAL.replace(b"reported", b"a\\nb")),
    ],
)
def test_text_that_no_one_may_be_shown_is_corrupt(old, new):
    data = canonical.encode(make())
    assert old in data
    with pytest.raises(IntegrityFault):
        summary.decode(data.replace(old, new, 1))


def test_counts_that_do_not_add_up_are_corrupt():
    with pytest.raises(IntegrityFault) as caught:
        summary.decode(canonical.encode(make(discovered_nodes=10)))
    assert caught.value.availability == DetailAvailability.CORRUPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"schema":3', b'"schema":2'),
        (b'"schema":3', b'"schema":3,"extra":1'),
        (b'"storage":"database"', b'"storage":"s3"'),
        (b'"state":"RUNNING"', b'"state":"STALLED"'),
        (b'"revision":11', b'"revision":-1'),
        (b'"revision":11', b'"revision":true'),
        (b'"revision":11', b'"revision":9223372036854775808'),
        (b'"percent":60', b'"percent":101'),
        (b'"retention_days":7', b'"retention_days":31'),
        (b'"availability":"AVAILABLE"', b'"availability":"SOMETIMES"'),
        (b'"reasons":[]', b'"reasons":["because"]'),
        (b'"policy":"full"', b'"policy":"everything"'),
        (b'"FAILED":1', b'"FAILED":-1'),
        (b'"FAILED":1', b'"failed":1'),
        (b'"retained_nodes":9', b'"retained_nodes":25001'),
        (b'"retained_edges":12', b'"retained_edges":100001'),
        (b'"ended_by_minute":[1,0,4]', b'"ended_by_minute":[1,1,1,1,1,1,1,1,1,1,1]'),
        (b'"hosts":3,', b""),
        (b"{", b""),
    ],
)
def test_bytes_that_are_no_summary_are_corrupt(old, new):
    data = canonical.encode(make())
    assert old in data
    with pytest.raises(IntegrityFault) as caught:
        summary.decode(data.replace(old, new, 1))
    assert caught.value.availability == DetailAvailability.CORRUPT


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"\xff", b"[" * 16_000])
def test_other_bytes_are_corrupt(data):
    with pytest.raises(IntegrityFault):
        summary.decode(data)


def test_counts_answer_by_state_and_in_total():
    counts = NodeCounts(
        pending=1, submitted=2, running=3, succeeded=4, failed=5, cancelled=6, skipped=7
    )
    assert [counts.of(state) for state in NODE_STATES] == [1, 2, 3, 4, 5, 6, 7]
    assert (counts.ended, counts.total) == (22, 28)
    assert NodeCounts().total == 0
    assert counts.of(NodeState.SKIPPED) == 7


@pytest.mark.parametrize(
    "changed",
    [
        {"task_execution_pk": 43},
        {"attempt_number": 3},
        {"execution_generation": 6},
        {"run_id": "6f1c3b0e-7a52-4c1d-9f52-0d8a4b1e2c34"},
    ],
)
def test_a_summary_belongs_to_a_run_in_all_four_fields(changed):
    fields = {
        "task_execution_pk": 42,
        "attempt_number": 2,
        "execution_generation": 5,
        "run_id": IDENTITY.run_id,
    }
    assert summary.is_of(make(), IDENTITY)
    assert not summary.is_of(make(), RunIdentity(**{**fields, **changed}))


RUNNING, SUCCEEDED = WorkflowState.RUNNING, WorkflowState.SUCCEEDED


@pytest.mark.parametrize(
    ("state", "counts", "declared", "discovered", "percent"),
    [
        (RUNNING, NodeCounts(), 0, 0, 0),
        (RUNNING, NodeCounts(), 10, 0, 0),
        (RUNNING, NodeCounts(pending=3), 0, 3, 0),
        (RUNNING, NodeCounts(succeeded=1, pending=2), 0, 3, 33),
        (RUNNING, NodeCounts(succeeded=1, pending=2), 10, 3, 10),
        (RUNNING, NodeCounts(succeeded=1, pending=2), 2, 3, 33),
        (RUNNING, NodeCounts(failed=1, cancelled=1, skipped=1), 4, 3, 75),
        (RUNNING, NodeCounts(succeeded=3), 3, 3, 99),
        (RUNNING, NodeCounts(succeeded=999_999, pending=1), 0, 1_000_000, 99),
        (SUCCEEDED, NodeCounts(), 0, 0, 100),
        (SUCCEEDED, NodeCounts(), 5, 0, 100),
        (SUCCEEDED, NodeCounts(succeeded=3), 9, 3, 100),
        (SUCCEEDED, NodeCounts(succeeded=2, failed=1), 0, 3, 66),
        (WorkflowState.FAILED, NodeCounts(), 5, 0, 0),
        (WorkflowState.FAILED, NodeCounts(succeeded=3), 3, 3, 99),
        (WorkflowState.FAILED, NodeCounts(succeeded=2, failed=1), 0, 3, 66),
        (WorkflowState.CANCELLED, NodeCounts(succeeded=1, cancelled=1), 0, 2, 50),
        (WorkflowState.LOST, NodeCounts(running=4), 0, 4, 0),
    ],
)
def test_percent_is_floored_and_100_only_with_success(
    state, counts, declared, discovered, percent
):
    assert summary.percent(state, counts, declared, discovered) == percent


def test_a_derived_success_marks_every_discovered_node_succeeded():
    derived = summary.derive(make(), SUCCEEDED, START + 9_000, "unreported")
    assert derived.node_counts == NodeCounts(succeeded=9)
    assert derived.percent == 100
    assert derived.detail.availability is DetailAvailability.TRUNCATED
    assert derived.detail.reasons == (TruncationReason.terminal_state_unreported,)
    assert not derived.detail.complete


@pytest.mark.parametrize("outcome", ENDS[1:])
def test_a_derived_interruption_keeps_the_last_observed_counters(outcome):
    derived = summary.derive(make(), outcome, START + 9_000, "lost")
    assert derived.node_counts == make().node_counts
    assert derived.detail == make().detail
    assert derived.percent == 55
    assert derived.state is outcome


@pytest.mark.parametrize("outcome", ENDS)
def test_every_derived_end_is_terminal_and_valid(outcome):
    derived = summary.derive(make(), outcome, START + 9_000, "worker_lost")
    assert summary.decode(summary.encode(derived)) == derived
    assert derived.revision == 12
    assert derived.ended_at_ms == START + 9_000
    assert derived.expires_at_ms == START + 9_000 + 7 * summary.DAY_MS
    assert derived.terminal == summary.Terminal(
        derived=True, outcome=outcome, reason="worker_lost"
    )


def test_a_derived_end_keeps_a_later_expiry():
    later = START + 400 * summary.DAY_MS
    derived = summary.derive(make(expires_at_ms=later), SUCCEEDED, START, "unreported")
    assert derived.expires_at_ms == later


def test_the_final_revision_is_not_passed():
    for revision, after in (
        (MAXIMUM_63 - 2, MAXIMUM_63 - 1),
        (MAXIMUM_63 - 1, MAXIMUM_63),
        (MAXIMUM_63, MAXIMUM_63),
    ):
        derived = summary.derive(
            make(revision=revision), SUCCEEDED, START, "unreported"
        )
        assert derived.revision == after


@pytest.mark.parametrize("availability", DetailAvailability)
def test_a_derived_success_changes_the_availability_of_live_detail_only(availability):
    before = summary.Detail(availability=availability, complete=False, reasons=())
    after = summary.derive(make(detail=before), SUCCEEDED, START, "unreported").detail
    live = availability in (DetailAvailability.AVAILABLE, DetailAvailability.TRUNCATED)
    assert (after != before) is live


def test_a_reason_is_named_once():
    reasons = (
        TruncationReason.node_count_limit,
        TruncationReason.terminal_state_unreported,
    )
    before = summary.Detail(
        availability=DetailAvailability.TRUNCATED, complete=False, reasons=reasons
    )
    derived = summary.derive(make(detail=before), SUCCEEDED, START, "unreported")
    assert derived.detail.reasons == reasons


@pytest.mark.parametrize(
    "session",
    [
        {"graph": "a\x00b"},
        {"graph": "a\x1b[2J"},
        {"graph": "a\nb"},
        {"a\x07": 1},
        {"outputs": [{"graph": "\x9b"}]},
        {"owner_epoch": 2**63},
    ],
)
def test_a_session_holds_lines_and_numbers_of_63_bits(session):
    told = make(session=msgspec.Raw(canonical.encode(session)))
    with pytest.raises(ProtocolError):
        summary.encode(told)
    with pytest.raises(IntegrityFault) as caught:
        summary.decode(canonical.encode(told))
    assert caught.value.availability == DetailAvailability.CORRUPT
