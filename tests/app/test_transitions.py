"""Claim, start and end of an execution under its row lock."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_ray.models.executions import ExecutionLease, RayTaskExecution, TaskAttempt
from django_ray.models.progress import WorkflowRun
from django_ray.protocol import summary as summaries
from django_ray.protocol.vocabulary import WorkflowState
from django_ray.tasks import transitions
from django_ray.tasks.outcome import Failed
from django_ray.tasks.transitions import Held, Orphan, Recorded, Stale
from tests.app import taskbook
from tests.app.executions import LATER, LEASE, NOW, claim, claimed, row, running

ERROR = Failed("builtins.ValueError", "ValueError: no")


def fail(held, state=WorkflowState.FAILED):
    return transitions.fail(held, state, ERROR, reason="error", now=LATER)


def summary(held):
    return summaries.decode(bytes(row(held).progress_summary))


@pytest.mark.django_db
def test_nothing_is_claimed_where_nothing_is_queued():
    assert claim() is None


@pytest.mark.django_db
def test_claim_makes_a_new_run_with_a_lease_an_attempt_and_a_pinned_plan():
    held = claimed()

    execution = row(held)
    assert (execution.state, execution.claimed_at) == ("CLAIMED", NOW)
    assert (execution.attempt_number, execution.execution_generation) == (1, 1)
    assert str(execution.run_id) == held.identity.run_id
    assert execution.plan["task_path"] == "tests.app.taskbook.plain"
    assert execution.plan["strategy_requirements"] == {}
    assert len(execution.plan_fingerprint) == 64
    assert (execution.lease.owner, execution.lease.lease_epoch) == ("worker", 1)
    attempt = execution.attempts.get()
    assert (attempt.state, attempt.worker) == ("CLAIMED", "worker")
    assert str(attempt.run_id) == held.identity.run_id


@pytest.mark.django_db
def test_lease_ends_on_the_clock_of_the_database():
    held = claimed()

    with connection.cursor() as cursor:
        cursor.execute("SELECT expires_at - clock_timestamp() FROM django_ray_lease")
        (left,) = cursor.fetchone()
    assert timedelta(seconds=50) < left <= LEASE
    assert transitions.renew(held, LEASE)


@pytest.mark.django_db
def test_oldest_of_the_served_queues_and_backends_is_claimed_first():
    first = taskbook.plain.enqueue()
    taskbook.plain.enqueue()

    assert claim(queues=["other"]) is None
    assert claim(backends=["other"]) is None
    held = claim()
    assert str(row(held).public_id) == first.id


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "SUCCEEDED", "LOST"])
def test_only_what_is_queued_is_claimed(state):
    taskbook.plain.enqueue()
    RayTaskExecution.objects.update(state=state)

    assert claim() is None


@pytest.mark.django_db(transaction=True)
def test_claim_passes_over_a_row_that_another_worker_is_claiming():
    taskbook.plain.enqueue()
    second = taskbook.plain.enqueue()
    claimed_by_other = []

    def other():
        try:
            claimed_by_other.append(claim("other"))
        finally:
            connection.close()

    with transaction.atomic():
        claim("first")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)

    (held,) = claimed_by_other
    assert str(row(held).public_id) == second.id


@pytest.mark.django_db
def test_start_takes_exactly_the_claimed_run_to_running():
    held = claimed()

    started = transitions.start(held.identity, now=NOW, again=False)

    assert isinstance(started, Recorded)
    execution = row(held)
    assert (execution.state, execution.started_at) == ("RUNNING", NOW)
    assert execution.attempts.get().started_at == NOW


@pytest.mark.django_db
def test_run_starts_once_but_for_a_start_whose_answer_was_lost():
    held = running()

    assert transitions.start(held.identity, now=LATER, again=False) == Stale()
    again = transitions.start(held.identity, now=LATER, again=True)

    assert isinstance(again, Recorded)
    assert row(held).started_at == NOW
    assert row(held).attempts.get().started_at == NOW


@pytest.mark.django_db
def test_success_stores_the_result_and_a_derived_summary_of_a_run_that_told_nothing():
    held = running()

    recorded = transitions.succeed(held, b"[1, 2]", now=LATER)

    assert isinstance(recorded, Recorded)
    execution = row(held)
    assert (execution.state, execution.result) == ("SUCCEEDED", [1, 2])
    assert execution.finished_at == LATER
    closed = summary(held)
    assert closed.state is WorkflowState.SUCCEEDED
    assert closed.terminal is not None
    assert closed.terminal.derived
    assert (closed.percent, closed.discovered_nodes) == (100, 0)
    attempt = execution.attempts.get()
    assert (attempt.state, attempt.finished_at) == ("SUCCEEDED", LATER)
    assert bytes(attempt.terminal_summary) == bytes(execution.progress_summary)
    assert not ExecutionLease.objects.exists()


@pytest.mark.django_db
def test_failure_keeps_its_error_with_the_attempt():
    held = running()

    fail(held)

    attempt = row(held).attempts.get()
    assert (attempt.error_class, attempt.error_text) == (
        "builtins.ValueError",
        "ValueError: no",
    )
    assert summary(held).state is WorkflowState.FAILED


@pytest.mark.django_db
@pytest.mark.parametrize(
    "state", [WorkflowState.LOST, WorkflowState.CANCELLED, WorkflowState.TIMED_OUT]
)
def test_claimed_run_that_never_started_may_end(state):
    held = claimed()

    assert isinstance(fail(held, state), Recorded)

    assert row(held).state == state.value
    assert summary(held).state is state


@pytest.mark.django_db
def test_end_is_recorded_once():
    held = running()
    transitions.succeed(held, b"1", now=LATER)

    assert fail(held) == Stale()
    assert row(held).state == "SUCCEEDED"


STALE = {
    "task_execution_pk": 10**9,
    "attempt_number": 2,
    "execution_generation": 2,
    "run_id": "00000000-0000-4000-8000-000000000000",
}


@pytest.mark.django_db
@pytest.mark.parametrize("field", STALE)
def test_run_that_differs_in_one_field_changes_nothing(field):
    held = running()
    fields = {name: getattr(held.identity, name) for name in STALE}
    foreign = type(held.identity)(**{**fields, field: STALE[field]})

    assert transitions.start(foreign, now=LATER, again=True) == Stale()
    assert fail(Held(foreign, held.owner, held.lease_epoch)) == Stale()
    assert row(held).state == "RUNNING"
    assert TaskAttempt.objects.get().state == "RUNNING"


@pytest.mark.django_db
@pytest.mark.parametrize(("owner", "epoch"), [("worker", 2), ("another", 1)])
def test_worker_without_the_lease_changes_nothing(owner, epoch):
    held = running()
    other = Held(held.identity, owner, epoch)

    assert not transitions.renew(other, LEASE)
    assert fail(other) == Stale()
    assert row(held).state == "RUNNING"


@pytest.mark.django_db
def test_summary_the_producer_ended_as_the_row_ends_stays_as_it_is():
    held = running()
    transitions.succeed(held, b"1", now=LATER)
    own = summaries.encode(
        summaries.Summary(
            **{
                **{name: getattr(summary(held), name) for name in FIELDS},
                "terminal": summaries.Terminal(
                    derived=False, outcome=WorkflowState.SUCCEEDED, reason=""
                ),
            }
        )
    )
    RayTaskExecution.objects.update(state="RUNNING", progress_summary=own)
    ExecutionLease.objects.create(
        execution=row(held), owner="worker", lease_epoch=1, expires_at=LATER
    )

    transitions.succeed(held, b"1", now=LATER)

    assert bytes(row(held).progress_summary) == own


@pytest.mark.django_db
def test_summary_the_producer_ended_otherwise_is_carried_to_the_rows_end():
    held = running()
    transitions.succeed(held, b"1", now=LATER)
    RayTaskExecution.objects.update(state="RUNNING")
    ExecutionLease.objects.create(
        execution=row(held), owner="worker", lease_epoch=1, expires_at=LATER
    )
    before = summary(held).revision

    fail(held)

    assert summary(held).state is WorkflowState.FAILED
    assert summary(held).revision == before + 1


@pytest.mark.django_db
@pytest.mark.parametrize("stored", [b"", b"{}", b"\x00"])
def test_stored_summary_that_does_not_parse_is_replaced(stored):
    held = running()
    RayTaskExecution.objects.update(progress_summary=stored)

    fail(held)

    assert summary(held).revision == 1


@pytest.mark.django_db
def test_runs_row_takes_the_expiry_and_keeps_the_producers_revision():
    held = running()
    WorkflowRun.objects.create(
        execution=row(held),
        attempt_number=1,
        execution_generation=1,
        run_id=held.identity.run_id,
        retention_days=7,
        created_at=NOW,
        summary_revision=0,
    )

    fail(held)

    run = WorkflowRun.objects.get()
    assert (run.summary_revision, summary(held).revision) == (0, 1)
    assert run.expires_at == LATER + timedelta(days=7)


@pytest.mark.django_db
def test_claim_that_its_worker_never_saw_is_found_again():
    held = claimed()

    assert transitions.unwatched("worker", []) == [Orphan(held, has_begun=False)]
    assert transitions.unwatched("worker", [held.identity.task_execution_pk]) == []
    assert transitions.unwatched("another", []) == []


@pytest.mark.django_db
def test_what_a_worker_never_saw_is_found_without_its_snapshot():
    claimed()

    with CaptureQueriesContext(connection) as asked:
        transitions.unwatched("worker", [])

    assert len(asked) == 1
    assert "progress_data" not in asked[0]["sql"]
    assert "arguments" not in asked[0]["sql"]


FIELDS = summaries.Summary.__struct_fields__
