"""How a run ends in the rows: envelope, expiry and the attempt's copy, in one transaction.

Called under the execution's lock, by whichever transition won; what a producer published
before it is kept or carried on, and what it publishes after is refused by the fence. The
attempt has its copy before anything resets the execution for a retry. ADR-0004.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, F, Value, When
from django.db.models.expressions import Combinable

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.identity import RunIdentity
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import WorkflowRun
from django_ray.protocol import summary as summaries
from django_ray.protocol.vocabulary import ExecutionState, WorkflowState
from django_ray.tasks import envelope
from django_ray.tasks.envelope import Standing
from django_ray.tasks.outcome import Failed


@dataclass(frozen=True, slots=True)
class End:
    """How the durable row ends; `reason` is a fixed word, `error` the attempt's."""

    state: WorkflowState
    reason: str
    error: Failed | None


@dataclass(frozen=True, slots=True)
class _Run:
    """The locked row of the run."""

    pk: int
    standing: Standing


def record(
    execution: RayTaskExecution, identity: RunIdentity, end: End, *, now: datetime
) -> None:
    """End the run that owns the locked `execution`, in row, run and attempt alike."""
    run = _lock_run(identity)
    stored = execution.progress_summary
    closed = envelope.close(
        None if stored is None else bytes(stored),
        identity,
        standing=None if run is None else run.standing,
        options=_options_of(execution),
        plan_fingerprint=execution.plan_fingerprint,
        started_at=execution.started_at,
        outcome=end.state,
        reason=end.reason,
        now=now,
    )
    execution.state = ExecutionState(end.state)
    execution.finished_at = now
    execution.progress_summary = summaries.encode(closed)
    execution.save(update_fields=["state", "finished_at", "progress_summary", "result"])
    if run is not None:
        _stamp(run, closed)
    _copy(execution, end)


def _lock_run(identity: RunIdentity) -> _Run | None:
    """Lock the run's row after the execution's; None when no collector ever began it.

    An expiry that is no time, as infinity is none, must not keep a run from its end.
    """
    row = (
        WorkflowRun.objects.select_for_update(no_key=True)
        .filter(
            execution_id=identity.task_execution_pk,
            attempt_number=identity.attempt_number,
            execution_generation=identity.execution_generation,
            run_id=identity.run_id,
        )
        .annotate(
            stands=Case(When(expires_at__range=envelope.TIMES, then="expires_at"))
        )
        .values_list("pk", "summary_revision", "retention_days", "stands")
        .first()
    )
    if row is None:
        return None
    pk, revision, retention_days, stands = row
    expires_at_ms = None if stands is None else envelope.milliseconds(stands)
    return _Run(pk, Standing(revision, retention_days, expires_at_ms))


def _options_of(execution: RayTaskExecution) -> conf.Options:
    # A row that cannot be read must still be able to end.
    try:
        return conf.applied(conf.parse_options(execution.options))
    except ConfigurationError:
        return conf.Settings().options


def _stamp(run: _Run, closed: summaries.Summary) -> None:
    """Give the run's row its expiry, never an earlier one; its revisions stay as they are."""
    expires, stands = closed.expires_at_ms, run.standing.expires_at_ms
    assert expires is not None
    if stands is None or stands < expires:
        WorkflowRun.objects.filter(pk=run.pk).update(
            expires_at=envelope.moment(expires)
        )


def _copy(execution: RayTaskExecution, end: End) -> None:
    TaskAttempt.objects.filter(
        execution=execution, attempt_number=execution.attempt_number
    ).update(
        state=ExecutionState(end.state),
        finished_at=execution.finished_at,
        error_class="" if end.error is None else end.error.error_class,
        error_text="" if end.error is None else end.error.error_text,
        retry_disposition=_disposition(end),
        terminal_summary=execution.progress_summary,
    )


def _disposition(end: End) -> Combinable | str:
    """Return what the attempt leaves for a retry; where nobody tells, what was noted."""
    noted = F("retry_disposition")
    if end.state is WorkflowState.SUCCEEDED:
        done = Value(RetryDisposition.PROHIBITED.value)
        return Case(When(retry_disposition="", then=noted), default=done)
    told = None if end.error is None else end.error.retry
    return noted if told is None else told.value
