import datetime as dt
import json

import msgspec
import pytest

from django_ray.protocol import canonical
from django_ray.protocol import summary as codec
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ReportingPolicy,
)
from django_ray.readers import public
from tests.app import pictures


def body(**reading):
    return json.loads(canonical.encode(public.body(pictures.make_reading(**reading))))


def test_the_body_says_the_seven_counts_and_what_they_add_up_to():
    found = body()
    assert found["discovered_nodes"] == sum(found["node_counts"].values()) == 197
    assert set(found["node_counts"]) == {
        "PENDING",
        "SUBMITTED",
        "RUNNING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "SKIPPED",
    }


def test_the_body_holds_the_execution_under_its_public_id():
    found = body()["execution"]
    assert found["id"] == str(pictures.PUBLIC_ID)
    assert found["task"] == "science.tasks.rnaseq"
    assert found["state"] == "RUNNING"
    assert found["attempt"] == 1
    assert dt.datetime.fromisoformat(found["enqueued_at"]).tzinfo is not None


def shape(value):
    """Return the keys of an object at every level, None for what is no object."""
    if isinstance(value, list):
        inner = [shape(each) for each in value]
        return inner if any(inner) else None
    if not isinstance(value, dict):
        return None
    return {key: shape(each) for key, each in value.items()}


BODY = {
    **dict.fromkeys(
        (
            *("changed_at_ms", "declared_nodes", "detail_revision"),
            *("discovered_edges", "discovered_nodes", "ended_at_ms"),
            *("ended_by_minute", "expires_at_ms", "hosts", "limits_profile"),
            *("observed_at_ms", "percent", "plan_fingerprint", "policy"),
            *("retained_edges", "retained_nodes", "retention_days", "revision"),
            *("route", "schema", "session", "started_at_ms", "state", "strategy"),
            *("terminal", "topology_version"),
        )
    ),
    "detail": dict.fromkeys(("availability", "complete", "reasons")),
    "execution": dict.fromkeys(
        (
            *("attempt", "cancel_requested_at", "claimed_at", "enqueued_at"),
            *("finished_at", "id", "queue", "run_id", "started_at", "state", "task"),
        )
    ),
    "node_counts": dict.fromkeys(
        (
            *("CANCELLED", "FAILED", "PENDING", "RUNNING"),
            *("SKIPPED", "SUBMITTED", "SUCCEEDED"),
        )
    ),
}
TERMINAL = dict.fromkeys(("derived", "outcome", "reason"))


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        ({}, BODY),
        ({"summary": None}, BODY),
        (
            {"summary": pictures.ended(pictures.make_summary(ended_by_minute=(1, 2)))},
            {**BODY, "terminal": TERMINAL},
        ),
        (
            {
                "summary": None,
                "availability": DetailAvailability.CORRUPT,
                "state": ExecutionState.LOST,
            },
            {**BODY, "node_counts": None},
        ),
    ],
    ids=["running", "unreported", "ended", "corrupt"],
)
def test_the_body_holds_these_keys_and_no_others_at_every_level(reading, expected):
    assert shape(body(**reading)) == expected


def test_every_other_field_of_the_summary_is_in_the_body():
    internal = {"manifest_id", "run", "storage", "storage_protocol"}
    stored = set(msgspec.structs.asdict(pictures.make_summary())) - internal
    assert stored == set(body()) - {"execution", "route"}


def test_the_body_is_canonical():
    encoded = canonical.encode(public.body(pictures.make_reading()))
    sorted_keys = json.dumps(
        json.loads(encoded), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert encoded.decode() == sorted_keys


def test_before_the_first_report_nothing_is_discovered_and_nothing_claimed():
    found = body(summary=None)
    assert found["discovered_nodes"] == 0
    assert set(found["node_counts"].values()) == {0}
    assert found["detail"] == {
        "availability": "NOT_REPORTED",
        "complete": False,
        "reasons": [],
    }
    assert found["state"] is found["percent"] is found["revision"] is None
    assert found["policy"] == ReportingPolicy.full


def test_counts_of_a_corrupt_summary_are_unknown_and_not_zero():
    found = body(summary=None, availability=DetailAvailability.CORRUPT)
    assert found["discovered_nodes"] is None
    assert found["node_counts"] is None


def test_a_session_passes_as_it_is_stored():
    summary = pictures.make_summary(session=msgspec.Raw(b'{"state":"READY"}'))
    assert body(summary=summary)["session"] == {"state": "READY"}


def test_the_body_of_the_largest_summary_stays_small():
    summary = codec.derive(pictures.make_summary(), "LOST", pictures.NOW_MS, "x" * 64)
    reading = pictures.make_reading(summary=summary, state=ExecutionState.LOST)
    assert len(canonical.encode(public.body(reading))) < 4_096
