import datetime as dt

import pytest

from django_ray.management.terminal import attention
from django_ray.management.terminal.pen import Pen
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import ExecutionState
from tests.app import pictures
from tests.app.pictures import NOW, NOW_MS, RUNNING, make_picture, make_reading

WELL = NodeCounts(succeeded=5, running=2)


def drawn(picture, room=4, width=100):
    lines = attention.compose(picture, Pen(width, True), room)
    return [line.plain for line in lines]


def well(**changes):
    return make_picture(
        make_reading(pictures.make_summary(WELL)), failures=(), **changes
    )


def test_failures_come_first_with_cause_then_what_runs_longest():
    assert drawn(make_picture()) == [
        "✗ 1 failed, 1 skipped behind",
        "  14:06:29  DUPRADAR_100  try 3  CalledProcessError: Rscript exited with 1",
        "Longest: PICARD_MARKDUPLICATES_46, 29 s where its stage usually takes 57 s",
    ]


def test_all_is_well_is_said_in_words():
    assert drawn(well())[0] == "Nothing failed."


@pytest.mark.parametrize("room", [0, 1, 2, 3, 4, 9])
def test_the_slot_keeps_two_lines_and_no_more_than_its_room(room):
    many = pictures.FAILURES * 20
    for picture in (well(running=()), make_picture(failures=many)):
        assert 2 <= len(drawn(picture, room)) <= max(room, 2)


def test_failures_that_are_not_kept_are_counted():
    lines = drawn(make_picture(failures=()))
    assert lines[1] == "  Counted; none of them is kept with detail."


@pytest.mark.parametrize(
    ("ran", "ended", "slow"),
    [
        (3_000, 10, False),
        (3_001, 10, True),
        (3_001, 9, False),
        (9_999, 11, True),
    ],
)
def test_slow_is_three_times_what_ninety_five_of_a_hundred_took(ran, ended, slow):
    stage = pictures.stage(2, "S", 0, 500, 1_000, succeeded=ended, running=1)
    node = pictures.replace(RUNNING[0], started_ms=NOW_MS - ran)
    assert attention.is_slow(node, stage, NOW_MS) == slow
    text = drawn(well(stages=(stage,), running=(node,)))[1]
    assert text.startswith("Slow: " if slow else "Longest: ")


def test_a_node_of_an_unknown_stage_is_not_called_slow():
    assert not attention.is_slow(RUNNING[0], None, NOW_MS)
    assert drawn(well(stages=()))[1] == "Longest: PICARD_MARKDUPLICATES_46, 29 s"


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (NodeCounts(), "The run has not reported a node yet."),
        (NodeCounts(pending=1), "No node takes long just now."),
        (
            NodeCounts(running=1),
            "The running nodes are counted; none of them is kept.",
        ),
    ],
)
def test_what_cannot_be_listed_is_said(counts, text):
    reading = make_reading(pictures.make_summary(counts))
    assert drawn(make_picture(reading, failures=(), running=()))[1] == text


def test_a_requested_cancellation_is_said_while_it_lasts():
    asked = NOW - dt.timedelta(seconds=12)
    lines = drawn(make_picture(make_reading(cancel_requested_at=asked)))
    assert lines[0] == "Cancellation was asked for 12 s ago."


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ExecutionState.CANCELLED, "Cancelled on request."),
        (ExecutionState.TIMED_OUT, "Ended by its time limit."),
        (ExecutionState.LOST, "Lost: its process or host on Ray was gone."),
    ],
)
def test_the_reason_of_an_end_is_said_first(state, text):
    assert drawn(make_picture(make_reading(state=state)))[0] == text


def test_what_an_operator_is_to_decide_is_said_first():
    reading = make_reading(state=ExecutionState.RECONCILE)
    lines = drawn(make_picture(reading, error="InvocationFailed: OWNER_LOST"))
    decide = f"ray_reconcile {reading.execution.public_id}"
    assert lines[0] == f"Its effects are not known. Decide: {decide}"
    assert lines[1] == "InvocationFailed: OWNER_LOST"


def test_the_attempts_own_error_is_shown():
    reading = make_reading(None, state=ExecutionState.FAILED)
    lines = drawn(make_picture(reading, error="RuntimeError: no such folder"))
    assert lines == ["RuntimeError: no such folder", ""]


def test_an_error_obeys_no_escape_and_breaks_no_line():
    reading = make_reading(None, state=ExecutionState.FAILED)
    lines = drawn(make_picture(reading, error="E: a\nb\x1b[2J"))
    assert lines[0] == "E: a b\ufffd[2J"
