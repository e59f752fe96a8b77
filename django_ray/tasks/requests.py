"""What is asked of an execution from outside, by its public id: cancel, retry, reconcile.

Any process with the project's settings may ask; none of it needs Ray. What is under way is
a worker's to end, so there the row only says what is asked. Contract 3.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import transaction

from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.tasks import retrying, waking
from django_ray.tasks.recording import announce
from django_ray.tasks.retrying import RETRIED
from django_ray.tasks.transitions import ACTIVE, UNREAD, WAITING, Recorded, Stale

REPEATABLE = (*RETRIED, ExecutionState.CANCELLED)
"""The ends after which an execution may be asked to run once more."""


@dataclass(frozen=True, slots=True)
class Requested:
    """The worker that watches the run will end it; the row says that it is asked to."""


@dataclass(frozen=True, slots=True)
class Unreconciled:
    """The execution is in RECONCILE, where `reconcile` alone moves it."""


class Verdict(StrEnum):
    """What an operator decides of an execution in RECONCILE."""

    retry = "retry"
    abandon = "abandon"


def cancel(
    public_id: uuid.UUID, *, now: datetime
) -> Recorded | Requested | Unreconciled | Stale | None:
    """Cancel an execution; None when there is none of this id, Stale when it has ended.

    Under the row's lock, in one transaction. What waits is CANCELLED at once, without an
    envelope, for no run of it is open; `task_finished` is sent on commit. What a worker
    watches it interrupts within a second, by force after ten, and CANCELLED is its end
    unless it ends by itself before. It is not retried.
    """
    with transaction.atomic():
        execution = _lock(public_id)
        if execution is None:
            return None
        if execution.state in WAITING:
            _end(execution, now)
            return Recorded(execution)
        if execution.state == ExecutionState.RECONCILE:
            return Unreconciled()
        if execution.state not in ACTIVE:
            return Stale()
        execution.cancel_requested_at = execution.cancel_requested_at or now
        execution.save(update_fields=["cancel_requested_at"])
        return Requested()


def retry(public_id: uuid.UUID) -> Recorded | Unreconciled | Stale | None:
    """Let an execution that ended without success be claimed once more, at once.

    None when there is none of this id; Stale when it goes on or has succeeded. Under the
    row's lock, in one transaction. Its attempts stay, the next has the next number; when
    that one fails too, the options' own attempts are counted from the first.
    """
    with transaction.atomic():
        execution = _lock(public_id)
        if execution is None:
            return None
        if execution.state == ExecutionState.RECONCILE:
            return Unreconciled()
        if execution.state not in REPEATABLE:
            return Stale()
        retrying.reset(execution)
        waking.wake(execution.queue_name)
        return Recorded(execution)


def reconcile(
    public_id: uuid.UUID, verdict: Verdict, *, now: datetime
) -> Recorded | Stale | None:
    """Let an execution in RECONCILE go on, as an operator has decided.

    None when there is none of this id; Stale when it is not in RECONCILE, also because it
    was decided before. Under the row's lock, in one transaction. `retry` lets it be
    claimed once more, at once, however many attempts its options have. `abandon` makes
    the attempt's end the execution's: FAILED, LOST or TIMED_OUT; `task_finished` is sent
    on commit.
    """
    with transaction.atomic():
        execution = _lock(public_id)
        if execution is None:
            return None
        if execution.state != ExecutionState.RECONCILE:
            return Stale()
        match verdict:
            case Verdict.retry:
                retrying.reset(execution)
                waking.wake(execution.queue_name)
            case Verdict.abandon:
                _abandon(execution, now)
        return Recorded(execution)


def _abandon(execution: RayTaskExecution, now: datetime) -> None:
    number = execution.attempt_number
    attempt = execution.attempts.only("state").get(attempt_number=number)
    execution.state, execution.finished_at = attempt.state, now
    execution.save(update_fields=["state", "finished_at"])
    transaction.on_commit(lambda: announce(execution))


def _end(execution: RayTaskExecution, now: datetime) -> None:
    execution.state = ExecutionState.CANCELLED
    execution.cancel_requested_at = execution.finished_at = now
    execution.save(update_fields=["state", "cancel_requested_at", "finished_at"])
    transaction.on_commit(lambda: announce(execution))


def _lock(public_id: uuid.UUID) -> RayTaskExecution | None:
    rows = RayTaskExecution.objects.select_for_update().defer(*UNREAD)
    return rows.filter(public_id=public_id).first()
