import pytest
from msgspec.structs import replace

from django_ray.progress.ledger import Ledger
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
    status = ledger.judge(sent, EPOCH)
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
        assert ledger.judge(frame(number), EPOCH) is OK
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


def test_a_resync_frame_is_no_duplicate_whatever_its_number(ledger):
    for number in (1, 2, 3):
        send(ledger, frame(number))
    send(ledger, frame(9))
    assert ledger.judge(frame(2), EPOCH) is OK
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
