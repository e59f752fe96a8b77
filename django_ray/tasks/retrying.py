"""When another attempt follows one that came to nothing, and what is reset for it.

Called under the execution's lock, after the end is in row, run and attempt alike. What is
reset owns no run: the fence refuses its writers, and the next claim makes a new one.
ADR-0004, contract 4.6.
"""

from datetime import timedelta

from django.db.models.functions import Now

from django_ray import conf
from django_ray.conf import Options
from django_ray.errors import ConfigurationError
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.vocabulary import ExecutionState

RETRIED = (ExecutionState.FAILED, ExecutionState.LOST, ExecutionState.TIMED_OUT)
"""The ends that another attempt may follow by itself; a cancellation is for good."""

DOUBLINGS = 20
"""So often a pause doubles at most: past that the longest one holds anyway."""


def pause(options: Options, attempt: int, share: float) -> timedelta:
    """Return how long to wait after this attempt, the first being 1.

    It doubles with every attempt up to the longest one. Half of it is certain; of the
    other half `share`, from 0 to 1, is drawn, so that what failed together does not come
    back together.
    """
    doubled = options.backoff_seconds * 2 ** min(attempt - 1, DOUBLINGS)
    whole = min(doubled, options.backoff_max_seconds)
    return timedelta(seconds=whole * (1 + share) / 2)


def again(execution: RayTaskExecution, share: float) -> bool:
    """Let an ended execution wait for its next attempt; False when it has none left."""
    options = _options_of(execution)
    if (
        options is None
        or execution.state not in RETRIED
        or execution.cancel_requested_at is not None
        or execution.attempt_number >= options.max_attempts
    ):
        return False
    wait = pause(options, execution.attempt_number, share)
    reset(execution)
    # On the clock that claims are made by.
    RayTaskExecution.objects.filter(pk=execution.pk).update(run_after=Now() + wait)
    return True


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


def _options_of(execution: RayTaskExecution) -> Options | None:
    # A row that cannot be read would not run any better another time.
    try:
        return conf.parse_options(execution.options)
    except ConfigurationError:
        return None
