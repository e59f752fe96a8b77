"""What waits for its commit is bounded by what exists, and let go in the order it went."""

import signal
import tracemalloc

import pytest

from actors.kept import REPEATS, Kept


def fill(kept, count, start=0):
    for key in range(start, start + count):
        kept.put(key, 1, b"value-%d" % key, lasting=False)


def test_values_are_cut_in_order_and_dropped_with_their_frame():
    kept = Kept(100)
    fill(kept, 5)
    assert kept.cut(1, 1_000, 3) == [b"value-0", b"value-1", b"value-2"]
    assert kept.cut(2, 1_000, 3) == [b"value-3", b"value-4"]
    kept.commit(1)
    assert len(kept) == 2
    assert not kept.settled.is_set()
    kept.commit(2)
    assert kept.settled.is_set()


@pytest.mark.parametrize(("size", "taken"), [(9, 1), (10, 2), (11, 2)])
def test_a_cut_takes_what_fits_and_never_less_than_one(size, taken):
    kept = Kept(100)
    kept.add(b"12345")
    kept.add(b"67890")
    assert len(kept.cut(1, size, 10)) == taken
    assert Kept(1).cut(1, 1, 10) == []


@pytest.mark.parametrize(("count", "dropped"), [(9, 0), (10, 0), (11, 1)])
def test_past_the_capacity_the_oldest_value_is_given_up(count, dropped):
    kept = Kept(10)
    fill(kept, count)
    assert kept.dropped == dropped
    assert kept.cut(1, 1_000, 100)[0] == b"value-%d" % dropped


def test_a_newer_value_takes_the_place_of_one_that_no_frame_carries():
    kept = Kept(10)
    kept.put(1, 1, b"old", lasting=False)
    kept.put(2, 1, b"two", lasting=False)
    assert kept.put(1, 2, b"newer", lasting=False)
    assert not kept.put(1, 2, b"equal", lasting=False)
    assert kept.queued_bytes == len(b"newer" + b"two")
    assert kept.cut(1, 1_000, 10) == [b"newer", b"two"]
    assert kept.queued_bytes == 0


def test_a_value_of_an_older_commit_does_not_take_the_newer_with_it():
    kept = Kept(10)
    kept.put(1, 1, b"old", lasting=False)
    kept.cut(1, 1_000, 10)
    kept.put(1, 2, b"new", lasting=False)
    kept.commit(1)
    assert kept.cut(2, 1_000, 10) == [b"new"]


def test_requeued_values_go_first_unless_newer_ones_replaced_them():
    kept = Kept(10)
    fill(kept, 3)
    kept.cut(1, 1_000, 3)
    kept.put(1, 2, b"newer", lasting=False)
    kept.requeue(1)
    assert kept.cut(2, 1_000, 10) == [b"value-0", b"value-2", b"newer"]
    kept.requeue(3)
    assert kept.queued == 0


def test_discarded_values_are_counted_and_gone():
    kept = Kept(10)
    fill(kept, 3)
    kept.cut(1, 1_000, 2)
    kept.discard(1)
    assert kept.dropped == 2
    assert len(kept) == 1


def test_a_value_is_repeated_only_while_it_is_the_latest_and_was_sent():
    kept = Kept(10)
    kept.put(b"task", 1, b"value", lasting=False)
    kept.repeat(b"task")
    kept.repeat(b"other")
    assert kept.cut(1, 1_000, 10) == [b"value"]
    kept.repeat(b"task")
    kept.commit(1)
    assert kept.cut(2, 1_000, 10) == [b"value"]


@pytest.mark.parametrize("number", [REPEATS - 1, REPEATS, REPEATS + 1])
def test_a_value_that_nobody_knows_is_given_up_after_so_many_repeats(number):
    kept = Kept(10)
    kept.put(b"task", 1, b"value", lasting=False)
    for frame in range(1, number + 1):
        kept.cut(frame, 1_000, 10)
        kept.repeat(b"task")
        kept.commit(frame)

    given_up = number > REPEATS
    assert kept.cut(number + 1, 1_000, 10) == ([] if given_up else [b"value"])
    assert kept.dropped == given_up
    kept.commit(number + 1)
    assert kept.settled.is_set()
    assert len(kept) == 0


def test_a_newer_value_is_repeated_anew():
    kept = Kept(10)
    kept.put(b"task", 1, b"old", lasting=False)
    for frame in range(1, REPEATS + 1):
        kept.cut(frame, 1_000, 10)
        kept.repeat(b"task")
    kept.put(b"task", 2, b"new", lasting=False)
    kept.cut(REPEATS + 1, 1_000, 10)
    kept.repeat(b"task")

    assert kept.cut(REPEATS + 2, 1_000, 10) == [b"new"]


def told(kept, number):
    return kept.cut(number, 1_000, 100)


def restart(kept, applied, first=b"arrays"):
    kept.restart(applied, [first], b"news", b"last")


@pytest.mark.parametrize(("applied", "repeated"), [(0, 0), (1, 1), (2, 3), (9, 3)])
def test_a_restart_tells_apart_what_was_applied_and_what_was_not(applied, repeated):
    kept = Kept(10)
    fill(kept, 5)
    kept.cut(1, 1_000, 1)
    kept.cut(2, 1_000, 2)
    kept.requeue(0)
    restart(kept, applied)
    values = [b"value-%d" % key for key in range(5)]
    assert told(kept, 3) == [
        *(b"arrays", *values[:repeated], b"news", *values[repeated:], b"last")
    ]
    assert len(kept) == 8
    kept.commit(3)
    assert kept.settled.is_set()


def test_a_second_restart_replaces_what_the_first_put_in():
    kept = Kept(10)
    fill(kept, 4)
    kept.cut(1, 1_000, 1)
    restart(kept, 0)
    kept.cut(3, 1_000, 3)
    restart(kept, 3, b"again")
    first = [b"value-%d" % key for key in range(4)]
    assert told(kept, 4) == [b"again", first[0], b"news", *first[1:], b"last"]
    assert len(kept) == 7
    kept.commit(4)
    assert kept.settled.is_set()


def test_a_frame_sent_again_is_known_by_its_first_number():
    """The first may have been applied although its answer was lost."""
    kept = Kept(10)
    fill(kept, 2)
    for number in (1, 2, 3):
        told(kept, number)
        kept.requeue(0)
    restart(kept, 1)
    assert told(kept, 4) == [b"arrays", b"value-0", b"value-1", b"news", b"last"]


def test_what_a_collector_has_not_applied_counts_from_its_next_frame():
    kept = Kept(10)
    fill(kept, 2)
    told(kept, 5)
    kept.forget(4)
    told(kept, 6)
    restart(kept, 5)
    assert told(kept, 7) == [b"arrays", b"news", b"value-0", b"value-1", b"last"]


def test_a_newer_value_in_an_applied_ones_place_was_not_applied():
    kept = Kept(10)
    fill(kept, 2)
    told(kept, 1)
    kept.requeue(0)
    kept.put(0, 2, b"newer", lasting=False)
    restart(kept, 1)
    assert told(kept, 2) == [b"arrays", b"value-1", b"news", b"newer", b"last"]


def test_what_is_said_after_a_restart_comes_behind_it():
    kept = Kept(10)
    fill(kept, 1)
    restart(kept, 0)
    fill(kept, 1, start=1)
    assert told(kept, 1) == [b"arrays", b"news", b"value-0", b"last", b"value-1"]


def test_closed_it_keeps_nothing():
    kept = Kept(10)
    fill(kept, 3)
    kept.cut(1, 1_000, 2)
    kept.close()
    fill(kept, 3)
    kept.add(b"more")
    assert (len(kept), kept.queued, kept.queued_bytes) == (0, 0, 0)
    assert kept.settled.is_set()
    assert kept.cut(2, 1_000, 10) == []


def test_values_replaced_without_a_commit_leave_nothing_behind():
    """A collector that is away for hours must not cost its producers their memory."""
    kept = Kept(100)
    tracemalloc.start()
    for rank in range(1, 1_000):
        for key in range(100):
            kept.put(key, rank, b"v" * 200, lasting=False)
        kept.cut(rank, 100_000, 100)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == 100
    assert held < 600_000


def test_given_up_values_leave_nothing_behind_in_the_queue():
    kept = Kept(100)
    fill(kept, 50_000)
    assert len(kept) == 100
    assert kept.queued <= 100 + 1_024 + 1


def test_a_report_from_inside_a_report_does_not_lock_up():
    """A signal's handler or a collected generator may report at any instruction."""
    kept = Kept(2**31)
    inside = iter(range(10_000_000, 20_000_000))

    def report(*_):
        fill(kept, 20, next(inside) * 20)

    before = signal.signal(signal.SIGALRM, report)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for start in range(0, 100_000, 1_000):
            fill(kept, 1_000, start)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    reported = 100_000 + 20 * (next(inside) - 10_000_000)
    assert len(kept) == reported
    cut = sum(len(kept.cut(number, 10**9, 10**6)) for number in range(1, 3))
    assert cut == reported
