"""Another attempt follows one that came to nothing; what that one came to is kept."""

import uuid
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.tasks import TaskResultStatus
from django.utils import timezone

from django_ray.conf import Options, Settings
from django_ray.maintenance.audit import audit
from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.protocol import summary as summaries
from django_ray.protocol.vocabulary import WorkflowState
from django_ray.readers import live
from django_ray.readers import summary as reader
from django_ray.readers.archive import before, find
from django_ray.storage import fence
from django_ray.tasks import requests, retrying, transitions
from django_ray.tasks.options import enqueue_with
from django_ray.tasks.outcome import Failed
from django_ray.tasks.transitions import Recorded, Retrying, Stale
from tests.app import published, taskbook
from tests.app.executions import LATER, NOW, claim, come_due, row, running

pytestmark = pytest.mark.django_db

ERROR = Failed("builtins.ValueError", "ValueError: no")


def stubborn():
    return running(taskbook.stubborn)


def fail(held, state=WorkflowState.FAILED, reason="error"):
    return transitions.fail(held, state, ERROR, reason=reason, now=LATER)


def again():
    """Claim and start the next attempt."""
    come_due()
    held = claim()
    started = transitions.start(held.identity, now=NOW, again=False)
    assert isinstance(started, Recorded)
    return held


def options(**changes):
    return Options(
        **{
            **{
                name: getattr(Settings().options, name)
                for name in Options.__struct_fields__
            },
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("attempt", "share", "seconds"),
    [
        (1, 0.0, 5),
        (1, 1.0, 10),
        (2, 0.5, 15),
        (3, 1.0, 40),
        (4, 1.0, 60),
        (99, 1.0, 60),
    ],
)
def test_pause_doubles_up_to_the_longest_and_half_of_it_is_drawn(
    attempt, share, seconds
):
    policy = options(backoff_seconds=10, backoff_max_seconds=60)

    assert retrying.pause(policy, attempt, share) == timedelta(seconds=seconds)


def test_the_longest_pause_wins_over_a_longer_first_one():
    policy = options(backoff_seconds=600, backoff_max_seconds=1)

    assert retrying.pause(policy, 1, 1.0) == timedelta(seconds=1)


@pytest.mark.parametrize(
    "state", [WorkflowState.FAILED, WorkflowState.LOST, WorkflowState.TIMED_OUT]
)
def test_attempt_that_came_to_nothing_is_kept_and_the_row_waits_for_another(state):
    held = stubborn()

    assert fail(held, state) == Retrying()

    execution = row(held)
    assert execution.state == "RETRY_WAIT"
    left = execution.run_after - timezone.now()
    assert timedelta(seconds=4) < left <= timedelta(seconds=10)
    assert (execution.attempt_number, execution.execution_generation) == (1, 1)
    for name in ("run_id", "progress_summary", "result", "started_at", "finished_at"):
        assert getattr(execution, name) is None
    assert not ExecutionLease.objects.exists()
    attempt = execution.attempts.get()
    assert (attempt.state, attempt.error_text) == (state.value, ERROR.error_text)
    closed = summaries.decode(bytes(attempt.terminal_summary))
    assert (closed.state, closed.run.run_id) == (state, held.identity.run_id)
    assert audit(held.identity.run_id).findings == ()


def test_next_attempt_is_claimed_when_its_time_has_come_and_is_a_new_run():
    first = stubborn()
    fail(first)
    assert claim() is None

    second = again()

    identity = second.identity
    assert (identity.attempt_number, identity.execution_generation) == (2, 2)
    assert identity.run_id != first.identity.run_id
    transitions.succeed(second, b"1", now=LATER)
    assert row(second).state == "SUCCEEDED"
    states = row(second).attempts.order_by("attempt_number")
    assert [attempt.state for attempt in states] == ["FAILED", "SUCCEEDED"]


def test_last_attempt_is_the_end():
    held = stubborn()
    for _ in range(2):
        assert fail(held) == Retrying()
        held = again()

    assert isinstance(fail(held), Recorded)

    assert row(held).state == "FAILED"
    assert row(held).attempts.count() == 3


def test_task_without_the_option_has_one_attempt():
    assert isinstance(fail(running()), Recorded)


def test_option_of_the_call_gives_another_attempt():
    enqueue_with(taskbook.plain, {"max_attempts": 2})
    assert fail(claim()) == Retrying()


def test_run_that_is_cancelled_or_was_to_be_has_no_other_attempt():
    cancelled = stubborn()
    assert isinstance(fail(cancelled, WorkflowState.CANCELLED, "cancelled"), Recorded)
    asked = stubborn()
    requests.cancel(row(asked).public_id, now=NOW)

    assert isinstance(fail(asked), Recorded)
    assert row(asked).state == "FAILED"


def test_row_that_cannot_be_read_has_no_other_attempt():
    held = stubborn()
    RayTaskExecution.objects.update(options={"policy": "no such"})

    assert isinstance(fail(held), Recorded)


def test_outer_task_of_an_earlier_attempt_changes_nothing():
    first = stubborn()
    fail(first)
    waiting = RayTaskExecution.objects.values().get()

    assert transitions.start(first.identity, now=NOW, again=True) == Stale()
    assert fail(first) == Stale()
    assert transitions.succeed(first, b"1", now=LATER) == Stale()
    assert RayTaskExecution.objects.values().get() == waiting

    second = again()
    running_row = RayTaskExecution.objects.values().get()
    assert transitions.start(first.identity, now=NOW, again=True) == Stale()
    assert fail(first) == Stale()
    assert RayTaskExecution.objects.values().get() == running_row
    assert row(second).state == "RUNNING"


@pytest.mark.django_db(transaction=True)
def test_fence_refuses_the_writers_of_an_earlier_attempt():
    first = stubborn()
    fail(first)

    with published.writer() as conn, conn.transaction():
        assert not fence.hold(conn, first.identity)
        again()
        assert not fence.hold(conn, first.identity)


@pytest.mark.django_db(transaction=True)
def test_attempt_is_read_from_its_own_row_while_another_is_waited_for():
    held = stubborn()
    public_id = row(held).public_id
    fail(held)

    current = reader.read_trusted(public_id)
    assert (current.summary, current.execution.state) == (None, "RETRY_WAIT")
    archived = find(current, 1)
    assert archived.summary.state is WorkflowState.FAILED
    assert archived.execution.run_id == uuid.UUID(held.identity.run_id)
    (only,) = before(current, None, 8)
    assert only.reading == archived
    assert live.read(public_id).error == ""


def test_result_tells_of_every_attempt():
    held = stubborn()
    public_id = str(row(held).public_id)
    fail(held)
    result = taskbook.stubborn.get_result(public_id)
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
    assert len(result.errors) == 1

    second = again()
    transitions.succeed(second, b"7", now=LATER)
    result.refresh()

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 7)
    assert (result.attempts, len(result.errors)) == (2, 1)


@pytest.mark.parametrize("state", ["FAILED", "LOST", "TIMED_OUT", "CANCELLED"])
def test_ended_execution_is_run_once_more_when_asked(state, capsys):
    held = running()
    fail(held, WorkflowState(state))
    kept = row(held).attempts.values().get()

    call_command("ray_retry", str(row(held).public_id))

    assert "ready to run once more" in capsys.readouterr().out
    assert row(held).attempts.values().get() == kept
    second = claim()
    assert second.identity.attempt_number == 2
    assert isinstance(fail(second), Recorded)


def test_execution_that_was_cancelled_before_it_began_is_queued_again():
    result = taskbook.plain.enqueue()
    requests.cancel(uuid.UUID(result.id), now=NOW)

    assert isinstance(requests.retry(uuid.UUID(result.id)), Recorded)

    assert RayTaskExecution.objects.get().state == "QUEUED"
    assert claim().identity.attempt_number == 1


def test_what_goes_on_or_has_succeeded_is_not_retried():
    held = running()
    public_id = row(held).public_id
    assert requests.retry(public_id) == Stale()
    transitions.succeed(held, b"1", now=LATER)

    with pytest.raises(CommandError, match="has succeeded"):
        call_command("ray_retry", str(public_id))
    with pytest.raises(CommandError, match="no such"):
        call_command("ray_retry", str(uuid.uuid4()))
    assert row(held).state == "SUCCEEDED"


def test_ready_rows_are_found_by_their_index():
    for _ in range(3):
        taskbook.plain.enqueue()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT 1 FROM django_ray_execution"
            " WHERE state IN ('QUEUED', 'RETRY_WAIT') AND queue_name IN ('default')"
            " AND backend IN ('default')"
            " AND (run_after IS NULL OR run_after <= now())"
            " ORDER BY priority DESC, enqueued_at, id LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "django_ray_execution_ready" in plan
