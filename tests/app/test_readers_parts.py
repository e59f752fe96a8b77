"""Stages, events, failures, attempts: the readers that answer in one piece."""

import msgspec
import pytest

from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    DetailAvailability,
    ExecutionState,
    NodeState,
)
from django_ray.readers import causes
from django_ray.readers.attempts import AttemptsQuery
from django_ray.readers.failures import CAUSES, EXAMINED
from django_ray.readers.public import SummaryQuery
from django_ray.readers.run import Query, Unavailable
from django_ray.readers.services import attempts, events, failures, stages, summary
from tests.app import published, stored
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(conn):
    return Published(conn, 600, 1_200)


def ask(service, run, root, **asked):
    query = SummaryQuery if service is summary else Query
    return service(run.public_id, root, query(**asked))


def test_the_stages_add_up_to_the_summary(run, root):
    run.move(range(250), "RUNNING")
    run.move(range(100), "SUCCEEDED")
    run.move([100], "FAILED", kind="ValueError", text="no")
    found = ask(stages, run, root)
    told = ask(summary, run, root).node_counts
    for state in NODE_STATES:
        assert sum(each.node_counts.of(state) for each in found.items) == told.of(state)
    first = found.items[0]
    assert (first.index, first.label, first.rank) == (0, "project.flows.layer0", 0)
    assert first.kept == 250
    assert sum(edge.edges for edge in found.edges) == 1_200
    assert found.first_failure.id == run.nodes[100].id
    assert found.running.peak == 250


def test_stages_that_do_not_add_up_are_corrupt(run, root, conn):
    other = Published(conn, 5)
    conn.execute(
        "UPDATE django_ray_stages SET body ="
        " (SELECT body FROM django_ray_stages WHERE run_id = %s) WHERE run_id = %s",
        (other.run_pk, run.run_pk),
    )
    found = ask(stages, run, root)
    assert found.run.detail.availability is DetailAvailability.CORRUPT


def test_stages_that_are_not_there_are_missing(run, root, conn):
    conn.execute("DELETE FROM django_ray_stages WHERE run_id = %s", (run.run_pk,))
    found = ask(stages, run, root)
    assert isinstance(found, Unavailable)
    assert found.run.detail.availability is DetailAvailability.MISSING


def test_events_are_told_oldest_first(run, root):
    assert ask(events, run, root).items == ()
    run.move([3], "FAILED", kind="ValueError", text="first")
    run.move([4], "FAILED", kind="ValueError", text="second")
    found = ask(events, run, root)
    assert [(each.ordinal, each.text) for each in found.items] == [
        (3, "ValueError: first"),
        (4, "ValueError: second"),
    ]


def test_events_that_do_not_parse_are_corrupt(run, root, conn):
    conn.execute("UPDATE django_ray_run SET events = 'x' WHERE id = %s", (run.run_pk,))
    found = ask(events, run, root)
    assert found.run.detail.availability is DetailAvailability.CORRUPT


def test_failures_that_differ_in_particulars_are_one_cause(run, root):
    for ordinal in range(4):
        text = f"images /data/{ordinal}.fits and {ordinal + 7} do not overlap"
        run.move([ordinal], "FAILED", kind="ValueError", text=text)
    run.move([400], "FAILED", kind="OutOfMemoryError", text="killed")
    found = ask(failures, run, root)
    assert [(each.nodes, each.kind, each.text) for each in found.items] == [
        (4, "ValueError", "images [path] and # do not overlap"),
        (1, "OutOfMemoryError", "killed"),
    ]
    assert (
        found.items[0].examples[0].text == "images /data/3.fits and 10 do not overlap"
    )
    assert len(found.items[0].examples) == 3
    assert (found.items[0].hosts, found.items[0].stages) == (("h1",), (0,))
    assert (found.failed, found.examined, found.more, found.omitted) == (5, 5, False, 0)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", ""),
        ("no", "no"),
        ("node 17 of 3,000 at 1.5e-3", "node # of # at #"),
        ("open /tmp/a-1/b.txt", "open [path]"),
        (r"open C:\temp\b.txt", "open [path]"),
        ("id 3f0c6d52-8a1e-4c0b-9e57-6b1d2f7a9c04 0xdeadbee1", "id [id] [id]"),
        ("first\nsecond 2", "first"),
    ],
)
def test_particulars_are_folded(text, cause):
    assert causes.fold(text) == cause


@pytest.mark.parametrize("text", ["a" * 10**6, "1" * 10**6, "/" * 10**6, "a/" * 10**6])
def test_folding_looks_at_a_bounded_part(text):
    assert len(causes.fold(text)) <= causes.READ


def test_failures_are_bounded_and_say_what_is_left_out(conn, root):
    run = Published(conn, EXAMINED + 50)
    kinds = [f"Error{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(CAUSES + 6)]
    for place, kind in enumerate(kinds):
        ordinals = range(place, EXAMINED + 50, len(kinds))
        run.move(ordinals, "FAILED", kind=kind, text="no")
    found = ask(failures, run, root)
    assert (found.failed, found.examined, found.more) == (EXAMINED + 50, EXAMINED, True)
    assert (len(found.items), found.causes_total) == (CAUSES, CAUSES + 6)
    assert sum(each.nodes for each in found.items) + found.omitted == EXAMINED


def test_attempts_are_told_newest_first_without_a_traceback(run, root):
    run.move([1], "FAILED", kind="ValueError", text="no")
    run.retry()
    run.row.attempts.create(
        attempt_number=2,
        execution_generation=2,
        run_id=run.row.run_id,
        worker="worker-1",
        state="RUNNING",
        claimed_at=run.row.started_at,
    )
    found = attempts(run.public_id, root, AttemptsQuery())
    second, first = found.items
    assert (second.run.attempt, second.run.revision) == (2, None)
    assert second.run.detail.availability is DetailAvailability.NOT_REPORTED
    assert (first.run.attempt, first.state) == (1, ExecutionState.FAILED)
    assert first.node_counts.of(NodeState.FAILED) == 1
    assert first.error == "ValueError: no"
    assert b"/secret" not in msgspec.json.encode(found)
    assert found.next_before is None
    older = attempts(run.public_id, root, AttemptsQuery(before=2))
    assert older.items == (first,)


def test_an_attempt_says_what_may_follow_it(run, root):
    stored.add_attempt(run.row)
    number = run.row.attempt_number
    (told,) = attempts(run.public_id, root, AttemptsQuery()).items
    assert told.retry_disposition is None
    for disposition in RetryDisposition:
        run.row.attempts.filter(attempt_number=number).update(
            retry_disposition=disposition
        )
        (told,) = attempts(run.public_id, root, AttemptsQuery()).items
        assert told.retry_disposition is disposition


def test_an_attempts_summary_is_read_by_its_number(run, root):
    run.move([1], "FAILED", kind="ValueError", text="no")
    run.retry()
    assert ask(summary, run, root).revision is None
    found = ask(summary, run, root, attempt=1)
    assert (found.revision, found.execution.attempt) == (2, 1)
    assert found.execution.state is ExecutionState.FAILED
    assert ask(summary, run, root, attempt=9) is None


@pytest.mark.parametrize("service", [stages, events, failures, summary])
def test_nobody_is_told_of_a_run_he_may_not_see(run, service):
    assert ask(service, run, published.nobody()) is None


def test_nobody_is_told_of_attempts_either(run):
    assert attempts(run.public_id, published.nobody(), AttemptsQuery()) is None


@pytest.mark.parametrize("service", [stages, events, failures])
def test_a_damaged_summary_is_corrupt_everywhere(run, root, conn, service):
    conn.execute("UPDATE django_ray_execution SET progress_summary = 'x'")
    found = ask(service, run, root)
    assert found.run.detail.availability is DetailAvailability.CORRUPT
