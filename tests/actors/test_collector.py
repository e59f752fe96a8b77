"""A collector answers every frame, applies each once, and commits what is stored."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.collector import REASONS, Collector
from django_ray.progress.bequest import Bequest
from django_ray.progress.early import EARLY
from django_ray.progress.pace import Pace
from django_ray.progress.standing import Standing
from django_ray.protocol import frames, records
from django_ray.protocol.frames import ProducerKind, Status
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NodeState, ReportingPolicy
from tests.actors.rig import frame, node, state
from tests.fakes import START_MS, run_settings
from tests.protocol.mutation import mutants


@pytest.fixture
def collector():
    made = Collector(run_settings(), Pace(), START_MS)
    made.opened(1)
    return made


def publish(collector, at_ms=START_MS):
    taken = collector.take(at_ms)
    if taken is not None:
        collector.settle(taken)
    return taken


def test_a_frame_is_applied_and_then_committed_by_the_publication_that_took_it(
    collector,
):
    answer = collector.ingest(frame(1, node(0), state(0)), START_MS)
    assert (answer.status, answer.writer_epoch) == (Status.OK, 1)
    assert (answer.applied, answer.committed) == (1, 0)
    taken = collector.take(START_MS)
    assert taken.delta.counts.submitted == 1
    collector.ingest(frame(2, state(0, NodeState.RUNNING)), START_MS)
    collector.settle(taken)
    answer = collector.ingest(frame(3), START_MS)
    assert (answer.applied, answer.committed) == (3, 1)


def test_a_failed_publication_commits_nothing_and_is_taken_again(collector):
    collector.ingest(frame(1, node(0), state(0)), START_MS)
    collector.restore(collector.take(START_MS))
    assert collector.ingest(frame(2), START_MS).committed == 0
    again = publish(collector)
    assert again.delta.ordinals == [0]
    assert collector.ingest(frame(3), START_MS).committed == 2


def test_a_mark_is_not_committed_while_a_node_waits_for_its_topology(collector):
    collector.ingest(frame(1, node(0)), START_MS)
    publish(collector)
    collector.ingest(frame(2, node(1), state(0)), START_MS)
    waiting = publish(collector, START_MS + 100)
    assert waiting.delta.waiting == 1
    assert collector.ingest(frame(3), START_MS).committed == 1
    assert collector.take(START_MS + 200) is None
    assert collector.ingest(frame(4), START_MS).committed == 1
    publish(collector, START_MS + 2_000)
    assert collector.ingest(frame(5), START_MS).committed == 4


def test_what_changes_nothing_is_committed_without_a_publication(collector):
    collector.ingest(frame(1, node(0), state(0)), START_MS)
    publish(collector)
    collector.ingest(frame(2, node(0), state(0)), START_MS)
    assert collector.take(START_MS + 100) is None
    assert collector.ingest(frame(3), START_MS).committed == 2


def test_under_terminal_only_nothing_is_committed_before_the_end():
    settings = run_settings(ReportingPolicy.terminal_only)
    collector = Collector(settings, Pace(), START_MS)
    collector.opened(1)
    collector.ingest(frame(1, node(0), state(0)), START_MS)
    assert publish(collector, START_MS + 60_000) is None
    assert collector.ingest(frame(2), START_MS).committed == 0
    collector.ingest(frame(3, frames.End("SUCCEEDED", START_MS)), START_MS)
    assert publish(collector) is not None
    assert collector.is_over
    assert collector.ingest(frame(4), START_MS).committed == 3
    assert collector.take(START_MS + 1) is None
    assert collector.ingest(frame(5), START_MS).committed == 4


def test_a_repeated_frame_is_answered_and_not_applied_again(collector):
    collector.ingest(frame(1, node(0)), START_MS)
    answer = collector.ingest(frame(1, node(0), node(1)), START_MS)
    assert (answer.status, answer.applied) == (Status.OK, 1)
    assert collector.take(START_MS).delta.counts.total == 1
    assert collector.status(START_MS)["duplicate_frames"] == 1


def test_a_gap_is_answered_resync_and_its_records_are_left(collector):
    collector.ingest(frame(1, node(0)), START_MS)
    answer = collector.ingest(frame(3, node(1)), START_MS)
    assert answer.status is Status.RESYNC
    assert collector.take(START_MS).delta.counts.total == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "malformed_frame"),
        (b"\xc1" * 100, "malformed_frame"),
        (bytes(V1.frame), "malformed_frame"),
        (bytes(V1.frame + 1), "frame"),
        (frame(1, run_id="0b8f1d3e-6f0a-4c8e-9a51-3f4f5d2c7b11"), "foreign_run"),
        (frame(1, generation=2), "foreign_generation"),
        (frame(1, frames.Node(0, "\x00", "", "")), "unsafe_text"),
        (frame(1, frames.Node(0, "é" * 200, "", "")), "node_id"),
    ],
)
def test_a_bad_frame_is_refused_by_a_fixed_reason_and_counted(collector, data, reason):
    answer = collector.ingest(data, START_MS)
    assert (answer.status, answer.reason) == (Status.REFUSED, reason)
    assert collector.status(START_MS)[reason] == 1
    assert collector.take(START_MS) is None


def test_a_frame_nobody_has_read_is_refused_and_counted(collector):
    answer = collector.refuse("frame")

    assert (answer.status, answer.reason) == (Status.REFUSED, "frame")
    told = collector.status(START_MS)
    assert (told["refused"], told["frame"]) == (1, 1)
    collector.fence("task")
    assert collector.refuse("frame").status is Status.FENCED


@given(st.integers(0, 2**64 - 1))
def test_no_mutated_frame_is_a_fault_of_the_model(seed):
    collector = Collector(run_settings(), Pace(), START_MS)
    collector.opened(1)
    report = frames.Progress(0, 0, 1, 1, 1_000, 1, 2, "m", {"k": 1.5}, "h")
    arrays = frames.States(1, b"\x04\x05\x00", b"\0\1\2")
    error = frames.Failure("E", "t")
    failed = state(1, NodeState.FAILED, try_=2, error=error)
    sent = [
        frame(1, node(0), node(1, after=[0]), state(0), frames.Declare(1, 2)),
        frame(2, report, failed, arrays, frames.Task(0, b"t" * 24)),
        frame(3, frames.Preview(0, 0, 1, b'{"a":1}'), frames.Event(1, "k", 0, "t")),
        frame(3, frames.Session(b"{}"), node(2, after=[0, 1])),
        frame(4, frames.End("FAILED", 2_000, error)),
    ]
    for good, damaged in zip(sent * 4, mutants(sent, seed, 20), strict=True):
        collector.ingest(damaged, START_MS)
        collector.ingest(good, START_MS)
        taken = collector.take(START_MS)
        if taken is not None:
            collector.settle(taken)

    assert "fault" not in collector.status(START_MS)


def test_no_flood_of_reasons_grows_what_is_counted(collector):
    for number in range(1_000):
        collector.refuse(f"reason-{number}")

    told = collector.status(START_MS)
    assert len(told) < 100
    assert told["refused"] == 1_000
    assert told["other"] >= 1_000 - REASONS


@pytest.mark.parametrize(("count", "status"), [(3, Status.OK), (4, Status.OK)])
def test_producers_up_to_the_limit_are_admitted(count, status):
    limits = type(V1)(producers=4)
    collector = Collector(run_settings(limits=limits), Pace(), START_MS)
    for number in range(count):
        data = frame(1, producer=bytes([number]) * 16, epoch=0)
        assert collector.ingest(data, START_MS).status is status
    for number in range(count, 4):
        collector.ingest(frame(1, producer=bytes([number]) * 16, epoch=0), START_MS)
    data = frame(1, producer=b"x" * 16, epoch=0)
    assert collector.ingest(data, START_MS).status is Status.NOT_ADMITTED


def test_a_fenced_collector_says_so_to_every_frame_and_reads_none(collector):
    collector.fence("writer_epoch")
    collector.fence("task")
    answer = collector.ingest(b"\xc1", START_MS)
    assert (answer.status, answer.reason) == (Status.FENCED, "writer_epoch")
    assert collector.is_fenced


def test_the_interval_widens_as_producers_multiply_and_not_for_the_coordinator(
    collector,
):
    def answer(kind, number):
        producer = number.to_bytes(16, "big")
        return collector.ingest(frame(1, producer=producer, kind=kind), START_MS)

    assert answer(ProducerKind.worker, 1).interval_ms == 500
    for number in range(2, 1_000):
        answer(ProducerKind.worker, number)
    assert answer(ProducerKind.worker, 1_000).interval_ms > 5_000
    assert answer(ProducerKind.coordinator, 2_000).interval_ms == 50


def test_a_progress_of_an_unknown_task_is_named_in_the_answer(collector):
    report = frames.Progress(b"task", 0, 1, 1, 1_000, current=1)
    answer = collector.ingest(frame(1, node(0), report), START_MS)
    assert answer.unknown == (b"task",)
    known = frame(2, frames.Task(0, b"task"), report)
    assert collector.ingest(known, START_MS).unknown == ()


def test_silence_is_counted_from_the_last_frame_of_the_coordinator(collector):
    assert collector.silence_ms(START_MS + 10) == 10
    worker = frame(1, producer=b"w" * 16, kind=ProducerKind.worker)
    collector.ingest(worker, START_MS + 20)
    assert collector.silence_ms(START_MS + 30) == 30
    collector.ingest(frame(1), START_MS + 40)
    assert collector.silence_ms(START_MS + 50) == 10


def test_a_wait_ends_for_the_run_s_end_but_not_for_any_frame(collector):
    collector.ingest(frame(1, node(0)), START_MS)
    collector.wait(1, watch=False)
    collector.ingest(frame(2, frames.End("SUCCEEDED", START_MS)), START_MS)
    waited = threading.Event()

    def wait():
        collector.wait(60_000, watch=False)
        waited.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waited.wait(5)
    thread.join()


@pytest.mark.parametrize("first", ["frame", "wait"])
def test_a_watching_wait_misses_no_frame(collector, first):
    assert collector.take(START_MS) is None
    waited = threading.Event()

    def wait():
        collector.wait(60_000, watch=True)
        waited.set()

    thread = threading.Thread(target=wait)
    if first == "wait":
        thread.start()
    collector.ingest(frame(1, node(0)), START_MS)
    if first == "frame":
        thread.start()
    assert waited.wait(5)
    thread.join()


def test_the_status_is_small_and_holds_no_text_of_a_sender(collector):
    for number in range(1_000):
        data = frame(1, run_id="0b8f1d3e-6f0a-4c8e-9a51-3f4f5d2c7b11")
        collector.ingest(data + bytes(number % 3), START_MS)
    status = collector.status(START_MS)
    assert len(status) <= 80
    assert all(isinstance(value, int | str) for value in status.values())


RUNNING = state(1, NodeState.RUNNING)


def worker(number, *records, epoch=1):
    return frame(
        number, *records, producer=b"w" * 16, kind=ProducerKind.worker, epoch=epoch
    )


def test_what_is_kept_for_a_node_to_come_is_not_committed_before_it(collector):
    collector.ingest(frame(1, node(0)), START_MS)
    collector.ingest(worker(1, RUNNING), START_MS)
    publish(collector)
    assert collector.ingest(worker(2), START_MS).committed == 0
    publish(collector, START_MS + 5_000)
    assert collector.ingest(worker(3), START_MS).committed == 0
    assert collector.ingest(frame(2, node(1)), START_MS).committed == 1
    assert publish(collector, START_MS + 10_000).delta.counts.running == 1
    assert collector.ingest(worker(4), START_MS).committed == 3


def test_after_the_end_nothing_is_held_back_for_a_node_that_never_came(collector):
    collector.ingest(worker(1, RUNNING), START_MS)
    collector.ingest(frame(1, node(0), frames.End("SUCCEEDED", START_MS)), START_MS)
    publish(collector)
    collector.ingest(worker(2), START_MS)
    assert collector.take(START_MS) is None
    assert collector.ingest(worker(3), START_MS).committed == 2


def test_an_open_question_of_what_was_before_is_answered_by_waiting():
    collector = Collector(run_settings(), Pace(), START_MS)
    answer = collector.ingest(frame(5, node(0), epoch=1), START_MS)
    assert (answer.status, answer.writer_epoch) == (Status.RESYNC, 0)
    assert collector.ingest(frame(6, epoch=0), START_MS).status is Status.RESYNC
    collector.opened(1)
    answer = collector.ingest(frame(7, node(0), epoch=0), START_MS)
    assert (answer.status, answer.writer_epoch) == (Status.RESYNC, 1)
    assert collector.ingest(frame(8, node(0), epoch=1), START_MS).status is Status.OK


def test_a_worker_s_frame_that_finds_no_room_is_not_taken_and_sent_again(collector):
    early = [state(ordinal, NodeState.RUNNING) for ordinal in range(1, EARLY + 2)]
    collector.ingest(frame(1, node(0)), START_MS)
    assert collector.ingest(worker(1, *early[:500]), START_MS).status is Status.OK
    assert collector.ingest(worker(2, *early[500:-1]), START_MS).status is Status.OK

    answer = collector.ingest(worker(3, early[-1]), START_MS)
    assert (answer.status, answer.applied) == (Status.RESYNC, 2)
    assert collector.status(START_MS)["postponed"] == 1
    # Of nodes that are known there is always room.
    known = state(0, NodeState.RUNNING)
    other = frame(1, known, producer=b"v" * 16, kind=ProducerKind.worker)
    assert collector.ingest(other, START_MS).status is Status.OK

    collector.ingest(frame(2, *map(node, range(1, 600))), START_MS)
    collector.ingest(frame(3, *map(node, range(600, EARLY + 2))), START_MS)
    answer = collector.ingest(worker(4, early[-1]), START_MS)
    assert (answer.status, answer.applied) == (Status.OK, 4)
    assert publish(collector).delta.counts.running == EARLY + 2


def left(registered=0, **changes):
    values = {
        "applied": 9,
        "edges_ended": None,
        "hosts": (),
        "nodes_ended": None,
        "producer": (b"p" * 16).hex(),
        "reasons": (),
        "registered": registered,
        "running": (),
        "schema": 1,
        "stages": (),
    }
    return Bequest(**{**values, **changes})


def test_a_successor_publishes_nothing_before_its_resync_is_complete():
    collector = Collector(run_settings(), Pace(), START_MS)
    collector.ingest(frame(1, node(0), state(0), epoch=0), START_MS)
    collector.resume(Standing(bequest=left()), 2, START_MS)

    answer = collector.ingest(frame(10, node(0), epoch=0), START_MS)
    assert (answer.status, answer.applied, answer.committed) == (Status.RESYNC, 9, 0)
    resync = (frames.States(0, b"\1", b"\0"), frames.NEWS, node(0), state(0))
    for number, record in enumerate(resync, 11):
        assert collector.ingest(frame(number, record, epoch=2), START_MS).applied
        assert collector.take(START_MS + 60_000) is None
        assert collector.ingest(frame(number, epoch=2), START_MS).committed == 0
    collector.ingest(frame(15, frames.RESENT, epoch=2), START_MS)

    taken = publish(collector)
    assert taken.delta.counts.submitted == 1
    assert taken.delta.bequest.applied == 15
    assert collector.ingest(frame(16, epoch=2), START_MS).committed == 15


def test_a_resync_told_twice_is_applied_once():
    """An answer may be lost at any frame, and then all of it is sent again."""
    collector = Collector(run_settings(), Pace(), START_MS)
    collector.resume(Standing(bequest=left()), 2, START_MS)
    error = frames.Failure("E", "text")
    failed = state(0, NodeState.FAILED, START_MS, error=error)
    resync = (
        *(frames.States(0, b"\4", b"\0"), frames.NEWS, node(0), failed),
        frames.RESENT,
    )
    collector.ingest(frame(10, epoch=0), START_MS)
    for number, upto in enumerate((1, 2, 3, 4, 5), 11):
        collector.ingest(frame(number, *resync[:upto], epoch=2), START_MS)
    taken = publish(collector)
    assert taken.delta.counts.failed == 1
    assert sum(taken.delta.ended_by_minute) == 1
    assert len(records.decode_events(taken.delta.events)) == 1


def test_the_bequest_tells_the_coordinator_s_last_frame_and_no_worker_s(collector):
    collector.ingest(worker(1), START_MS)
    collector.ingest(frame(1, node(0)), START_MS)
    collector.ingest(worker(2), START_MS)
    bequest = publish(collector).delta.bequest
    assert (bequest.producer, bequest.applied) == ((b"p" * 16).hex(), 1)
