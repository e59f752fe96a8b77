"""A producer loses nothing, bothers nobody, and keeps its window."""

import threading
import time
from statistics import median

import pytest

from actors.link import HEADER, PATIENCE_MS
from actors.producer import WORKER_SLOTS, Producer
from django_ray.progress.ledger import Mark
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind, State, Status
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NodeState
from tests.fakes import RUN_ID, FakeClock, FakeCollector, FakeHandle


class Bench:
    """A producer, its clock, and a collector that does as told."""

    def __init__(self, kind=ProducerKind.coordinator, resync=tuple, limits=V1):
        self.clock = FakeClock()
        self.collector = FakeCollector()
        self.handle = FakeHandle(self.collector.ingest)
        self.producer = Producer(
            run_id=RUN_ID,
            generation=1,
            kind=kind,
            producer=b"p" * 16,
            handle=self.handle,
            limits=limits,
            clock=self.clock,
            resync=resync,
        )

    def step(self, milliseconds=0):
        self.producer.step(self.clock.advance(milliseconds))

    def turn(self, times=1, milliseconds=50):
        for _ in range(times):
            self.step(milliseconds)

    def settle(self, turns=40, milliseconds=50):
        for _ in range(turns):
            self.step(milliseconds)
            self.collector.commit()
            if self.producer.settle(0):
                return True
        return False

    def told(self):
        """Return what was applied, but for the marks of a resync."""
        marks = (frames.NEWS, frames.RESENT)
        return [record for record in self.collector.applied if record not in marks]

    def frames(self, *, empty=False):
        return [frame for frame in self.collector.frames if frame.records or empty]


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def worker():
    return Bench(ProducerKind.worker)


def node(ordinal):
    return frames.Node(ordinal, f"1.n[{ordinal}]", "n", "n")


def state(ordinal, state=NodeState.SUBMITTED, try_=1, invocation=0, error=None):
    return State(ordinal, invocation, try_, state, 1_000, error=error)


def failed(ordinal, try_=1):
    error = frames.Failure("ValueError", f"try {try_}")
    return state(ordinal, NodeState.FAILED, try_, error=error)


def report(target, sequence=1, message=None):
    return frames.Progress(target, 0, 1, sequence, 1_000, message=message)


def test_what_is_reported_arrives_in_order_and_is_dropped_once_committed(bench):
    bench.producer.declare(1, 2)
    bench.producer.node(node(0))
    bench.producer.task(0, b"t")
    bench.producer.state(state(0))
    bench.turn(2)
    assert bench.collector.applied == [
        frames.Declare(1, 2),
        node(0),
        frames.Task(0, b"t"),
        state(0),
    ]
    assert bench.producer.backlog == 4
    bench.collector.commit()
    bench.turn(3)
    assert bench.producer.backlog == 0


def test_a_coordinator_greets_at_once_and_then_says_every_five_seconds_it_lives(bench):
    bench.step()
    bench.turn(99)
    assert len(bench.frames(empty=True)) == 1
    bench.turn(2)
    assert len(bench.frames(empty=True)) == 2


def test_a_worker_with_nothing_to_say_says_nothing(worker):
    worker.turn(20, 1_000)
    assert worker.frames(empty=True) == []


def test_a_leafs_report_is_held_until_it_is_known_committed(worker):
    assert not worker.producer.holds_progress(3)
    worker.producer.progress(report(3))
    assert worker.producer.holds_progress(3)
    assert not worker.producer.holds_progress(4)
    worker.turn(20)
    assert worker.collector.applied == [report(3)]
    assert worker.producer.holds_progress(3)
    worker.collector.commit()
    worker.turn(20, 1_000)
    assert not worker.producer.holds_progress(3)


def test_a_node_has_a_report_and_a_preview_and_of_each_try_the_first(bench):
    first, second = (frames.Preview(0, 0, try_, b"1") for try_ in (1, 2))
    bench.producer.progress(report(0))
    bench.producer.preview(first)
    bench.producer.preview(frames.Preview(0, 0, 1, b"2"))
    bench.turn(2)
    assert bench.collector.applied == [report(0), first]
    bench.producer.preview(second)
    bench.producer.preview(first)
    bench.turn(2)
    assert bench.collector.applied == [report(0), first, second]


def test_only_the_latest_state_of_a_node_is_sent(bench):
    for each in (NodeState.PENDING, NodeState.RUNNING, NodeState.SUCCEEDED):
        bench.producer.state(state(0, each))
    bench.turn(2)
    assert bench.collector.applied == [state(0, NodeState.SUCCEEDED)]


@pytest.mark.parametrize(
    "late",
    [
        state(0, NodeState.RUNNING),
        state(0, NodeState.FAILED),
        state(0, NodeState.SUBMITTED, try_=1),
    ],
)
def test_an_end_is_never_replaced_by_an_older_or_equal_state(bench, late):
    bench.producer.state(state(0, NodeState.SUCCEEDED))
    bench.producer.state(late)
    bench.turn(2)
    assert bench.collector.applied == [state(0, NodeState.SUCCEEDED)]
    assert bench.producer.tallies["stale"] == 1


def test_a_failure_is_sent_although_the_next_try_has_begun(bench):
    bench.producer.state(failed(0))
    bench.producer.state(state(0, NodeState.SUBMITTED, try_=2))
    bench.producer.state(state(0, NodeState.SUCCEEDED, try_=2))
    bench.turn(2)
    assert bench.collector.applied == [
        failed(0),
        state(0, NodeState.SUCCEEDED, try_=2),
    ]


def test_failures_beside_later_tries_are_bounded(bench):
    for try_ in range(1, 1_024 + 3):
        bench.producer.state(failed(0, try_))
    assert bench.producer.backlog == 1_025
    assert bench.settle()
    assert len(bench.collector.applied) == 1_025


def test_a_newer_state_after_an_unanswered_one_is_sent_again(bench):
    bench.producer.state(state(0))
    bench.handle.mute = True
    bench.turn()
    bench.producer.state(state(0, NodeState.SUCCEEDED))
    bench.turn()
    bench.handle.mute = False
    assert bench.settle()
    assert bench.collector.applied == [state(0), state(0, NodeState.SUCCEEDED)]


def test_a_commit_of_an_older_value_keeps_the_newer(bench):
    bench.producer.state(state(0))
    bench.turn(2)
    bench.producer.state(state(0, NodeState.SUCCEEDED))
    bench.collector.commit()
    bench.handle.mute = True
    bench.step()
    assert bench.producer.backlog == 1
    bench.handle.mute = False
    assert bench.settle()
    assert bench.collector.applied[-1] == state(0, NodeState.SUCCEEDED)


@pytest.mark.parametrize(
    ("kind", "window"),
    [
        (ProducerKind.coordinator, 2),
        (ProducerKind.worker, 1),
        (ProducerKind.owner, 1),
    ],
)
def test_the_window_is_kept_exactly(kind, window):
    bench = Bench(kind)
    bench.handle.mute = True
    for ordinal in range(500):
        bench.producer.progress(report(ordinal, message="x" * 200))
    bench.turn(20, 1_000)
    assert bench.handle.most == len(bench.handle.calls) == window
    bench.handle.mute = False
    assert bench.settle(600, 500)
    assert bench.handle.most == window


def test_a_frame_is_cut_at_1024_records(bench):
    for ordinal in range(1_025):
        bench.producer.state(state(ordinal))
    bench.turn(3)
    assert [len(frame.records) for frame in bench.frames()] == [1_024, 1]


@pytest.mark.parametrize(
    ("kind", "limit"),
    [(ProducerKind.coordinator, 96 * 1_024), (ProducerKind.worker, 16 * 1_024)],
)
def test_a_frame_is_cut_before_its_size(kind, limit):
    bench = Bench(kind)
    bench.handle.ingest = lambda frame: bench.collector.ingest(frame)
    for ordinal in range(200):
        bench.producer.progress(report(ordinal, message="m" * 2_000))
    assert bench.settle(200, 500)
    full = [size for size in bench.handle.sizes if size > 1_000]
    assert max(full) <= limit
    assert max(full) > limit - 2_100 - 128


def test_one_record_above_the_cut_travels_alone():
    large = frames.States(0, bytes(V1.frame_cut), bytes(V1.frame_cut))
    bench = Bench(resync=lambda: (large,))
    bench.producer.node(node(0))
    bench.collector.status = Status.RESYNC
    bench.turn(2)
    bench.collector.status = None
    assert bench.settle()
    assert [each.records for each in bench.frames()[-2:]] == [
        (large,),
        (frames.NEWS, node(0), frames.RESENT),
    ]


def test_a_coordinator_sends_full_frames_at_once_and_the_rest_by_the_interval(bench):
    bench.step()
    bench.step()
    for ordinal in range(2 * 1_024 + 1):
        bench.producer.node(node(ordinal))
    bench.step()
    assert len(bench.handle.calls) == 2
    bench.step(1)
    assert len(bench.frames()) == 2
    bench.turn(2)
    assert len(bench.frames()) == 3


def test_a_worker_keeps_its_interval_however_much_it_holds(worker):
    worker.collector.interval_ms = 2_000
    for ordinal in range(1_000):
        worker.producer.progress(report(ordinal, message="m" * 100))
    worker.step()
    worker.turn(1_999 // 10, 10)
    assert len(worker.frames()) == 1
    worker.step(10)
    worker.step()
    assert len(worker.frames()) == 2


def test_the_interval_is_the_one_last_acknowledged(bench):
    bench.collector.interval_ms = 400
    bench.producer.node(node(0))
    bench.step()
    bench.step()
    bench.producer.node(node(1))
    bench.turn(7)
    assert len(bench.frames()) == 1
    bench.turn(2)
    assert len(bench.frames()) == 2


def test_a_clock_set_back_delays_nothing(bench):
    bench.step()
    bench.step()
    bench.producer.node(node(0))
    bench.step(-3_600_000)
    bench.step()
    assert bench.collector.applied == [node(0)]


def test_an_empty_frame_asks_each_interval_while_something_is_uncommitted(bench):
    bench.producer.node(node(0))
    bench.turn(11)
    assert [len(frame.records) for frame in bench.collector.frames] == [1] + 9 * [0]
    numbers = [frame.number for frame in bench.collector.frames]
    assert numbers == list(range(1, 11))
    bench.collector.commit()
    bench.turn(5)
    assert len(bench.collector.frames) == 11


@pytest.mark.parametrize(
    ("kind", "growing", "last"),
    [
        (ProducerKind.coordinator, (100, 200, 400, 800), 1_000),
        (ProducerKind.worker, (500, 500, 500, 800, 1_600, 3_200), 5_000),
    ],
)
def test_a_failed_call_is_tried_again_after_a_growing_pause(kind, growing, last):
    bench = Bench(kind)
    bench.handle.away = True
    bench.producer.progress(report(0))
    bench.turn(4_000, 10)
    longest = (40_000 - sum(growing)) // last
    assert abs(len(bench.handle.sizes) - (1 + len(growing) + longest)) <= 1
    bench.handle.away = False
    bench.turn(600, 10)
    assert bench.told() == [report(0)]


def test_a_frame_whose_answer_was_lost_is_said_again_in_a_new_one(bench):
    bench.handle.deaf = True
    bench.producer.node(node(0))
    bench.turn(2)
    bench.handle.deaf = False
    assert bench.settle()
    assert set(bench.collector.applied) == {node(0)}
    assert bench.producer.tallies["resyncs"] == 0


def test_no_commit_is_believed_past_a_frame_that_is_not_answered(bench):
    """Its RESYNC may be what got lost, and the frame behind it a new beginning."""
    bench.handle.mute = True
    for ordinal in range(2_048):
        bench.producer.node(node(ordinal))
    bench.step()
    first = next(iter(bench.handle.calls))
    bench.handle.mute = False
    bench.handle.late = first
    bench.step()
    bench.collector.commit()
    bench.producer.node(node(2_048))
    bench.turn(2)
    assert bench.producer.backlog >= 2_049
    bench.handle.late = None
    assert bench.settle()


def test_nothing_newer_overtakes_a_frame_that_waits_to_be_repeated(bench):
    bench.handle.away = True
    bench.producer.node(node(0))
    bench.turn(2)
    bench.producer.node(node(1))
    bench.turn(2)
    bench.handle.away = False
    assert bench.settle()
    assert bench.told() == [node(0), node(1)]


def test_a_handle_that_raises_is_a_failed_call(bench):
    bench.handle.broken = True
    bench.producer.node(node(0))
    bench.turn(3)
    bench.handle.broken = False
    bench.handle.mute = True
    bench.turn(3)
    bench.handle.broken = True
    bench.turn(3)
    bench.handle.mute = bench.handle.broken = False
    bench.turn(20, 1_000)
    assert bench.told() == [node(0)]


def test_an_answer_that_does_not_parse_is_a_failed_call(bench):
    bench.handle.ingest = bytes.upper
    bench.producer.node(node(0))
    bench.turn(3)
    assert bench.producer.tallies["failed_calls"] >= 1
    bench.handle.ingest = bench.collector.ingest
    assert bench.settle()


def test_a_restarted_collector_gets_the_arrays_first_and_all_that_is_uncommitted():
    arrays = frames.States(0, b"\x01", b"\x00")
    bench = Bench(resync=lambda: (arrays,))
    bench.producer.node(node(0))
    bench.turn(3)
    bench.collector.commit()
    bench.turn(3)
    bench.producer.node(node(1))
    bench.producer.state(state(1))
    bench.turn(3)
    bench.collector.restart()
    bench.collector.applied.clear()
    bench.producer.node(node(2))
    assert bench.settle()
    told = [frames.NEWS, node(1), state(1), node(2), frames.RESENT]
    assert bench.collector.applied == [arrays, *told]
    assert bench.producer.tallies["resyncs"] == 1


def test_both_frames_of_a_window_answered_resync_restart_once(bench):
    bench.handle.mute = True
    for ordinal in range(2_048):
        bench.producer.node(node(ordinal))
    bench.step()
    assert len(bench.handle.calls) == 2
    bench.handle.mute = False
    bench.collector.status = Status.RESYNC
    bench.step()
    bench.collector.status = None
    assert bench.settle()
    assert bench.producer.tallies["resyncs"] == 1
    nodes = [node(ordinal) for ordinal in range(2_048)]
    assert bench.collector.applied == [frames.NEWS, *nodes, frames.RESENT]


def test_a_second_resync_does_not_repeat_the_arrays_of_the_first():
    calls = iter((frames.States(0, b"\x01", b"\x00"), frames.States(0, b"\x02", b"\0")))
    bench = Bench(resync=lambda: (next(calls),))
    bench.producer.node(node(0))
    bench.turn(2)
    bench.collector.restart()
    bench.turn(2)
    bench.collector.restart()
    bench.collector.applied.clear()
    assert bench.settle()
    assert bench.collector.applied == [
        *(frames.States(0, b"\x02", b"\0"), frames.NEWS, node(0), frames.RESENT)
    ]


def test_a_collector_that_always_asks_anew_is_asked_ever_more_slowly(bench):
    bench.collector.status = Status.RESYNC
    bench.producer.node(node(0))
    bench.turn(6_000, 10)
    assert len(bench.collector.frames) < 70


def test_a_resync_that_fails_still_sends_the_latest_values():
    def broken():
        raise RuntimeError("bug")

    bench = Bench(resync=broken)
    bench.producer.node(node(0))
    bench.turn(2)
    bench.collector.restart()
    assert bench.settle()
    assert bench.collector.applied == [node(0), frames.NEWS, node(0), frames.RESENT]


@pytest.mark.parametrize("status", [Status.FENCED, Status.NOT_ADMITTED])
def test_a_producer_that_is_not_wanted_falls_silent_and_holds_nothing(bench, status):
    bench.collector.status = status
    bench.producer.node(node(0))
    bench.turn(3)
    sent = len(bench.collector.frames)
    bench.collector.status = None
    bench.producer.node(node(1))
    bench.producer.state(state(1))
    bench.turn(300)
    assert bench.producer.silent
    assert len(bench.collector.frames) == sent
    assert bench.producer.backlog == 0
    assert not bench.producer.settle(60)


def test_a_collector_that_is_not_ready_is_told_nothing_new_until_it_is(bench):
    bench.producer.node(node(0))
    bench.turn(3)
    bench.collector.restart()
    bench.collector.epoch = 0
    bench.collector.frames.clear()
    bench.producer.node(node(1))
    bench.turn(1_200)
    assert bench.producer.tallies["resyncs"] == 0
    assert 60 <= len(bench.collector.frames) <= 70
    bench.collector.epoch = 2
    assert bench.settle()
    assert bench.told()[-2:] == [node(0), node(1)]
    assert bench.producer.tallies["resyncs"] == 1


def test_what_a_collector_had_applied_is_told_as_such_to_the_next():
    bench = Bench(resync=lambda: (frames.States(0, b"\x01\x01", bytes(2)),))
    for ordinal in (0, 1):
        bench.producer.node(node(ordinal))
    bench.turn(3)
    number = bench.collector.frames[-1].number
    bench.handle.away = True
    bench.producer.state(state(0))
    bench.turn(3)
    bench.handle.away = False
    bench.collector.restart(Mark(b"p" * 16, number))
    bench.collector.applied.clear()
    assert bench.settle()
    assert bench.collector.applied == [
        frames.States(0, b"\x01\x01", bytes(2)),
        *(node(0), node(1), frames.NEWS, state(0), frames.RESENT),
    ]


@pytest.mark.parametrize("kind", [ProducerKind.worker, ProducerKind.coordinator])
def test_a_producer_leaves_a_collector_that_another_has_replaced(kind):
    bench = Bench(kind)
    bench.producer.progress(report(0))
    bench.collector.status, bench.collector.reason = Status.FENCED, "writer_epoch"
    bench.turn(40)
    assert not bench.producer.silent
    assert bench.producer.backlog
    bench.handle.ingest = (other := FakeCollector()).ingest
    for _ in range(200):
        bench.step(50)
        other.commit()
    assert report(0) in other.applied
    assert not bench.producer.backlog


def test_a_worker_gives_a_replaced_collector_up_in_the_end(worker):
    worker.producer.progress(report(0))
    worker.collector.status, worker.collector.reason = Status.FENCED, "writer_epoch"
    worker.turn(PATIENCE_MS // 500 + 20, 500)
    assert worker.producer.silent
    assert worker.producer.gone


def test_a_refused_record_is_found_and_given_up_and_nothing_else(bench):
    bad = node(700)
    bench.collector.refused = lambda record: record == bad
    for ordinal in range(2_000):
        bench.producer.node(node(ordinal))
    assert bench.settle(400)
    applied = {record.ordinal for record in bench.told()}
    assert applied == set(range(2_000)) - {700}


def test_a_collector_that_refuses_everything_is_left_alone(bench):
    bench.collector.refused = bool
    for ordinal in range(100):
        bench.producer.node(node(ordinal))
    bench.turn(2_000)
    assert bench.producer.silent
    assert len(bench.collector.frames) <= 60


@pytest.mark.parametrize(
    ("kind", "failing_ms", "gone"),
    [
        (ProducerKind.worker, PATIENCE_MS - 1, False),
        (ProducerKind.worker, PATIENCE_MS, True),
        (ProducerKind.worker, PATIENCE_MS + 1, True),
        (ProducerKind.coordinator, 10 * PATIENCE_MS, False),
    ],
)
def test_a_worker_whose_calls_fail_for_a_minute_falls_silent(kind, failing_ms, gone):
    bench = Bench(kind)
    bench.producer.progress(report(0))
    bench.handle.away = True
    bench.turn(2, 0)
    began = bench.clock()
    # The next call comes when its interval is over, and fails at the moment asked for.
    bench.step(500)
    assert bench.producer.tallies["failed_calls"] == 1
    bench.clock.now_ms = began + failing_ms
    bench.step()
    assert bench.producer.gone is bench.producer.silent is gone
    assert bench.producer.backlog == (not gone)


def test_one_answer_within_a_minute_is_enough_to_go_on(worker):
    worker.producer.progress(report(0))
    for _ in range(4):
        worker.handle.away = True
        worker.turn(50, 1_000)
        worker.handle.away = False
        worker.turn(10, 1_000)
    assert not worker.producer.silent
    assert worker.settle(10, 1_000)


def test_a_handle_that_says_there_is_no_collector_any_more_ends_it_at_once(worker):
    worker.producer.progress(report(0))
    worker.handle.send = lambda _frame: None
    worker.step()
    assert worker.producer.silent
    assert worker.producer.gone
    assert worker.producer.backlog == 0
    assert not worker.producer.settle(60)


def test_a_producer_that_is_fenced_off_is_silent_and_its_collector_not_gone(worker):
    worker.collector.status = Status.FENCED
    worker.producer.progress(report(0))
    worker.turn(3, 500)
    assert worker.producer.silent
    assert not worker.producer.gone


def test_progress_of_a_task_not_known_yet_is_sent_again(worker):
    worker.collector.unknown = (b"task",)
    worker.producer.progress(report(b"task"))
    worker.turn(3, 500)
    worker.collector.unknown = ()
    worker.collector.commit()
    sent = len([r for r in worker.collector.applied if r == report(b"task")])
    assert sent >= 2
    worker.settle(10, 500)
    assert worker.producer.backlog == 0


def test_a_worker_holds_at_most_1024_values_and_the_newest_of_them(worker):
    worker.handle.away = True
    for ordinal in range(WORKER_SLOTS + 5):
        worker.producer.progress(report(ordinal))
        worker.producer.progress(report(ordinal, 2))
    worker.turn(40, 1_000)
    assert worker.producer.backlog == WORKER_SLOTS
    worker.handle.away = False
    assert worker.settle(300, 1_000)
    assert worker.collector.applied[-1] == report(WORKER_SLOTS + 4, 2)


def test_of_the_events_not_committed_the_latest_32_are_kept(bench):
    for number in range(40):
        bench.producer.event(frames.Event(number, "kind", None, ""))
    assert bench.producer.backlog == 32
    assert bench.settle()
    times = sorted(event.at_ms for event in bench.collector.applied)
    assert times == list(range(8, 40))


def test_running_is_said_only_of_a_leaf_older_than_the_interval(worker):
    now = worker.clock.now_ms
    worker.producer.running(1, 1, now, "host")
    worker.step(499)
    assert worker.frames(empty=True) == []
    worker.step(1)
    worker.step(1)
    running = State(1, 0, 1, NodeState.RUNNING, now, now, "host")
    assert worker.collector.applied == [running]
    worker.turn(3, 500)
    assert worker.collector.applied == [running]


def test_a_leaf_that_ends_within_the_interval_costs_no_call(worker):
    for ordinal in range(100):
        worker.producer.running(ordinal, 1, worker.clock.now_ms)
        worker.step(10)
        worker.producer.ended(ordinal)
    worker.turn(10, 500)
    assert worker.frames(empty=True) == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (frames.Node(0, "\ud800", "", ""), "malformed"),
        (frames.Node(2**70, "", "", ""), "malformed"),
        (frames.Node(0, "n" * V1.frame, "", ""), "oversized"),
    ],
)
def test_what_cannot_be_sent_is_counted_and_raises_nothing(bench, record, reason):
    bench.producer.node(record)
    assert bench.producer.tallies[reason] == 1
    bench.producer.node(node(0))
    assert bench.settle()
    assert bench.collector.applied == [node(0)]


def test_the_end_goes_at_once(bench):
    bench.collector.interval_ms = 30_000
    bench.producer.node(node(0))
    bench.step()
    bench.step()
    bench.producer.end(frames.End("SUCCEEDED", 1_000))
    bench.step(1)
    bench.step(1)
    assert bench.collector.applied[-1] == frames.End("SUCCEEDED", 1_000)


def test_settle_says_no_when_the_time_is_over(bench):
    bench.producer.node(node(0))
    bench.turn(3)
    assert not bench.producer.settle(0.01)


def test_a_report_costs_the_same_however_much_is_held(bench):
    """In units of what encoding it costs, with few records held and with many."""

    def cost(first):
        records = [state(ordinal) for ordinal in range(first, first + 2_000)]
        reports = [seconds(bench.producer.state, record) for record in records]
        return median(reports) / median(seconds(frames.encode, r) for r in records)

    few = cost(0)
    for ordinal in range(2_000, 60_000):
        bench.producer.state(state(ordinal))
    many = cost(60_000)

    assert bench.producer.backlog == 62_000
    assert many < 60
    assert many < 4 * few


def seconds(function, argument):
    began = time.perf_counter()
    function(argument)
    return time.perf_counter() - began


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        (ProducerKind.coordinator, V1.frame),
        (ProducerKind.owner, V1.frame),
        (ProducerKind.worker, V1.worker_frame),
    ],
)
def test_a_record_leaves_as_long_as_its_frame_is_within_the_bound(kind, limit, over):
    bench = Bench(kind)
    event = frames.Event(1, "k", None, "t" * limit)
    excess = len(frames.encode(event)) - (limit - HEADER + over)
    event = frames.Event(1, "k", None, "t" * (limit - excess))
    assert len(frames.encode(event)) == limit - HEADER + over

    bench.producer.event(event)

    assert bench.producer.backlog == (over <= 0)
    assert bench.producer.tallies["oversized"] == (over > 0)
    bench.turn(3, 1_000)
    assert all(size <= limit for size in bench.handle.sizes)
    assert (max(bench.handle.sizes, default=0) > limit - HEADER) is (over <= 0)


def test_what_many_threads_report_is_all_committed_by_the_thread():
    bench = Bench()
    bench.collector.interval_ms = 10
    producer = Producer(
        run_id=RUN_ID,
        generation=1,
        kind=ProducerKind.coordinator,
        producer=b"p" * 16,
        handle=bench.handle,
        limits=V1,
        clock=lambda: time.monotonic_ns() // 1_000_000,
    )
    answer = bench.collector.ingest

    def ingest(frame):
        answered = answer(frame)
        bench.collector.commit()
        return answered

    bench.handle.ingest = ingest

    def work(first):
        for ordinal in range(first, first + 1_000):
            producer.state(state(ordinal, NodeState.RUNNING))
            producer.state(state(ordinal, NodeState.SUCCEEDED))

    producer.start()
    threads = [
        threading.Thread(target=work, args=(base,)) for base in range(0, 8_000, 1_000)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert producer.settle(10)
    assert producer.backlog == 0
    producer.stop()
    latest = {record.ordinal: record.state for record in bench.collector.applied}
    assert latest == dict.fromkeys(range(8_000), NodeState.SUCCEEDED)
    assert bench.handle.most <= 2


@pytest.mark.parametrize("trouble", ["mute", "away"])
def test_stop_never_hangs_on_a_dead_collector(bench, trouble):
    setattr(bench.handle, trouble, True)
    bench.producer.start()
    bench.producer.node(node(0))
    began = time.monotonic()
    bench.producer.stop()
    assert time.monotonic() - began < 2


def test_a_million_committed_entries_are_dropped_in_linear_time(bench):
    """Ten times the entries cost about ten times the time, not a hundred."""

    def spend(count):
        local = Bench()
        for ordinal in range(count):
            local.producer.node(node(ordinal))
        while len(local.collector.applied) < count:
            local.step(50)
        local.collector.commit()
        began = time.perf_counter()
        assert local.settle()
        return time.perf_counter() - began

    small, large = spend(2_000), spend(20_000)
    assert large < 40 * small + 0.05
