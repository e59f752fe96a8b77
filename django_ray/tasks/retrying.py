"""What follows an attempt that came to nothing: another one, an operator's word, or the end.

Called under the execution's lock, after the end is in row, run and attempt alike. What is
reset owns no run: the fence refuses its writers, and the next claim makes a new one.
ADR-0003, ADR-0004, contract 3, 4.6.
"""

from datetime import timedelta
from enum import StrEnum

from django.db.models.functions import Now

from django_ray import conf
from django_ray.conf import Options
from django_ray.errors import ConfigurationError
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.protocol.vocabulary import ExecutionState

RETRIED = (ExecutionState.FAILED, ExecutionState.LOST, ExecutionState.TIMED_OUT)
"""The ends that another attempt may follow by itself; a cancellation is for good."""

DOUBLINGS = 20
"""So often a pause doubles at most: past that the longest one holds anyway."""


class Next(StrEnum):
    """What follows the end of an attempt."""

    retry = "retry"
    reconcile = "reconcile"
    end = "end"


def pause(options: Options, attempt: int, share: float) -> timedelta:
    """Return how long to wait after this attempt, the first being 1.

    It doubles with every attempt up to the longest one. Half of it is certain; of the
    other half `share`, from 0 to 1, is drawn, so that what failed together does not come
    back together.
    """
    doubled = options.backoff_seconds * 2 ** min(attempt - 1, DOUBLINGS)
    whole = min(doubled, options.backoff_max_seconds)
    return timedelta(seconds=whole * (1 + share) / 2)


def judge(disposition: RetryDisposition | None, options: Options | None) -> Next:
    """Return what may follow an attempt by itself, were there attempts without end.

    `disposition` is None where no compiled session was sent an input: the retry policy
    alone decides. `options` is None of a row that cannot be read, which would not run any
    better another time.
    """
    match disposition:
        case RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED:
            return Next.reconcile
        case RetryDisposition.PROHIBITED:
            return Next.end
        case RetryDisposition.APPLICATION_POLICY_REQUIRED:
            allowed = options is not None and options.idempotent
        case RetryDisposition.AUTOMATIC_ALLOWED | None:
            allowed = options is not None
    return Next.retry if allowed else Next.end


def follow(execution: RayTaskExecution, share: float) -> Next:
    """Let an ended execution wait for its next attempt, or for an operator, or be.

    An operator is waited for whether an attempt is left or not; nobody is waited for where
    the cancellation was asked for.
    """
    options = _options_of(execution)
    if execution.state not in RETRIED or execution.cancel_requested_at is not None:
        return Next.end
    verdict = judge(_disposition_of(execution), options)
    if verdict is Next.reconcile:
        execution.state, execution.finished_at = ExecutionState.RECONCILE, None
        execution.save(update_fields=["state", "finished_at"])
    elif verdict is Next.retry and options is not None:
        if execution.attempt_number >= options.max_attempts:
            return Next.end
        wait = pause(options, execution.attempt_number, share)
        reset(execution)
        # On the clock that claims are made by.
        RayTaskExecution.objects.filter(pk=execution.pk).update(run_after=Now() + wait)
    return verdict


def reset(execution: RayTaskExecution) -> None:
    """Make an ended execution ready; its attempts keep what they came to."""
    begun = execution.attempt_number > 0
    execution.state = ExecutionState.RETRY_WAIT if begun else ExecutionState.QUEUED
    execution.run_id = execution.progress_summary = execution.result = None
    execution.claimed_at = execution.started_at = execution.finished_at = None
    execution.cancel_requested_at = execution.run_after = None
    execution.save(
        update_fields=[
            *("state", "run_id", "progress_summary", "result", "claimed_at"),
            *("started_at", "finished_at", "cancel_requested_at", "run_after"),
        ]
    )


def _disposition_of(execution: RayTaskExecution) -> RetryDisposition | None:
    noted = TaskAttempt.objects.filter(
        execution=execution, attempt_number=execution.attempt_number
    ).values_list("retry_disposition", flat=True)
    told = noted.first()
    return RetryDisposition(told) if told else None


def _options_of(execution: RayTaskExecution) -> Options | None:
    try:
        return conf.parse_options(execution.options)
    except ConfigurationError:
        return None
