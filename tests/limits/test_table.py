"""Each row of the limit tables: one below, at, one above, written and read back.

Whatever a limit has no probe for stands below with its reason, and a limit that gets its
first user in the product has to get its probe: nothing here passes by being forgotten.
"""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from django_ray import conf
from django_ray.protocol.limits import V1, Limits
from django_ray.readers.nodes import NodesQuery
from tests.limits import planted
from tests.limits.table import READ, SMALL, WRITTEN

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
NAMES = {each.name for each in fields(Limits)} - {"profile"}

UNUSED = {
    "preview_decoded": "A canonical value of 512 bytes decodes to no more than those.",
}
"""Limits that nothing uses."""

NOT_PROBED = {
    "retention_days_default": "A default, no bound: compared below.",
    "legacy_snapshot": "Of a column nothing of ours writes: tests/app/test_legacy.py.",
    "orphan_seconds": "Judged by PostgreSQL: tests/app/test_cleanup.py.",
    "response_items_default": "A default, no bound: compared below.",
    "response_decoded": "JSON is sent as it is: the encoded bound is the smaller one.",
    "bequest": "No part is larger than its own bound: tests/progress/test_bequest.py.",
    "pending_calls": "Ray's own option of the collector's actor: tests/ray.",
}
"""Limits whose use is no comparison of ours."""

NOT_READ = {
    "detail_decoded": "A record is stored as it is: its one size is the encoded one.",
    "run_encoded": "The sum of what is read each under its own, smaller cap.",
    "run_decoded": "The sum of what is read each under its own, smaller cap.",
    "node_reserve": "A reserve of the writer's, no size of anything stored.",
    "dependency_runs": "Runs travel, and are stored as edges.",
    "frame": "Nothing on the wire is stored.",
    "frame_records": "Nothing on the wire is stored.",
    "frame_cut": "Nothing on the wire is stored.",
    "worker_frame": "Nothing on the wire is stored.",
    "coordinator_window": "Nothing on the wire is stored.",
    "worker_window": "Nothing on the wire is stored.",
    "producers": "Nothing on the wire is stored.",
    "response_items": "No answer is stored.",
    "response_encoded": "No answer is stored.",
    "cursor": "No cursor is stored.",
}
"""Limits without a reader of stored bytes."""


def cases(probes):
    return [
        pytest.param(name, probe, id=f"{name}-{probe.__name__}")
        for name, several in sorted(probes.items())
        for probe in several
    ]


def ask(name, probe, past):
    return probe(past if probe in SMALL else getattr(V1, name) + past)


@pytest.mark.parametrize("past", [-1, 0, 1])
@pytest.mark.parametrize(("name", "probe"), cases(WRITTEN))
def test_a_value_within_its_limit_is_taken_whole_and_no_larger_one(name, probe, past):
    assert ask(name, probe, past) is (past <= 0)


@pytest.mark.parametrize("past", [-1, 0, 1])
@pytest.mark.parametrize(("name", "probe"), cases(READ))
def test_stored_bytes_within_their_limit_are_read_and_no_larger_ones(name, probe, past):
    planted.drop_checks()

    assert ask(name, probe, past) is (past <= 0)


def test_every_limit_has_a_probe_or_says_why_not():
    assert set(WRITTEN) | set(UNUSED) | set(NOT_PROBED) == NAMES
    assert set(WRITTEN).isdisjoint({*UNUSED, *NOT_PROBED})


def test_every_limit_of_stored_bytes_has_a_reader():
    assert set(READ) | set(NOT_READ) == set(WRITTEN)
    assert set(READ).isdisjoint(NOT_READ)


@pytest.mark.parametrize("name", UNUSED)
def test_a_limit_without_a_probe_is_used_nowhere(name):
    used = re.compile(rf"\b_?(?:V1|limits)\.{name}\b")

    found = [
        path
        for folder in ("django_ray", "actors")
        for path in (ROOT / folder).rglob("*.py")
        if used.search(path.read_text())
    ]

    assert found == []


def test_a_page_holds_100_items_where_nothing_is_asked():
    assert NodesQuery().limit == V1.response_items_default == 100
    assert V1.response_encoded < V1.response_decoded


def test_detail_is_kept_for_7_days_where_nothing_is_set():
    assert conf.parse({}).retention_days == V1.retention_days_default == 7
