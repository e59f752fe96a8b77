"""Terminal truth: whoever wins, row, run, attempt and envelope tell the same end."""

import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from itertools import permutations

import msgspec
import psycopg
import pytest
from django.db import connection, transaction

from django_ray.maintenance.audit import audit
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import NodeDetail, WorkflowRun
from django_ray.progress.delta import Fenced, Published
from django_ray.protocol import canonical
from django_ray.protocol import summary as summaries
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import FINAL_REVISION, NodeCounts, Terminal
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ReportingPolicy,
    TruncationReason,
    WorkflowState,
)
from django_ray.storage import pool
from django_ray.storage.publish import publish
from django_ray.tasks import envelope, transitions
from django_ray.tasks.outcome import Failed
from django_ray.tasks.transitions import Recorded, Stale
from tests.app.executions import LATER, NOW, claim, row, running
from tests.storage import helpers
from tests.storage.helpers import COMMIT, Book, hook

pytestmark = pytest.mark.django_db(transaction=True)

ENDS = tuple(WorkflowState)[1:]
SUCCEEDED = WorkflowState.SUCCEEDED
WINNERS = (
    WorkflowState.TIMED_OUT,
    WorkflowState.LOST,
    WorkflowState.CANCELLED,
    SUCCEEDED,
)
LATER_MS = envelope.milliseconds(LATER)
WEEK = timedelta(days=7)
UNREPORTED = TruncationReason.terminal_state_unreported
MIXED = {0: "SUCCEEDED", 1: "RUNNING", 2: "FAILED"}


def end(held, outcome, now=LATER):
    if outcome is SUCCEEDED:
        return transitions.succeed(held, b"1", now=now)
    error = Failed("builtins.ValueError", "ValueError: no")
    return transitions.fail(held, outcome, error, reason="word", now=now)


def said(held):
    return summaries.decode(bytes(row(held).progress_summary))


def ended(book, outcome, states=None, **extra):
    """Compose the producer's own end of the run."""
    publication = book.publication(states, expires_at_ms=LATER_MS + 7, **extra)
    return helpers.resummarized(
        publication,
        ended_at_ms=LATER_MS,
        expires_at_ms=LATER_MS + 7,
        state=outcome,
        terminal=Terminal(derived=False, outcome=outcome, reason="reported"),
    )


def assert_one_truth(held, outcome):
    """Row, attempt and run tell one end, and what is stored agrees with itself."""
    execution = row(held)
    attempt = TaskAttempt.objects.get(run_id=held.identity.run_id)
    assert (execution.state, attempt.state) == (outcome, outcome)
    assert bytes(attempt.terminal_summary) == bytes(execution.progress_summary)
    closed = said(held)
    assert (closed.state, closed.terminal.outcome) == (outcome, outcome)
    for run in WorkflowRun.objects.filter(run_id=held.identity.run_id):
        assert run.expires_at == envelope.moment(closed.expires_at_ms)
        assert run.summary_revision == closed.revision - closed.terminal.derived
        assert audit(held.identity.run_id).findings == ()


@pytest.fixture
def writer():
    """The connection of a run's collector."""
    with psycopg.connect(helpers.dsn(), autocommit=True, prepare_threshold=0) as conn:
        pool.configure(conn)
        yield conn


@pytest.fixture
def held():
    return running()


@pytest.fixture
def book(writer, held):
    """A run of three nodes, one of each kind of state, under way."""
    book = Book.open(writer, held.identity)
    book.commit(writer, book.growth(writer, 3))
    book.commit(writer, book.publication(MIXED))
    return book


# Before the producer's end


@pytest.mark.parametrize("outcome", WINNERS)
def test_end_of_a_run_that_published_nothing_is_derived_from_nothing(
    writer, held, outcome
):
    book = Book.open(writer, held.identity)

    end(held, outcome)

    assert_one_truth(held, outcome)
    closed = said(held)
    assert (closed.revision, closed.discovered_nodes, closed.manifest_id) == (
        1,
        0,
        None,
    )
    assert closed.detail.availability is DetailAvailability.NOT_REPORTED
    assert closed.percent == (100 if outcome is SUCCEEDED else 0)
    assert publish(writer, *book.args, ended(book, outcome)) == Fenced("task")
    assert_one_truth(held, outcome)


@pytest.mark.parametrize("outcome", WINNERS[:3])
def test_interruption_keeps_what_was_last_observed(held, book, outcome):
    before = said(held)

    end(held, outcome)

    assert_one_truth(held, outcome)
    closed = said(held)
    assert closed.node_counts == NodeCounts(succeeded=1, running=1, failed=1)
    assert (closed.detail, closed.percent) == (before.detail, 33)
    assert closed.terminal == Terminal(derived=True, outcome=outcome, reason="word")
    assert (closed.revision, closed.ended_at_ms) == (before.revision + 1, LATER_MS)
    assert WorkflowRun.objects.get().expires_at == LATER + WEEK


def test_success_counts_every_node_and_says_that_the_rows_are_older(held, book):
    rows = list(NodeDetail.objects.values_list("ordinal", "record"))

    end(held, SUCCEEDED)

    assert_one_truth(held, SUCCEEDED)
    closed = said(held)
    assert closed.node_counts == NodeCounts(succeeded=3)
    assert closed.percent == 100
    assert closed.detail == summaries.Detail(
        availability=DetailAvailability.TRUNCATED, complete=False, reasons=(UNREPORTED,)
    )
    assert list(NodeDetail.objects.values_list("ordinal", "record")) == rows


# After the producer's end


@pytest.mark.parametrize("outcome", ENDS)
def test_end_that_the_producer_told_as_it_is_stays_byte_for_byte(
    writer, held, book, outcome
):
    states = dict.fromkeys(range(3), "SUCCEEDED")
    own = ended(book, outcome, states)
    book.commit(writer, own)

    end(held, outcome)

    assert_one_truth(held, outcome)
    assert bytes(row(held).progress_summary) == own.summary
    assert said(held).detail.availability is DetailAvailability.AVAILABLE


@pytest.mark.parametrize(("told", "outcome"), list(permutations(ENDS, 2)))
def test_end_that_the_producer_told_otherwise_is_settled_by_the_row(
    writer, held, book, told, outcome
):
    states = dict.fromkeys(range(3), "SUCCEEDED")
    book.commit(writer, ended(book, told, states))

    end(held, outcome)

    assert_one_truth(held, outcome)
    closed = said(held)
    assert closed.terminal.derived
    assert closed.revision == book.base.summary + 1
    assert closed.node_counts == NodeCounts(succeeded=3)
    assert closed.percent == (100 if outcome is SUCCEEDED else 99)
    late = outcome is SUCCEEDED
    assert closed.detail.reasons == ((UNREPORTED,) if late else ())
    assert closed.expires_at_ms == LATER_MS + 7 * summaries.DAY_MS


# While the producer's end is on its way


@contextmanager
def on_a_thread(call):
    """Run `call` beside the block; its value is appended to what is yielded."""
    found = []

    def work():
        try:
            found.append(call())
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    try:
        yield found, thread
    finally:
        thread.join(20)
    assert found


def await_waiter():
    """Wait until one connection to this database waits for another's lock."""
    until = time.monotonic() + 10
    with psycopg.connect(helpers.dsn(), autocommit=True) as admin:
        while time.monotonic() < until:
            (waiting,) = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND cardinality(pg_blocking_pids(pid)) > 0"
            ).fetchone()
            if waiting:
                return
    raise AssertionError("Nothing ever waited for a lock.")


@pytest.mark.parametrize("outcome", WINNERS)
@pytest.mark.parametrize("told", [SUCCEEDED, WorkflowState.FAILED])
def test_transition_that_waits_for_the_producers_end_stands_on_it(
    writer, held, book, told, outcome
):
    own = ended(book, told, dict.fromkeys(range(3), "SUCCEEDED"))
    with on_a_thread(lambda: end(held, outcome)) as (found, thread):

        def meanwhile(_conn):
            thread.start()
            await_waiter()

        hook(writer, COMMIT, meanwhile)
        assert isinstance(publish(writer, *book.args, own), Published)

    assert isinstance(found[0], Recorded)
    assert_one_truth(held, outcome)
    assert (bytes(row(held).progress_summary) == own.summary) is (told is outcome)
    assert said(held).node_counts == NodeCounts(succeeded=3)


@pytest.mark.parametrize("outcome", WINNERS)
def test_producers_end_that_waits_for_the_transition_changes_nothing(
    writer, held, book, outcome
):
    own = ended(book, SUCCEEDED, dict.fromkeys(range(3), "SUCCEEDED"))
    late = on_a_thread(lambda: publish(writer, *book.args, own))
    with late as (found, thread), transaction.atomic():
        end(held, outcome)
        thread.start()
        await_waiter()

    assert found == [Fenced("task")]
    assert_one_truth(held, outcome)
    assert said(held).terminal.derived


def test_of_two_transitions_at_once_one_is_recorded(held, book):
    late = on_a_thread(lambda: end(held, WorkflowState.TIMED_OUT))
    with late as (found, thread), transaction.atomic():
        end(held, SUCCEEDED)
        thread.start()
        await_waiter()

    assert found == [Stale()]
    assert_one_truth(held, SUCCEEDED)


# A stored summary that is none


def broken(held, kind):
    """Leave the run without the summary it published."""
    stored = row(held).progress_summary
    if kind == "oversized":
        with connection.cursor() as cursor:
            cursor.execute(DROP_SIZE)
    bodies = {
        "missing": None,
        "corrupt": b"{" + bytes(stored)[1:-1],
        "foreign": canonical.encode(
            msgspec.structs.replace(
                said(held),
                run=msgspec.structs.replace(
                    said(held).run, run_id="00000000-0000-4000-8000-000000000000"
                ),
            )
        ),
        "oversized": bytes(stored) + b" " * V1.summary,
    }
    RayTaskExecution.objects.update(progress_summary=bodies[kind])


DROP_SIZE = """
ALTER TABLE django_ray_execution DROP CONSTRAINT django_ray_execution_summary_size
"""
ADD_SIZE = """
ALTER TABLE django_ray_execution ADD CONSTRAINT django_ray_execution_summary_size
CHECK (progress_summary IS NULL OR octet_length(progress_summary) <= 16384)
"""


@pytest.fixture
def sized():
    """Give the table its constraint back."""
    yield
    RayTaskExecution.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_constraint "
            "WHERE conname = 'django_ray_execution_summary_size'"
        )
        if not cursor.fetchone()[0]:
            cursor.execute(ADD_SIZE)


FAULTS = {
    "missing": DetailAvailability.MISSING,
    "foreign": DetailAvailability.MISSING,
    "corrupt": DetailAvailability.CORRUPT,
    "oversized": DetailAvailability.CORRUPT,
}


@pytest.mark.parametrize("outcome", WINNERS)
@pytest.mark.parametrize("kind", FAULTS)
def test_run_whose_summary_is_lost_ends_past_its_revision_and_says_so(
    sized, held, book, kind, outcome
):
    broken(held, kind)
    WorkflowRun.objects.update(retention_days=3)

    end(held, outcome)

    closed = said(held)
    assert closed.revision == book.base.summary + 1
    assert closed.detail.availability is FAULTS[kind]
    assert (closed.discovered_nodes, closed.manifest_id) == (0, None)
    assert (closed.detail_revision, closed.topology_version) == (None, None)
    assert closed.retention_days == 3
    assert WorkflowRun.objects.get().expires_at == LATER + timedelta(days=3)
    attempt = TaskAttempt.objects.get()
    assert bytes(attempt.terminal_summary) == bytes(row(held).progress_summary)


def test_summary_that_leaves_no_room_for_its_end_counts_as_corrupt(held, book):
    bare = msgspec.structs.replace(said(held), session=msgspec.Raw(b'""'))
    room = V1.summary - len(canonical.encode(bare))
    full = msgspec.structs.replace(bare, session=msgspec.Raw(b'"' + b"s" * room + b'"'))
    RayTaskExecution.objects.update(progress_summary=canonical.encode(full))

    end(held, WorkflowState.LOST)

    assert said(held).detail.availability is DetailAvailability.CORRUPT
    assert said(held).revision == book.base.summary + 1


@pytest.mark.parametrize("outcome", WINNERS)
@pytest.mark.parametrize("field", ["terminal", "expires_at_ms", "ended_at_ms"])
def test_end_that_is_half_told_is_derived_again(writer, held, book, field, outcome):
    own = ended(book, outcome)
    book.commit(writer, own)
    half = msgspec.structs.replace(summaries.decode(own.summary), **{field: None})
    RayTaskExecution.objects.update(progress_summary=summaries.encode(half))

    end(held, outcome)

    assert_one_truth(held, outcome)
    assert said(held).terminal.derived
    assert said(held).expires_at_ms == LATER_MS + 7 * summaries.DAY_MS


@pytest.mark.parametrize("outcome", WINNERS)
def test_last_revision_a_producer_may_use_is_followed_by_the_lifecycles(
    held, book, outcome
):
    last = msgspec.structs.replace(said(held), revision=FINAL_REVISION - 1)
    RayTaskExecution.objects.update(progress_summary=summaries.encode(last))
    WorkflowRun.objects.update(summary_revision=FINAL_REVISION - 1)

    end(held, outcome)

    assert_one_truth(held, outcome)
    assert said(held).revision == FINAL_REVISION


# Expiry


@pytest.mark.parametrize(
    ("stands", "expires"),
    [
        (None, LATER + WEEK),
        (LATER, LATER + WEEK),
        (LATER + WEEK - timedelta(milliseconds=1), LATER + WEEK),
        (LATER + 2 * WEEK, LATER + 2 * WEEK),
    ],
)
@pytest.mark.parametrize("kind", [None, "corrupt", "missing"])
def test_envelope_extends_an_earlier_expiry_and_shortens_none(
    held, book, kind, stands, expires
):
    if kind is not None:
        broken(held, kind)
    WorkflowRun.objects.update(expires_at=stands)

    end(held, WorkflowState.TIMED_OUT)

    assert WorkflowRun.objects.get().expires_at == expires
    assert said(held).expires_at_ms == envelope.milliseconds(expires)


@pytest.mark.parametrize("stands", ["-infinity", "infinity", "0044-03-15 BC"])
@pytest.mark.parametrize("outcome", WINNERS)
def test_expiry_that_is_no_time_keeps_no_run_from_its_end(held, book, stands, outcome):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_ray_run SET expires_at = %s", [stands])

    end(held, outcome)

    assert_one_truth(held, outcome)
    assert WorkflowRun.objects.get().expires_at == LATER + WEEK


def test_expiry_at_the_end_of_time_stands(held, book):
    _, last = envelope.TIMES
    WorkflowRun.objects.update(expires_at=last)

    end(held, WorkflowState.LOST)

    assert_one_truth(held, WorkflowState.LOST)
    assert WorkflowRun.objects.get().expires_at == last


@pytest.mark.parametrize("field", ["attempt_number", "execution_generation"])
def test_expiry_is_given_to_exactly_the_run_that_ended(held, book, field):
    WorkflowRun.objects.update(**{field: 9})

    end(held, WorkflowState.LOST)

    assert WorkflowRun.objects.get().expires_at is None


def test_times_of_the_summary_are_the_rows_to_the_millisecond():
    for at_ms in (*range(LATER_MS, LATER_MS + 1_000), 0, 253_402_300_799_999):
        assert envelope.milliseconds(envelope.moment(at_ms)) == at_ms


# A retry


def test_attempt_keeps_its_terminal_summary_through_a_retry(writer, held, book):
    end(held, WorkflowState.FAILED)
    first = bytes(row(held).progress_summary)
    RayTaskExecution.objects.update(state="QUEUED", finished_at=None)

    again = claim()
    transitions.start(again.identity, now=NOW, again=False)
    second = Book.open(writer, again.identity)
    second.commit(writer, second.growth(writer, 2))
    end(again, SUCCEEDED)

    summary_of = dict(
        TaskAttempt.objects.values_list("attempt_number", "terminal_summary")
    )
    assert bytes(summary_of[1]) == first
    assert summaries.decode(bytes(summary_of[2])).run.attempt_number == 2
    assert_one_truth(again, SUCCEEDED)
    assert audit(held.identity.run_id).findings == ()


def test_summary_of_the_attempt_before_is_no_fault_of_a_run_that_told_nothing(
    writer, held, book
):
    end(held, WorkflowState.FAILED)
    RayTaskExecution.objects.update(state="QUEUED", finished_at=None)
    again = claim()
    transitions.start(again.identity, now=NOW, again=False)
    Book.open(writer, again.identity)

    end(again, WorkflowState.LOST)

    assert_one_truth(again, WorkflowState.LOST)
    assert said(again).detail.availability is DetailAvailability.NOT_REPORTED
    assert said(again).revision == 1


# Policies


@pytest.mark.parametrize("outcome", WINNERS)
@pytest.mark.parametrize(
    ("policy", "availability"),
    [
        (ReportingPolicy.full, DetailAvailability.NOT_REPORTED),
        (ReportingPolicy.summary, DetailAvailability.OMITTED_BY_POLICY),
        (ReportingPolicy.terminal_only, DetailAvailability.OMITTED_BY_POLICY),
        (ReportingPolicy.disabled, DetailAvailability.DISABLED),
    ],
)
def test_end_of_a_run_without_a_collector_says_what_its_policy_keeps(
    settings, policy, availability, outcome
):
    settings.DJANGO_RAY = {"REPORTING_POLICY": policy.value, "RETENTION_DAYS": 2}
    held = running()

    end(held, outcome)

    assert_one_truth(held, outcome)
    assert said(held).policy is policy
    assert said(held).detail.availability is availability
    assert said(held).expires_at_ms == LATER_MS + 2 * summaries.DAY_MS
