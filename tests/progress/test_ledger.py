import pytest
from msgspec.structs import replace

from django_ray.progress.ledger import EXPIRY_MS, Ledger, Mark
from django_ray.protocol import frames
from django_ray.protocol.frames import Status
from django_ray.protocol.limits import V1, Limits

EPOCH = 3
OK, RESYNC, NOT_ADMITTED = Status.OK, Status.RESYNC, Status.NOT_ADMITTED


def frame(number, epoch=EPOCH, producer=1):
    return frames.Frame(
        format=frames.FORMAT,
        run_id="0" * 36,
        generation=1,
        producer=producer.to_bytes(16),
        kind=frames.ProducerKind.worker,
        number=number,
        writer_epoch=epoch,
        records=(),
    )


def send(ledger, sent):
    """Judge as the collector does, and apply what is to be applied."""
    status = ledger.judge(sent, EPOCH, 0)
    if status is OK and not ledger.is_duplicate(sent):
        ledger.applied(sent)
    return status


def numbers(ledger, producer=1):
    return ledger.numbers(producer.to_bytes(16))


@pytest.fixture
def ledger():
    return Ledger(V1)


def test_frames_in_order_are_applied(ledger):
    assert [send(ledger, frame(number)) for number in (1, 2, 3)] == [OK] * 3
    assert numbers(ledger) == (3, 0)


def test_a_first_frame_of_a_producer_that_saw_no_answer_is_accepted(ledger):
    assert send(ledger, frame(1, epoch=0)) is OK
    assert send(ledger, frame(2, epoch=0)) is OK


def test_a_duplicate_is_answered_ok_and_not_applied_again(ledger):
    for number in (1, 2):
        send(ledger, frame(number))
    for number in (1, 2):
        assert ledger.judge(frame(number), EPOCH, 0) is OK
        assert ledger.is_duplicate(frame(number))
    assert not ledger.is_duplicate(frame(3))
    assert numbers(ledger) == (2, 0)


@pytest.mark.parametrize("number", [3, 4, 100])
def test_a_gap_within_an_epoch_is_answered_resync(ledger, number):
    send(ledger, frame(1))
    assert send(ledger, frame(number)) is RESYNC
    assert numbers(ledger) == (1, 0)


@pytest.mark.parametrize("epoch", [0, EPOCH, EPOCH - 1])
def test_an_unknown_producer_in_the_middle_is_answered_resync(ledger, epoch):
    assert send(ledger, frame(17, epoch=epoch)) is RESYNC
    assert numbers(ledger) == (0, 0)


def test_a_frame_of_a_former_epoch_is_answered_resync(ledger):
    assert send(ledger, frame(1, epoch=EPOCH - 1)) is RESYNC
    other = Ledger(V1)
    send(other, frame(1))
    assert send(other, frame(2, epoch=EPOCH - 1)) is RESYNC


@pytest.mark.parametrize("number", [1, 5, 17, 18, 99])
def test_after_a_resync_a_first_frame_of_any_number_is_accepted(ledger, number):
    send(ledger, frame(17, epoch=EPOCH - 1))
    assert send(ledger, frame(number)) is OK
    assert numbers(ledger) == (number, 0)
    assert send(ledger, frame(number + 1)) is OK
    assert send(ledger, frame(number + 3)) is RESYNC


@pytest.mark.parametrize("epoch", [0, EPOCH - 1, EPOCH + 1])
def test_a_frame_sent_before_the_resync_was_heard_is_answered_so_too(ledger, epoch):
    assert send(ledger, frame(17, epoch=EPOCH - 1)) is RESYNC
    assert send(ledger, frame(18, epoch=epoch)) is RESYNC
    assert numbers(ledger) == (0, 0)


def test_a_frame_that_is_postponed_may_come_again_under_any_number(ledger):
    send(ledger, frame(1))
    postponed = frame(2)
    assert ledger.judge(postponed, EPOCH, 0) is OK
    assert ledger.postpone(postponed) is RESYNC
    assert numbers(ledger) == (1, 0)
    assert ledger.marks() == {(1).to_bytes(16): 1}

    assert send(ledger, frame(5)) is OK
    assert numbers(ledger) == (5, 0)


def test_a_resync_frame_is_no_duplicate_whatever_its_number(ledger):
    for number in (1, 2, 3):
        send(ledger, frame(number))
    send(ledger, frame(9))
    assert ledger.judge(frame(2), EPOCH, 0) is OK
    assert not ledger.is_duplicate(frame(2))


def test_a_producer_is_admitted_up_to_the_limit():
    ledger = Ledger(Limits(producers=3))
    statuses = [send(ledger, frame(1, producer=place)) for place in range(1, 5)]
    assert statuses == [OK, OK, OK, NOT_ADMITTED]
    assert len(ledger) == 3
    assert send(ledger, frame(2, producer=3)) is OK
    assert numbers(ledger, 4) == (0, 0)


def test_a_producer_asked_to_resync_takes_a_place():
    ledger = Ledger(Limits(producers=1))
    assert send(ledger, frame(9)) is RESYNC
    assert send(ledger, frame(1, producer=2)) is NOT_ADMITTED


def test_a_commit_confirms_what_its_marks_took(ledger):
    for number in (1, 2):
        send(ledger, frame(number))
    send(ledger, frame(1, producer=2))
    marks = ledger.marks()
    send(ledger, frame(3))
    ledger.commit(marks)
    assert numbers(ledger) == (3, 2)
    assert numbers(ledger, 2) == (1, 1)
    assert not ledger.is_settled()
    assert dict(ledger.marks()) == {(1).to_bytes(16): 3}
    ledger.commit(ledger.marks())
    assert ledger.is_settled()
    assert ledger.marks() == {}


def test_marks_that_were_never_committed_come_again(ledger):
    send(ledger, frame(1))
    lost = ledger.marks()
    assert ledger.marks() == lost
    assert numbers(ledger) == (1, 0)


def test_marks_do_not_follow_what_is_applied_later(ledger):
    send(ledger, frame(1))
    marks = ledger.marks()
    send(ledger, frame(2))
    assert dict(marks) == {(1).to_bytes(16): 1}


def test_an_older_commit_does_not_take_back_a_newer_one(ledger):
    send(ledger, frame(1))
    old = ledger.marks()
    send(ledger, frame(2))
    ledger.commit(ledger.marks())
    ledger.commit(old)
    assert numbers(ledger) == (2, 2)


def test_what_a_gap_hid_is_not_said_to_be_committed(ledger):
    for number in (1, 2):
        send(ledger, frame(number))
    ledger.commit(ledger.marks())
    send(ledger, frame(5))
    send(ledger, frame(2))
    assert numbers(ledger) == (2, 1)


def test_an_empty_frame_is_settled_by_the_next_commit(ledger):
    send(ledger, replace(frame(1), records=()))
    assert not ledger.is_settled()


def coordinators(number, epoch=EPOCH, producer=1):
    sent = frame(number, epoch, producer)
    return replace(sent, kind=frames.ProducerKind.coordinator)


def test_the_coordinator_s_mark_is_the_last_frame_applied(ledger):
    assert ledger.coordinator is None
    send(ledger, frame(1, producer=2))
    assert ledger.coordinator is None
    for number in (1, 2):
        send(ledger, coordinators(number))
    assert ledger.coordinator == Mark((1).to_bytes(16), 2)


@pytest.mark.parametrize("epoch", [0, EPOCH - 1])
@pytest.mark.parametrize("number", [1, 8, 9])
def test_a_successor_asks_the_coordinator_it_knows_for_a_resync(ledger, number, epoch):
    ledger.resume(Mark((1).to_bytes(16), 7), 0)
    assert send(ledger, coordinators(number, epoch)) is RESYNC
    assert numbers(ledger) == (7, 0)
    assert send(ledger, coordinators(number + 1)) is OK
    assert numbers(ledger) == (number + 1, 0)


def test_a_successor_asks_a_coordinator_it_does_not_know_too(ledger):
    ledger.resume(None, 0)
    assert send(ledger, coordinators(1, 0)) is RESYNC
    assert numbers(ledger) == (0, 0)
    assert send(ledger, coordinators(2)) is OK
    assert send(ledger, frame(1, 0, producer=2)) is OK


def test_without_an_epoch_nothing_follows_a_resync(ledger):
    lost = frame(5, epoch=0)
    assert ledger.judge(lost, 0, 0) is RESYNC
    assert ledger.judge(frame(6, epoch=0), 0, 0) is RESYNC
    assert ledger.judge(frame(7, epoch=0), EPOCH, 0) is RESYNC
    assert ledger.judge(frame(8), EPOCH, 0) is OK


def test_of_a_producer_that_is_held_nothing_is_committed(ledger):
    send(ledger, frame(1))
    ledger.hold((1).to_bytes(16))
    send(ledger, frame(2))
    send(ledger, frame(1, producer=2))
    ledger.commit(ledger.marks())
    assert (numbers(ledger), numbers(ledger, 2)) == ((2, 0), (1, 1))
    assert not ledger.is_settled()
    ledger.release()
    ledger.commit(ledger.marks())
    assert numbers(ledger) == (2, 2)
    assert ledger.is_settled()


def at(ledger, now_ms, producer):
    sent = frame(1, producer=producer)
    status = ledger.judge(sent, EPOCH, now_ms)
    if status is OK and not ledger.is_duplicate(sent):
        ledger.applied(sent)
        ledger.commit(ledger.marks())
    return status


@pytest.mark.parametrize(
    ("silent_ms", "status"),
    [(EXPIRY_MS - 1, NOT_ADMITTED), (EXPIRY_MS, OK), (EXPIRY_MS + 1, OK)],
)
def test_the_place_of_a_producer_that_is_silent_for_long_is_free(silent_ms, status):
    ledger = Ledger(Limits(producers=3))
    for producer in (1, 2, 3):
        at(ledger, 0, producer)
    assert at(ledger, silent_ms, 4) is status


def test_a_silent_producer_with_something_uncommitted_keeps_its_place():
    ledger = Ledger(Limits(producers=2))
    assert ledger.judge(frame(1), EPOCH, 0) is OK
    ledger.applied(frame(1))
    at(ledger, 1, 2)
    ledger.hold((1).to_bytes(16))
    assert at(ledger, 2 * EXPIRY_MS, 3) is NOT_ADMITTED
    assert at(ledger, 2 * EXPIRY_MS, 3) is OK
    assert numbers(ledger)[0] == 1


def test_thousands_of_processes_that_come_and_go_are_all_admitted():
    ledger = Ledger(V1)
    for number in range(20_000):
        assert at(ledger, number * 1_000, number + 1) is OK
    assert len(ledger) <= EXPIRY_MS // 1_000 + 1


def test_a_producer_that_comes_back_after_its_place_was_free_begins_anew():
    ledger = Ledger(V1)
    for number in (1, 2):
        send(ledger, frame(number))
    ledger.commit(ledger.marks())
    at(ledger, EXPIRY_MS, 2)
    assert ledger.judge(frame(3), EPOCH, EXPIRY_MS) is RESYNC
    assert ledger.judge(frame(4), EPOCH, EXPIRY_MS) is OK
