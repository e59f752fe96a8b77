"""A publisher says what there is in time, survives its storage, and knows when to go."""

import itertools
import logging
import time

import pytest

from actors.clock import BACKOFF_LAST_MS
from actors.collector import Collector
from actors.publisher import GRACE_LEAST_MS, GRACE_MOST_MS, Publisher
from django_ray.errors import ConfigurationError, IntegrityFault
from django_ray.progress.pace import Pace, Share
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind, Status
from django_ray.protocol.vocabulary import NodeState, ReportingPolicy, WorkflowState
from tests.actors.rig import SILENCE_MS, Rig, frame, node, state
from tests.fakes import START_MS, LiveClock, run_settings

END = frames.End("SUCCEEDED", START_MS)


@pytest.fixture
def rig():
    return Rig()


def begin(rig, nodes):
    for ordinal in range(nodes):
        rig.producer.node(node(ordinal))
        rig.producer.state(state(ordinal))


def test_what_is_reported_is_stored_and_then_answered_as_committed(rig):
    begin(rig, 10)
    assert rig.settle()
    assert len(rig.store.rows) == 10
    assert rig.store.summary.node_counts.submitted == 10
    assert rig.producer.backlog == 0


def test_nothing_is_published_before_there_is_something_to_say(rig):
    rig.producer.step(rig.clock())
    rest = rig.turn(40)
    assert rest.watch
    assert rig.store.publications == []


def test_with_nothing_changed_only_a_heartbeat_is_published(rig):
    begin(rig, 1)
    assert rig.settle()
    count = len(rig.store.publications)
    rig.turn(205)
    beats = rig.store.publications[count:]
    assert len(beats) == 2
    assert all(beat.rows.ordinals == [] and beat.stages is None for beat in beats)
    assert beats[-1].after.detail == rig.store.publications[count - 1].after.detail


def test_below_5000_changed_rows_a_second_the_counts_move_every_second(rig):
    """A publication that costs 90 ms would owe 810 ms of rest at a share of 10 %."""
    rig.store.cost_ms = 90
    begin(rig, 4_000)
    assert rig.settle()
    moved = len(rig.store.times)
    states = (NodeState.RUNNING, NodeState.SUCCEEDED)
    for second, ordinal in enumerate(range(0, 4_000, 400)):
        for number in range(400):
            rig.producer.state(state(ordinal + number, states[second % 2]))
        rig.turn(20)
    times = rig.store.times[moved:]
    assert len(times) >= 9
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert max(gaps) <= 1_000 + 90 + 2 * 50


@pytest.mark.parametrize("cost_ms", [1, 20, 60, 110])
def test_publications_take_at_most_their_share_of_the_time(rig, cost_ms):
    rig.store.cost_ms = cost_ms
    begin(rig, 100)
    began = rig.clock()
    for turn in range(1_200):
        rig.producer.state(state(turn % 100, NodeState.RUNNING, try_=turn // 100 + 1))
        rig.turn()
    spent = len(rig.store.times) * cost_ms
    assert spent <= 0.12 * (rig.clock() - began)
    assert len(rig.store.times) >= 20


def test_a_publication_that_waited_for_a_lock_does_not_silence_the_run_for_minutes(
    rig,
):
    begin(rig, 10)
    assert rig.settle()
    rig.store.cost_ms = 20_000
    rig.producer.state(state(0, NodeState.RUNNING))
    rig.turn(10)
    rig.store.cost_ms = 1
    count = len(rig.store.publications)
    rig.producer.state(state(1, NodeState.RUNNING))
    rig.turn(200)
    assert len(rig.store.publications) > count


def test_the_end_is_published_at_once_and_then_nothing_more(rig):
    rig.store.cost_ms = 100
    begin(rig, 10)
    rig.turn(2)
    rig.producer.end(END)
    rig.turn(3)
    assert rig.store.summary.state is WorkflowState.SUCCEEDED
    assert rig.publisher.finished.is_set()
    count = len(rig.store.publications)
    rig.turn(400)
    assert len(rig.store.publications) == count
    assert rig.producer.settle(0)


def test_the_end_settles_its_producer_within_a_second(rig):
    begin(rig, 10)
    rig.turn(5)
    rig.producer.end(END)
    began = rig.clock()
    assert rig.settle()
    assert rig.clock() - began <= 1_000


def test_storage_away_loses_nothing_and_is_asked_ever_more_slowly(rig):
    begin(rig, 10)
    rig.turn(3)
    rig.store.away = True
    begin(rig, 10)
    rig.producer.state(state(3, NodeState.RUNNING))
    rig.turn(600)
    assert len(rig.store.calls) <= 20
    assert rig.producer.backlog >= 1
    rig.store.away = False
    began = rig.clock()
    assert rig.settle()
    assert rig.clock() - began <= BACKOFF_LAST_MS + 1_000
    assert rig.store.rows[3].state is NodeState.RUNNING


def test_storage_away_from_the_beginning_is_waited_for(rig):
    rig.store.away = True
    begin(rig, 10)
    rig.turn(100)
    assert set(rig.store.calls) == {"begin"}
    rig.store.away = False
    assert rig.settle()
    assert rig.store.writer_epoch == 1


@pytest.mark.parametrize(
    ("fault", "tally"),
    [
        (IntegrityFault("rows", "CORRUPT"), "integrity"),
        (ConfigurationError("dsn"), "unavailable"),
        (RuntimeError("bug"), "fault"),
    ],
)
def test_no_exception_of_storage_ends_it_and_the_log_stays_short(
    rig, caplog, fault, tally
):
    begin(rig, 10)
    rig.turn(3)
    rig.store.fault = fault
    begin(rig, 20)
    with caplog.at_level(logging.WARNING):
        rig.turn(600)
    assert rig.publisher.tallies[tally] >= 5
    assert len(caplog.records) <= 2
    rig.store.fault = None
    assert rig.settle()
    assert len(rig.store.rows) == 20


def test_a_commit_whose_answer_was_lost_is_found_and_nothing_is_lost(rig):
    begin(rig, 10)
    rig.turn(3)
    for ordinal in range(10, 600):
        rig.producer.node(node(ordinal, after=[ordinal - 1]))
        rig.store.lost = 1 if ordinal % 97 == 0 else rig.store.lost
        if ordinal % 10 == 0:
            rig.turn()
    assert rig.settle()
    assert rig.publisher.tallies["moved"] >= 1
    assert rig.store.summary.retained_nodes == 600
    assert sorted(rig.store.rows) == list(range(600))


def test_fenced_off_it_answers_fenced_removes_its_candidate_and_leaves(rig):
    begin(rig, 10)
    assert rig.settle()
    count = len(rig.store.publications)
    rig.store.fenced = True
    rig.producer.state(state(0, NodeState.RUNNING))
    rig.turn(20)
    assert rig.collector.is_fenced
    assert rig.producer.silent
    assert len(rig.store.publications) == count
    rig.finish()
    assert rig.left == 1
    assert rig.store.calls[-1] == "discard"
    assert rig.store.is_closed
    assert rig.publisher.finished.is_set()


def test_a_producer_that_calls_late_still_hears_that_it_is_fenced_off(rig):
    begin(rig, 10)
    assert rig.settle()
    rig.store.fenced = True
    rig.producer.state(state(0, NodeState.RUNNING))
    while not rig.collector.is_fenced:
        rig.turn()
    assert rig.store.calls[-1] == "discard"
    assert rig.store.is_closed
    rig.clock.advance(GRACE_LEAST_MS - 1)
    assert rig.publisher.step().ms == 1
    rig.producer.step(rig.clock())
    rig.producer.step(rig.clock())
    assert rig.producer.silent
    rig.clock.advance(1)
    assert rig.publisher.step() is None


@pytest.mark.parametrize(
    ("told_ms", "grace_ms"),
    [
        (999, GRACE_LEAST_MS),
        (1_000, 2_000),
        (1_001, 2_002),
        (14_999, 29_998),
        (15_000, 30_000),
        (15_001, GRACE_MOST_MS),
    ],
)
def test_fenced_is_answered_for_twice_the_longest_interval_within_bounds(
    rig, told_ms, grace_ms
):
    collector = Collector(rig.settings, Pace(worker_ms=told_ms), rig.clock())
    worker = frame(1, producer=b"w" * 16, epoch=0, kind=ProducerKind.worker)
    collector.ingest(worker, rig.clock())
    rig.store.fenced = True
    publisher = Publisher(
        collector,
        rig.store,
        share=Share(0.1),
        clock=rig.clock,
        silence_ms=SILENCE_MS,
        after_commit=None,
        leave=lambda: None,
        observe=None,
    )
    assert publisher.step().ms == grace_ms
    assert collector.ingest(worker, rig.clock()).status is Status.FENCED
    rig.clock.advance(grace_ms)
    assert publisher.step() is None


def test_fenced_off_at_the_beginning_it_leaves_and_writes_nothing(rig):
    rig.store.fenced = True
    rig.finish()
    assert rig.left == 1
    assert rig.store.calls == ["begin", "discard"]


def test_left_alone_it_publishes_what_there_is_and_leaves(rig):
    begin(rig, 10)
    rig.turn(2)
    rig.clock.advance(SILENCE_MS)
    rig.finish()
    assert rig.left == 1
    assert len(rig.store.rows) == 10
    assert rig.store.summary.state is WorkflowState.RUNNING


@pytest.mark.parametrize(("more_ms", "leaves"), [(-1, False), (0, True), (1, True)])
def test_it_leaves_when_the_coordinator_is_silent_for_so_long(rig, more_ms, leaves):
    rig.producer.end(END)
    assert rig.settle()
    silence = rig.collector.silence_ms(rig.clock())
    rig.clock.advance(SILENCE_MS - silence + more_ms)
    assert (rig.publisher.step() is None) is leaves


def test_left_alone_without_storage_it_leaves_after_twice_the_time(rig):
    begin(rig, 10)
    rig.turn(2)
    rig.store.away = True
    begin(rig, 20)
    rig.turn(3)
    rig.clock.advance(2 * SILENCE_MS)
    assert rig.publisher.step() is None


def test_after_its_end_it_stays_to_answer_until_the_coordinator_is_gone(rig):
    begin(rig, 1)
    rig.producer.end(END)
    assert rig.settle()
    assert rig.turn(100) is not None
    rig.clock.advance(SILENCE_MS)
    assert rig.publisher.step() is None


def test_a_hook_that_raises_is_logged_and_the_commit_stands(caplog):
    def broken(publication):
        raise RuntimeError("hook")

    rig = Rig(after_commit=broken)
    begin(rig, 10)
    assert rig.settle()
    assert "hook" in caplog.text


def test_the_hook_sees_every_commit_in_order():
    seen = []
    rig = Rig(after_commit=seen.append)
    for ordinal in range(20):
        rig.producer.node(node(ordinal))
        rig.turn(10)
    assert seen == rig.store.publications
    assert [each.after.summary for each in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize(
    "policy", [ReportingPolicy.summary, ReportingPolicy.terminal_only]
)
def test_a_policy_without_detail_stores_a_summary_alone(policy):
    rig = Rig(run_settings(policy))
    begin(rig, 10)
    rig.turn(50)
    assert bool(rig.store.publications) is (policy is ReportingPolicy.summary)
    rig.producer.end(END)
    assert rig.settle()
    assert rig.store.rows == {}
    assert rig.store.summary.discovered_nodes == 10
    assert all(each.candidate is None for each in rig.store.publications)


def test_the_thread_publishes_within_a_second_and_stops_when_told():
    """The real clock, for the waiting that steps by hand do not show."""
    rig = Rig(clock=LiveClock())
    rig.publisher.start()
    rig.producer.start()
    committed = []
    for ordinal in range(3):
        rig.producer.node(node(ordinal))
        began = time.monotonic()
        assert rig.producer.settle(5)
        committed.append(time.monotonic() - began)
    assert max(committed) <= 2.5
    rig.producer.end(END)
    assert rig.publisher.finished.wait(2)
    rig.producer.stop()
    rig.publisher.stop()
    assert rig.left == 0
    assert rig.store.is_closed


def test_an_idle_publisher_does_not_spin():
    looks = itertools.count()
    clock = LiveClock()
    rig = Rig(clock=lambda: clock() + 0 * next(looks))
    rig.publisher.start()
    assert not rig.publisher.finished.wait(1)
    rig.publisher.stop()
    assert next(looks) <= 20


def test_the_share_never_divides_by_the_time_of_a_clock_that_stands(rig):
    begin(rig, 10)
    for _ in range(50):
        rig.producer.step(rig.clock())
        rig.publisher.step()
    assert len(rig.store.publications) <= 1
    assert Share.SHORTEST_MS > 0
