import datetime as dt

import pytest

from django_ray.management.terminal import plain
from django_ray.management.terminal.plain import Told
from django_ray.protocol import summary as codec
from django_ray.protocol.vocabulary import ExecutionState, WorkflowState
from tests.app import pictures
from tests.app.pictures import FAILURES, NOW, make_picture, make_reading, make_summary


def after(seconds, *, failures=(), **reading):
    now = NOW + dt.timedelta(seconds=seconds)
    summary = reading.pop("summary", None) or make_summary(
        observed_at_ms=pictures.NOW_MS + seconds * 1_000 - 400
    )
    return make_picture(
        make_reading(summary, read_at=now, **reading), failures=failures
    )


def test_the_first_picture_is_one_line_with_the_numbers():
    assert Told(True).lines(after(0)) == [
        "14:10:47Z rnaseq RUNNING rev=412 61% ended=122/197 failed=1 running=12"
        " kept=197/197 age=0.4s"
    ]


@pytest.mark.parametrize(("seconds", "number"), [(9, 0), (10, 1), (11, 1)])
def test_an_unchanged_state_is_told_every_ten_seconds(seconds, number):
    told = Told(True)
    told.lines(after(0))
    assert len(told.lines(after(seconds))) == number


def test_a_change_of_state_is_told_at_once():
    told = Told(True)
    told.lines(after(0))
    (line,) = told.lines(after(1, state=ExecutionState.SUCCEEDED))
    assert line.startswith("14:10:48Z rnaseq SUCCEEDED rev=412")
    assert "age=" not in line


def test_a_failure_is_told_once():
    told = Told(True)
    told.lines(after(0))
    assert told.lines(after(1, failures=FAILURES)) == [
        "14:10:48Z rnaseq FAILED-NODE DUPRADAR_100 try=3"
        " CalledProcessError: Rscript exited with 1"
    ]
    assert told.lines(after(2, failures=FAILURES)) == []


def test_new_failures_are_told_oldest_first():
    older = pictures.replace(FAILURES[0], node_id="older")
    lines = Told(True).lines(after(0, failures=(*FAILURES, older)))
    assert [line.split()[3] for line in lines[:2]] == ["older", "DUPRADAR_100"]


def test_the_same_node_failing_in_the_next_attempt_is_told_again():
    told = Told(True)
    told.lines(after(0, failures=FAILURES))
    lines = told.lines(after(1, failures=FAILURES, attempt_number=2))
    assert "FAILED-NODE" in lines[0]


def test_what_was_told_is_remembered_within_bounds():
    told = Told(True)
    for number in range(plain.REMEMBERED + 1):
        node = pictures.replace(FAILURES[0], node_id=f"n{number}")
        told.lines(after(0, failures=(node,)))
    kept = pictures.replace(FAILURES[0], node_id="n1")
    forgotten = pictures.replace(FAILURES[0], node_id="n0")
    assert told.lines(after(0, failures=(kept,))) == []
    assert len(told.lines(after(0, failures=(forgotten,)))) == 1


@pytest.mark.parametrize(("lease", "word"), [(27, "ok"), (-1, "over")])
def test_a_silent_collector_is_stale_and_the_lease_is_named(lease, word):
    summary = make_summary(observed_at_ms=pictures.NOW_MS - 40_000)
    picture = after(
        0, summary=summary, lease_expires_at=NOW + dt.timedelta(seconds=lease)
    )
    assert Told(True).lines(picture) == [
        f"14:10:47Z rnaseq STALE rev=412 silent=40s worker-lease={word}"
    ]


def test_a_database_that_does_not_answer_is_told_once():
    told = Told(True)
    told.lines(after(0))
    silent = pictures.replace(after(0), answered=False)
    assert told.lines(silent) == ["14:10:47Z rnaseq NO-ANSWER from the database"]
    assert told.lines(silent) == []


def test_before_the_first_report_state_and_attempt_are_told():
    picture = make_picture(
        make_reading(None, state=ExecutionState.QUEUED, attempt_number=0), failures=()
    )
    assert Told(True).lines(picture) == ["14:10:47Z rnaseq QUEUED attempt=0"]


def test_an_ended_attempt_tells_its_error_in_one_safe_line():
    picture = make_picture(
        make_reading(None, state=ExecutionState.FAILED),
        failures=(),
        error="E: a\nb\x1b[2J",
    )
    (line,) = Told(True).lines(picture)
    assert line.endswith("FAILED attempt=1 E: a b\ufffd[2J")
    assert Told(False).lines(picture)[0].isascii()


def test_a_failure_known_before_its_try_is_told_once():
    first = pictures.replace(FAILURES[0], try_=None, ended_ms=None)
    told = Told(True)
    assert (
        "FAILED-NODE DUPRADAR_100 Called" in told.lines(after(0, failures=(first,)))[0]
    )
    assert told.lines(after(1, failures=FAILURES)) == []
    again = pictures.replace(FAILURES[0], try_=4)
    assert "try=4" in told.lines(after(2, failures=(again,)))[0]


def test_after_the_end_the_line_says_what_its_percent_is_of():
    summary = make_summary(
        terminal=codec.Terminal(
            derived=True, outcome=WorkflowState.FAILED, reason="error"
        ),
    )
    (line,) = Told(True).lines(after(0, summary=summary, state=ExecutionState.FAILED))
    assert " 61% succeeded=120/197 failed=1 " in line
