import tracemalloc

import msgspec
import pytest

from django_ray.progress import stages
from django_ray.progress.model import HEARTBEAT_MS, TALLIES, Model
from django_ray.progress.recent import Events
from django_ray.progress.rollup import Stages
from django_ray.protocol import frames
from django_ray.protocol.records import decode_events
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    NodeState,
    ReportingPolicy,
    TruncationReason,
)
from tests.progress.making import (
    START,
    Run,
    end,
    limits,
    node,
    preview,
    progress,
    settings,
    state,
)

BIG = msgspec.json.encode(["p" * 240, "p" * 250])


def model(number=0, policy=ReportingPolicy.full, **changes):
    made = Model(settings(limits(**changes), policy))
    apply(made, *(node(ordinal) for ordinal in range(number)))
    return made


def apply(made, *records, now=START):
    return [made.apply(record, now) for record in records]


def told(made):
    return {name: number for name, number in made.tallies.items() if number}


def published(made, now=START):
    delta = made.take(now)
    made.settle(delta)
    return delta


def test_nothing_is_published_before_the_first_record():
    made = model()

    assert not made.changed(START + 60_000)
    assert made.take(START + 60_000) is None


def test_a_node_is_counted_and_handed_out_with_its_row():
    made = model(1)

    delta = made.take(START)

    assert delta.counts.pending == 1
    assert [each.id for each in delta.nodes] == ["1.step[0]"]
    assert delta.ordinals == [0]
    assert (delta.changed, delta.waiting) == (True, 0)


def test_a_resent_node_changes_nothing():
    made = model(3)

    apply(made, node(1), node(0))

    assert told(made) == {"applied": 3, "resent": 2}
    assert made.take(START).counts.total == 3


def test_a_node_past_a_gap_is_refused_and_counted():
    made = model(1)

    apply(made, node(2), node(1), node(2))

    assert told(made) == {"applied": 3, "gap": 1}


def test_edges_are_counted_however_many_are_kept():
    made = model(3)

    apply(made, node(3, 0, 3), node(4, 0, 1, 2, 2, further=1_000))

    delta = made.take(START)
    assert delta.discovered_edges == 3 + 3 + 1_000
    assert delta.edges == [(3, 3, (0, 3)), (4, 3, (0, 1, 2, 2))]
    assert delta.reasons == {TruncationReason.record_size_limit}


@pytest.mark.parametrize(("number", "kept"), [(6, 6), (7, 7), (8, 7)])
def test_nodes_past_the_retained_still_count(number, kept):
    made = model(number, retained_nodes=7)
    last = number - 1

    apply(made, state(last, "RUNNING"), state(last, "FAILED"))

    delta = made.take(START)
    assert (delta.counts.total, delta.counts.failed) == (number, 1)
    assert len(delta.nodes) == len(delta.ordinals) == kept
    over = {TruncationReason.node_count_limit} if number > kept else set()
    assert delta.reasons == over


@pytest.mark.parametrize("retained", [10, 0])
def test_updates_are_idempotent_retained_or_not(retained):
    made = model(3, retained_nodes=retained)
    records = [state(1, name) for name in ("SUBMITTED", "RUNNING", "SUCCEEDED")]

    apply(made, *records, *records, *records[::-1])

    counts = made.take(START).counts
    assert (counts.succeeded, counts.pending, counts.total) == (1, 2, 3)
    assert made.tallies["applied"] == 3 + 3


@pytest.mark.parametrize("retained", [10, 0])
def test_a_retry_reopens_a_node_retained_or_not(retained):
    made = model(1, retained_nodes=retained)

    apply(made, state(0, "FAILED"), state(0, "RUNNING", try_=2))

    assert made.take(START).counts.running == 1


@pytest.mark.parametrize(
    ("try_", "tally"), [(31, "applied"), (32, "applied"), (33, "retry_limit")]
)
def test_a_32nd_retry_of_an_omitted_node_is_refused(try_, tally):
    made = model(1, retained_nodes=0)
    before = made.tallies[tally]

    apply(made, state(0, "FAILED", try_=try_))

    assert made.tallies[tally] == before + 1


def test_a_retained_node_may_be_tried_any_number_of_times():
    made = model(1)

    apply(made, state(0, "FAILED", try_=33), state(0, "SUCCEEDED", try_=34))

    delta = made.take(START)
    assert (delta.counts.succeeded, delta.details[0].try_) == (1, 34)


@pytest.mark.parametrize(
    ("record", "tally"),
    [
        (state(1, "RUNNING"), "early"),
        (progress(1, 1), "early"),
        (frames.Task(1, b"t"), "unknown_node"),
        (frames.States(2, b"\0", b"\0"), "gap"),
    ],
)
def test_records_of_unknown_nodes_change_nothing(record, tally):
    made = model(1)
    published(made)

    apply(made, record)

    assert told(made) == {"applied": 1, tally: 1}
    assert not made.changed(START)


EARLY_RECORDS = (
    progress(2, 4, message="half", host="h"),
    progress(2, 3, message="stale"),
    state(2, "RUNNING", START + 7, started_ms=START + 5),
    state(2, "SUBMITTED", START + 4),
)


def test_what_a_leaf_said_before_its_node_was_told_is_applied_with_the_node():
    made = model(1)
    apply(made, *EARLY_RECORDS)
    apply(made, node(1), node(2))

    delta = made.take(START)

    assert [each.state for each in delta.details] == ["PENDING", "PENDING", "RUNNING"]
    found = delta.details[2]
    assert (found.started_ms, found.message) == (START + 5, "half")
    assert (delta.counts.running, delta.hosts) == (1, 1)
    (row,) = stages.decode(delta.stages).stages
    assert (row.counts[2], row.started_ms) == (1, START + 5)
    assert told(made) == {"applied": 3, "early": 4}


@pytest.mark.parametrize(
    ("policy", "retained"), [("full", 1), ("summary", 10), ("full", 2)]
)
def test_an_early_state_of_a_node_that_is_not_retained_is_counted(policy, retained):
    made = model(1, ReportingPolicy(policy), retained_nodes=retained)
    apply(made, *EARLY_RECORDS, node(1), node(2))

    delta = made.take(START)

    assert (delta.counts.running, delta.counts.pending, delta.hosts) == (1, 2, 1)


def test_what_is_told_later_than_an_early_state_wins():
    made = model(1)
    apply(made, state(1, "RUNNING"), node(1), state(1, "SUCCEEDED"))
    apply(made, state(1, "RUNNING"))

    assert made.take(START).counts.succeeded == 1


@pytest.mark.parametrize("array_first", [True, False])
@pytest.mark.parametrize("array", [1, 2, 3, 2 | 1 << 3])
def test_an_array_between_a_leaf_and_its_node_loses_nothing(array, array_first):
    made = model(1)
    records = [
        frames.States(0, bytes((0, array)), bytes(2)),
        state(1, "RUNNING", START + 7, host="h"),
    ]
    apply(made, *(records if array_first else records[::-1]))
    apply(made, progress(1, 1, try_=array >> 3 | 1, message="m"))
    apply(made, node(1), frames.RESENT)

    delta = made.take(START)

    state_, try_ = delta.details[1].state, delta.details[1].try_
    assert state_ == ("RUNNING", "SUCCEEDED")[array == 3]
    assert try_ == (array >> 3) + 1
    assert delta.counts.of(state_) == 1
    assert stages.decode(delta.stages).stages[0].counts[NODE_STATES.index(state_)] == 1
    if try_ == 1:
        assert delta.details[1].message == "m"
        assert (delta.details[1].started_ms, delta.details[1].host) == (START + 7, "h")


@pytest.mark.parametrize("try_", [32, 33])
def test_a_try_past_the_counters_is_the_rows_all_the_same(try_):
    made = model(1)
    apply(made, state(1, "RUNNING", try_=try_))
    apply(made, frames.States(0, bytes(2), bytes(2)), node(1), frames.RESENT)

    delta = made.take(START)

    assert (delta.details[1].state, delta.details[1].try_) == ("RUNNING", try_)
    assert (delta.counts.running, delta.counts.pending) == (1, 1)


@pytest.mark.parametrize(("number", "kept"), [(1_023, True), (1_024, True), (1_025, 0)])
def test_early_records_are_kept_of_a_bounded_number_of_nodes(number, kept):
    made = model()
    apply(made, *(state(each, "RUNNING") for each in range(number)))
    apply(made, *(node(each) for each in range(number)))

    assert made.tallies["unknown_node"] == (not kept)
    assert made.take(START).counts.running == min(number, 1_024)


def test_progress_of_an_unknown_task_is_asked_for_again():
    made = model(2)

    assert apply(made, progress(b"task", 1)) == [b"task"]
    apply(made, frames.Task(1, b"task"))
    assert apply(made, progress(b"task", 1, message="m")) == [None]

    delta = made.take(START)
    assert delta.details[1].message == "m"
    assert made.tallies["unknown_task"] == 1


@pytest.mark.parametrize("policy", ["full", "summary"])
def test_the_first_report_by_task_says_that_its_node_runs(policy):
    made = model(1, ReportingPolicy(policy))
    apply(made, frames.Task(0, b"task"), state(0, "SUBMITTED", START + 1))

    apply(made, progress(b"task", 1, at_ms=START + 5, host="h"))
    apply(made, progress(b"task", 2, at_ms=START + 9))

    delta = made.take(START + 9)
    assert (delta.counts.running, delta.counts.submitted) == (1, 0)
    assert delta.hosts == 1
    if policy == "full":
        detail = delta.details[0]
        assert (detail.state, detail.started_ms) == ("RUNNING", START + 5)
        assert (detail.submitted_ms, detail.reported_ms) == (START + 1, START + 9)


@pytest.mark.parametrize("policy", ["full", "summary"])
def test_a_report_by_task_opens_no_node_that_has_ended(policy):
    made = model(1, ReportingPolicy(policy))
    apply(made, frames.Task(0, b"task"), state(0, "SUCCEEDED"))

    apply(made, progress(b"task", 1))

    counts = made.take(START).counts
    assert (counts.succeeded, counts.running) == (1, 0)


def test_a_report_by_ordinal_moves_no_state():
    made = model(1)
    apply(made, state(0, "SUBMITTED"), progress(0, 1))

    assert made.take(START).counts.submitted == 1


@pytest.mark.parametrize(("tasks", "known"), [(3, True), (4, True), (5, False)])
def test_tasks_are_remembered_in_bounded_memory(tasks, known):
    made = model(9, retained_nodes=4)
    apply(made, *(frames.Task(each, bytes([each])) for each in range(tasks)))

    (unknown,) = apply(made, progress(bytes([0]), 1))

    assert (unknown is None) is known


def test_progress_of_an_omitted_node_is_counted_and_dropped():
    made = model(2, retained_nodes=1)

    apply(made, progress(1, 1, message="m", host="h"))

    assert told(made) == {"applied": 2, "omitted": 1}
    assert made.take(START).hosts == 1


def test_declarations_add_up_over_calls():
    made = model()

    apply(made, frames.Declare(1, 10), frames.Declare(2, 5), frames.Declare(1, 10))

    assert made.take(START).declared == 15
    assert told(made) == {"applied": 2, "resent": 1}


def test_a_corrected_declaration_is_a_change():
    made = model()
    apply(made, frames.Declare(1, 10))
    published(made)

    apply(made, frames.Declare(1, 4))

    assert made.changed(START)
    assert made.take(START).declared == 4


def test_what_no_producer_may_send_yet_is_counted():
    made = model(1)

    apply(made, frames.Session(b"{}"))

    assert told(made) == {"applied": 1, "unsupported": 1}


@pytest.mark.parametrize("first", ["preview", "state", "preview of no node"])
def test_a_preview_is_stored_with_its_node_whenever_it_comes(first):
    made = model(1)
    end_of_it = [node(1), state(1, "SUCCEEDED"), preview(1, b'"head"')]
    places = {
        "preview": (0, 2, 1),
        "state": (0, 1, 2),
        "preview of no node": (2, 0, 1),
    }

    apply(made, *(end_of_it[place] for place in places[first]))

    found = made.take(START).details[1]
    assert (found.state, found.preview) == ("SUCCEEDED", msgspec.Raw(b'"head"'))


def test_a_repeated_preview_changes_nothing():
    made = model(1)
    apply(made, preview(0))
    published(made)

    apply(made, preview(0), preview(0, b"2"))

    assert told(made) == {"applied": 2, "duplicate": 2}
    assert not made.changed(START)


@pytest.mark.parametrize(
    ("policy", "retained"), [("full", 1), ("summary", 10), ("terminal_only", 10)]
)
def test_a_preview_of_a_node_without_detail_is_omitted(policy, retained):
    made = model(2, ReportingPolicy(policy), retained_nodes=retained)

    apply(made, preview(1))

    assert told(made) == {"applied": 2, "omitted": 1}


def test_a_preview_of_an_end_that_is_committed_changes_nothing():
    made = model(1)
    apply(made, end())
    published(made)

    apply(made, preview(0))

    assert told(made)["ended"] == 1


def test_previews_take_what_is_left_in_order_of_commit():
    # Room for the reserves and one preview beyond them.
    run = Run(limits(detail_encoded=2 * 256 + 400))
    run.apply(node(0), node(1), preview(1, BIG), state(1, "SUCCEEDED"))
    run.publish()

    run.apply(preview(0, BIG), state(0, "SUCCEEDED"))
    run.publish()

    first, second = (run.store.rows[each].record for each in (0, 1))
    assert msgspec.json.decode(first)["preview"] == {"omitted": "detail_size_limit"}
    assert msgspec.json.decode(second)["preview"] == msgspec.json.decode(BIG)
    assert run.store.read().detail.reasons == ("detail_size_limit",)


def test_an_array_sets_the_states_that_no_record_tells():
    made = model(3)
    apply(made, state(0, "RUNNING"))

    record = frames.States(0, bytes((1, 2, 3 | 1 << 3)), bytes(3))
    for _ in range(2):
        apply(made, record, frames.NEWS, frames.RESENT)

    delta = made.take(START)
    assert [each.state for each in delta.details] == ["RUNNING", "RUNNING", "SUCCEEDED"]
    assert [each.try_ for each in delta.details] == [1, 1, 2]
    assert told(made) == {"applied": 5, "resent": 5}


def test_an_array_takes_no_times_from_the_record_that_has_them():
    made = model(1)
    record = state(0, "FAILED", START + 9, started_ms=START, host="h")

    apply(made, frames.States(0, b"\4", b"\0"), frames.NEWS, record, frames.RESENT)

    delta = made.take(START)
    assert (delta.details[0].started_ms, delta.details[0].ended_ms) == (
        START,
        START + 9,
    )
    assert sum(delta.ended_by_minute) == 1
    assert len(decode_events(delta.events)) == 1


def test_an_array_with_a_piece_missing_says_nothing():
    made = model(3)

    apply(made, frames.States(0, b"\3", b"\0"), frames.States(2, b"\3", b"\0"))
    apply(made, frames.RESENT)

    assert told(made)["gap"] == 1
    assert made.take(START).counts.succeeded == 1


def test_an_array_counts_no_node_that_is_not_registered():
    made = model(1)

    apply(made, frames.States(0, bytes((0, 2, 5)), bytes((0, 200, 7))), frames.RESENT)

    assert made.take(START).counts.total == 1


def test_waiting_nodes_are_in_the_counts_and_their_rows_wait_with_them():
    made = model(1)
    published(made)
    apply(made, node(1, 0, 1), state(1, "RUNNING"), state(0, "RUNNING"))

    soon = published(made, START + 1_999)
    later = published(made, START + 2_000)

    assert (soon.ordinals, soon.nodes, soon.waiting) == ([0], [], 1)
    assert soon.counts.running == 2
    assert [each.ordinal for each in later.nodes] == [1]
    assert later.ordinals == [1]
    assert later.details[0].state is NodeState.RUNNING


def test_the_end_is_published_with_all_that_waits():
    made = model(1)
    published(made)

    apply(made, node(1), end())

    delta = published(made)
    assert [each.ordinal for each in delta.nodes] == [1]
    assert delta.end == made.ended == end()
    assert made.is_over


def test_after_the_end_nothing_is_published_or_applied():
    made = model(1)
    apply(made, end(), end("FAILED"))
    published(made)

    apply(made, node(1), state(0, "RUNNING"))

    assert not made.changed(START + 60_000)
    assert made.take(START + 60_000) is None
    assert told(made) == {"applied": 2, "duplicate": 1, "ended": 2}


@pytest.mark.parametrize(("ms", "due"), [(-1, False), (0, True), (1, True)])
def test_with_nothing_changed_a_heartbeat_is_due_after_five_seconds(ms, due):
    made = model(1)
    published(made)

    assert made.changed(START + HEARTBEAT_MS + ms) is due


def test_a_heartbeat_holds_no_row_and_no_change():
    made = model(1)
    first = published(made)

    delta = published(made, START + HEARTBEAT_MS)

    assert not delta.changed
    assert (delta.ordinals, delta.nodes, delta.stages) == ([], [], None)
    assert (delta.changed_ms, delta.taken_ms) == (START, START + HEARTBEAT_MS)
    assert delta.ended_by_minute == first.ended_by_minute
    assert not made.changed(START + HEARTBEAT_MS + 1)


def test_a_stale_record_is_no_change():
    made = model(1)
    published(made)

    apply(made, state(0, "PENDING"), node(0))

    assert not made.changed(START)


def test_only_what_changed_is_taken():
    made = model(2_000)
    published(made)

    apply(made, state(1_234, "RUNNING"), progress(5, 1, current=1))

    assert made.changed_rows == 2
    assert made.take(START).ordinals == [5, 1_234]


def test_a_restored_delta_is_handed_out_again_with_what_came_since():
    made = model(2)
    apply(made, frames.Event(START, "note", None, "hello"))
    lost = made.take(START)
    apply(made, node(2, 0, 2), state(0, "FAILED"))

    made.restore(lost)

    delta = made.take(START)
    assert [each.ordinal for each in delta.nodes] == [0, 1, 2]
    assert delta.stage_indexes == bytes(3)
    assert delta.ordinals == [0, 1, 2]
    assert (delta.counts.failed, delta.counts.total) == (1, 3)
    assert len(decode_events(delta.events)) == 2
    assert delta.stages is not None


@pytest.mark.parametrize("broken", [Stages, Events])
def test_a_take_that_fails_loses_nothing(broken, monkeypatch):
    plain, failed = model(3), model(3)
    for made in (plain, failed):
        apply(made, state(0, "FAILED"), frames.Event(START, "note", None, "hello"))

    with monkeypatch.context() as patched:
        patched.setattr(broken, "encode", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failed.take(START)

    assert failed.take(START) == plain.take(START)


def test_a_restored_delta_counts_nothing_twice():
    plain, failed = model(3), model(3)
    for made in (plain, failed):
        apply(made, state(0, "SUCCEEDED", host="a"), state(1, "FAILED"))

    for _ in range(3):
        failed.restore(failed.take(START))

    assert failed.take(START) == plain.take(START)


def test_a_restored_heartbeat_is_still_due():
    made = model(1)
    published(made)

    made.restore(made.take(START + HEARTBEAT_MS))

    assert made.changed(START + HEARTBEAT_MS)


def test_what_changes_after_a_take_is_in_the_next_delta():
    made = model(1)
    taken = made.take(START)
    apply(made, state(0, "RUNNING"))

    made.settle(taken)

    assert taken.details[0].state is NodeState.PENDING
    assert made.take(START).details[0].state is NodeState.RUNNING


def test_endings_are_told_by_minute_up_to_the_last_change():
    made = model(3)
    apply(made, state(0, "FAILED", START - 60_000), state(1, "SKIPPED", START))

    delta = made.take(START + 200_000)

    assert delta.ended_by_minute == (0, 0, 0, 0, 0, 0, 0, 0, 1, 1)


def test_hosts_are_counted():
    made = model(3)
    for ordinal, host in enumerate(("a", "b", "a")):
        apply(made, state(ordinal, "RUNNING", host=host))

    assert made.take(START).hosts == 2


def test_a_failure_is_an_event_and_the_first_is_kept_apart():
    made = model(3, retained_nodes=2)
    error = frames.Failure("ValueError", "no such file")
    apply(made, state(1, "FAILED", error=error), state(2, "FAILED"))

    delta = made.take(START)

    events = decode_events(delta.events)
    assert [(each.kind, each.ordinal) for each in events] == [
        ("failed", 1),
        ("failed", 2),
    ]
    assert events[0].text == "ValueError: no such file"
    failure = stages.decode(delta.stages).failure
    assert (failure.node_id, failure.kind) == ("1.step[1]", "ValueError")


def test_the_first_failure_may_be_of_an_omitted_node():
    made = model(2, retained_nodes=1)
    apply(made, state(1, "FAILED"))

    failure = stages.decode(made.take(START).stages).failure

    assert (failure.ordinal, failure.node_id) == (1, "")


def test_stages_count_all_nodes_and_the_retained_ones():
    made = model(retained_nodes=2)
    apply(
        made,
        node(0, stage="read"),
        node(1, 0, 1, stage="parse"),
        node(2, 0, 1, stage="parse"),
        node(3, 0, 3, stage="join"),
        state(1, "RUNNING", START + 5),
        state(1, "SUCCEEDED", START + 9),
        state(2, "SUCCEEDED", START + 20, started_ms=START + 2),
    )

    row = stages.decode(made.take(START).stages)

    found = {each.label: each for each in row.stages}
    assert [each.rank for each in row.stages] == [0, 1, 2]
    assert (found["parse"].kept, found["parse"].counts[3]) == (1, 2)
    assert (found["parse"].started_ms, found["parse"].ended_ms) == (
        START + 2,
        START + 20,
    )
    assert found["parse"].longest_ms == 18
    assert {(each.source, each.target): each.edges for each in row.edges} == {
        (0, 1): 2,
        (0, 2): 1,
        (1, 2): 2,
    }


@pytest.mark.parametrize("policy", ["summary", "terminal_only"])
def test_without_detail_no_node_is_kept_and_all_are_counted(policy):
    made = model(3, ReportingPolicy(policy))
    apply(
        made,
        state(0, "FAILED", host="h"),
        progress(1, 1, message="m"),
        frames.Event(START, "note", 1, "x"),
        end(),
    )

    delta = published(made)

    assert (delta.counts.failed, delta.counts.pending, delta.hosts) == (1, 2, 1)
    assert (delta.ordinals, delta.nodes, delta.edges) == ([], [], [])
    assert (delta.stages, delta.events, delta.waiting) == (None, None, 0)
    assert delta.reasons == frozenset()


def test_under_terminal_only_the_end_alone_is_published():
    made = model(3, ReportingPolicy.terminal_only)

    assert not made.changed(START + 60_000)
    apply(made, end())
    assert made.changed(START)


def test_the_tallies_are_a_closed_set():
    assert tuple(model(2).tallies) == TALLIES


def test_the_counts_add_up_to_the_discovered_at_every_state():
    made = model(len(NODE_STATES), retained_nodes=3)
    for ordinal, name in enumerate(NODE_STATES):
        apply(made, state(ordinal, name))

    counts = made.take(START).counts
    assert all(counts.of(name) == 1 for name in NODE_STATES)


def test_memory_past_the_retained_nodes_is_two_bytes_a_node():
    made = model(10, retained_nodes=10)
    record = node(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for ordinal in range(10, 50_010):
        made.apply(frames.Node(ordinal, "n", "l", record.stage), START)
        made.apply(state(ordinal, "SUCCEEDED"), START)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert grown < 50_000 * 3 + 100_000


@pytest.mark.parametrize("policy", [ReportingPolicy.full, ReportingPolicy.summary])
@pytest.mark.parametrize("over", [False, True])
def test_the_records_of_a_frame_are_applied_as_one_by_one(policy, over):
    records = (
        *(progress(ordinal, 2, current=3, host="a") for ordinal in range(6)),
        state(1, "RUNNING"),
        progress(1, 3, current=4, total=9, host="b"),
        progress(1, 2, current=8),
        progress(b"task", 1, current=1),
        frames.Task(2, b"task"),
        progress(b"task", 2, current=1),
        preview(1),
        progress(0, 3, try_=2, message="ahead"),
    )
    single, whole = (model(4, policy, retained_nodes=3) for _ in range(2))
    if over:
        for made in (single, whole):
            apply(made, end())
            published(made)

    unknown = [target for target in apply(single, *records) if target is not None]

    assert whole.apply_all(records, START) == unknown
    assert whole.tallies == single.tallies
    if not over:
        assert published(whole) == published(single)
