import datetime as dt

import pytest

from django_ray.management.terminal import status
from django_ray.management.terminal.status import Freshness
from django_ray.protocol import summary as codec
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ReportingPolicy,
    TruncationReason,
)
from tests.app import pictures
from tests.app.pictures import NOW, NOW_MS, make_picture, make_reading, make_summary


def fresh(**reading):
    parts = status.fresh_line(make_picture(make_reading(**reading)))
    return "".join(text for text, _ in parts)


def silent(ms):
    return make_reading(make_summary(observed_at_ms=NOW_MS - ms))


@pytest.mark.parametrize(
    ("ms", "word"),
    [
        (-5_000, Freshness.Live),
        (14_999, Freshness.Live),
        (15_000, Freshness.Live),
        (15_001, Freshness.Late),
        (29_999, Freshness.Late),
        (30_000, Freshness.Stale),
        (30_001, Freshness.Stale),
    ],
)
def test_silence_makes_late_then_stale(ms, word):
    assert status.freshness(make_picture(silent(ms))) is word


def test_a_live_picture_names_its_revision_and_age():
    assert fresh() == "Live      revision 412, 0.8 s ago · as of 14:10:47 UTC"


@pytest.mark.parametrize(("ms", "unchanged"), [(9_999, False), (10_000, True)])
def test_unchanged_and_silent_are_told_apart(ms, unchanged):
    text = fresh(summary=make_summary(changed_at_ms=NOW_MS - ms))
    assert ("unchanged for" in text) == unchanged
    if unchanged:
        assert text.endswith("revision 412, unchanged for 10 s; heard 0.8 s ago")


def test_a_stale_picture_says_whether_the_worker_lives():
    summary = make_summary(observed_at_ms=NOW_MS - 40_000)
    alive = fresh(summary=summary)
    assert alive.startswith("Stale     revision 412, silent 40 s · worker alive")
    over = fresh(summary=summary, lease_expires_at=NOW - dt.timedelta(seconds=3))
    assert over.endswith("the worker's lease ended 3 s ago")
    assert fresh(summary=summary, lease_expires_at=None).endswith("no worker holds it")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "no report yet, 8:40 since the start"),
        (
            {"policy": ReportingPolicy.terminal_only},
            "one summary comes with the end, by policy; 8:40 since the start",
        ),
        (
            {"policy": ReportingPolicy.disabled},
            "node reporting is off; 8:40 since the start",
        ),
        (
            {"state": ExecutionState.CLAIMED},
            "a worker has claimed it; the run has not started",
        ),
        ({"state": ExecutionState.RETRY_WAIT}, "the next attempt starts later"),
        (
            {"availability": DetailAvailability.CORRUPT},
            "the stored summary is damaged and not shown",
        ),
    ],
)
def test_without_a_summary_it_waits_and_says_for_what(changes, text):
    assert fresh(summary=None, **changes) == f"Waiting   {text}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4, "queued for 4 s; waits for a worker on queue default"),
        (59, "queued for 59 s; waits for a worker on queue default"),
        (
            60,
            "no worker has claimed it for 60 s. "
            "Is `manage.py ray_worker` running for queue default?",
        ),
    ],
)
def test_a_queue_without_a_worker_is_asked_about(seconds, text):
    enqueued = NOW - dt.timedelta(seconds=seconds)
    found = fresh(summary=None, state=ExecutionState.QUEUED, enqueued_at=enqueued)
    assert found == f"Waiting   {text}"


def test_an_ended_run_is_final_however_long_ago():
    finished = NOW - dt.timedelta(minutes=47)
    text = fresh(
        summary=pictures.ended(make_summary(observed_at_ms=NOW_MS - 9_000_000)),
        state=ExecutionState.SUCCEEDED,
        finished_at=finished,
    )
    assert text == "Final     revision 412, ended 13:23:47 UTC, 47 min ago"


def test_an_end_just_now_has_no_age():
    text = fresh(state=ExecutionState.FAILED, finished_at=NOW)
    assert text == "Final     revision 412, ended 14:10:47 UTC"


def test_an_end_without_a_summary_says_so():
    text = fresh(summary=None, state=ExecutionState.FAILED)
    assert text == "Final     no summary was reported"


def test_no_answer_keeps_the_time_of_the_figures():
    picture = make_picture(answered=False)
    text = "".join(part for part, _ in status.fresh_line(picture))
    assert text == "No answer from the database; figures of 14:10:47 UTC"


@pytest.mark.parametrize("availability", DetailAvailability)
def test_every_availability_has_its_sentence(availability):
    reading = make_reading(availability=availability)
    word, sentence = (text for text, _ in status.complete_line(reading))
    assert len(word) == status.WORD_COLUMNS
    assert sentence


def test_whole_detail_names_nodes_and_edges():
    (_, (text, _)) = status.complete_line(make_reading())
    assert text == "197 of 197 nodes, 451 of 451 edges kept"


def test_a_cut_names_every_reason_with_numbers():
    detail = codec.Detail(
        availability=DetailAvailability.TRUNCATED,
        complete=False,
        reasons=(TruncationReason.node_count_limit, TruncationReason.edge_count_limit),
    )
    summary = make_summary(
        detail=detail,
        discovered_nodes=100_000,
        retained_nodes=25_000,
        discovered_edges=271_402,
        retained_edges=21_440,
    )
    (_, (text, _)) = status.complete_line(make_reading(summary))
    assert text == (
        "25,000 of 100,000 nodes kept: node_count_limit, edge_count_limit"
        " · 21,440 of 271,402 edges"
    )


def test_a_topology_that_waits_to_be_written_is_said():
    detail = codec.Detail(
        availability=DetailAvailability.AVAILABLE, complete=False, reasons=()
    )
    summary = make_summary(detail=detail, retained_nodes=196, retained_edges=450)
    (word, _), (text, _) = status.complete_line(make_reading(summary))
    assert word.rstrip() == "Growing"
    assert text == "196 of 197 nodes, 450 of 451 edges kept so far; the rest follows"
