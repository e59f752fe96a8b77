import datetime as dt

import pytest

from django_ray.management.terminal import head
from django_ray.management.terminal.pen import Pen
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import ExecutionState, WorkflowState
from tests.app import pictures
from tests.app.pictures import NOW, make_picture, make_reading, make_summary


def drawn(picture=None, width=100, pace="21 a minute, last 60 s"):
    lines = head.compose(picture or make_picture(), pace, Pen(width, True))
    return [line.plain for line in lines]


def test_the_head_says_who_how_fresh_how_complete_and_how_far():
    who, fresh, complete, far, counts, facts = drawn()
    assert who == (
        "rnaseq  ▸ RUNNING  3f0c6d52-8a1e-4c0b-9e57-6b1d2f7a9c04"
        "  attempt 1 · dynamic · full"
    )
    assert fresh.startswith("Live")
    assert complete.startswith("Complete")
    assert far.startswith(" 61 %  ██")
    assert far.endswith("  122 of 197 ended")
    assert counts == (
        " ✓ 120 succeeded  ✗ 1 failed  ■ 0 cancelled  ⊘ 1 skipped"
        "  ▸ 12 running  ◌ 8 submitted  · 55 pending"
    )
    assert facts == " 8:40   21 a minute, last 60 s   12 running, 4 hosts seen"


def test_a_narrow_head_keeps_all_seven_counts_in_words():
    lines = drawn(width=60)
    assert len(lines) == 7
    text = " ".join(lines)
    for shape in head.shapes.SHAPES:
        assert f"{shape.state.lower()}" in text
    assert "3f0c6d52  attempt" in lines[0]


def test_a_long_name_leaves_room_for_the_state():
    reading = make_reading(task_path="x." + "very_long_name_" * 20)
    who = drawn(make_picture(reading), width=60)[0]
    assert "▸ RUNNING" in who
    assert "…" in who


@pytest.mark.parametrize("state", ExecutionState)
def test_every_execution_state_is_said_by_mark_and_word(state):
    mark, _ = head.shapes.EXECUTIONS[state]
    assert f"{mark} {state}" in drawn(make_picture(make_reading(state=state)))[0]


def test_a_state_that_may_be_old_is_the_last_known():
    old = make_summary(observed_at_ms=pictures.NOW_MS - 40_000)
    assert "RUNNING, last known" in drawn(make_picture(make_reading(old)))[0]
    assert "RUNNING, last known" in drawn(make_picture(answered=False))[0]


def test_the_percent_is_of_the_declared_nodes_while_it_runs():
    summary = make_summary(declared_nodes=1_000, percent=12)
    far = drawn(make_picture(make_reading(summary)))[3]
    assert far.endswith("122 of 1,000 ended")


def test_the_percent_of_an_ended_run_is_that_of_its_successes():
    summary = pictures.ended(make_summary(), WorkflowState.FAILED, percent=60)
    reading = make_reading(
        summary,
        state=ExecutionState.FAILED,
        finished_at=NOW - dt.timedelta(seconds=20),
    )
    lines = drawn(make_picture(reading), pace="")
    assert lines[3].endswith("120 of 197 succeeded")
    assert lines[5] == " took 8:20   on 4 hosts"


def test_something_ended_is_never_zero_percent():
    summary = make_summary(NodeCounts(succeeded=1, pending=999), percent=0)
    assert drawn(make_picture(make_reading(summary)))[3].startswith(" <1 %")


def test_an_ended_run_without_a_success_is_at_zero_percent():
    counts = NodeCounts(failed=3, cancelled=1)
    summary = pictures.ended(make_summary(counts), WorkflowState.FAILED, percent=0)
    assert drawn(make_picture(make_reading(summary)))[3].startswith("  0 %")


def test_without_a_summary_the_same_lines_stand_without_numbers():
    lines = drawn(make_picture(make_reading(None)), pace="")
    assert len(lines) == 6
    assert lines[3].startswith("  \u2013 %")
    assert lines[4].startswith(" ✓ \u2013 succeeded")


def test_one_host_is_one_host():
    reading = make_reading(make_summary(hosts=1))
    assert drawn(make_picture(reading))[5].endswith("12 running, 1 host seen")


def test_the_head_says_of_how_many_attempts_and_of_which_time_limit():
    reading = make_reading(max_attempts=3, timeout_seconds=5_400)
    who, *_, facts = drawn(make_picture(reading))
    assert "  attempt 1 of 3 · dynamic · full" in who
    assert facts.startswith(" 8:40 of 1:30:00   ")
    by_hand = make_reading(attempt_number=4, max_attempts=3)
    assert "attempt 4 · " in drawn(make_picture(by_hand))[0]


def test_the_head_says_how_long_it_may_take_where_that_is_no_guess():
    summary = make_summary(
        declared_nodes=297, ended_by_minute=(30, 25, 25, 30, 60, 40, 35, 25, 9)
    )
    assert "   5 to 10 min left   " in drawn(make_picture(make_reading(summary)))[-1]
    stale = make_reading(summary, read_at=NOW + dt.timedelta(seconds=40))
    for picture in (make_picture(), make_picture(stale)):
        assert "left" not in drawn(picture)[-1]
