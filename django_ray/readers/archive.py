"""An attempt as a reading: its own summary gives the run's identity and epochs.

The summary of an ended attempt outlives the detail, and stands in the attempt's row when
the execution's is another run's. ADR-0004.
"""

from dataclasses import dataclass, replace

from django.db.models import Case, F, QuerySet, When
from django.db.models.functions import Right

from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.models.executions import Octets, TaskAttempt
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers import summary
from django_ray.readers.picture import Reading

ERROR_CHARACTERS = 4_096
"""The end of a stored traceback: the error itself stands there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """One attempt: its reading, the error it ended with and what may follow it, if any."""

    reading: Reading
    error_class: str
    error: str
    disposition: RetryDisposition | None


def find(current: Reading, attempt_number: int) -> Reading | None:
    """Return the reading of one attempt of an execution that was already authorized.

    None when there is no such attempt. One statement; none for the current attempt.
    """
    if _is_current(current, attempt_number):
        return current
    found = _read(current, _rows(current).filter(attempt_number=attempt_number))
    return found[0].reading if found else None


def before(current: Reading, attempt_number: int | None, most: int) -> list[Archived]:
    """Return at most so many attempts, newest first, in one statement."""
    rows = _rows(current).order_by("-attempt_number")
    if attempt_number is not None:
        rows = rows.filter(attempt_number__lt=attempt_number)
    return _read(current, rows[:most])


def error_line(error_class: str, traceback: str) -> str:
    """Return the line of a traceback that begins with the error's class, else its last."""
    short = error_class.rpartition(".")[2]
    lines = [line for line in traceback.splitlines() if line.strip()]
    for line in reversed(lines):
        if short and line.startswith((f"{short}:", f"{error_class}:")):
            return line
    return ": ".join(part for part in (error_class, *lines[-1:]) if part)


def _read(current: Reading, rows: QuerySet[TaskAttempt]) -> list[Archived]:
    fits = When(terminal_summary__octets__lte=V1.summary, then=F("terminal_summary"))
    annotated = rows.only(
        "attempt_number",
        "execution_generation",
        "run_id",
        "state",
        "claimed_at",
        "started_at",
        "finished_at",
        "error_class",
        "retry_disposition",
    ).annotate(
        size=Octets("terminal_summary"),
        capped=Case(fits),
        tail=Right("error_text", ERROR_CHARACTERS),
    )
    return [
        Archived(
            reading=_reading(current, row, row.size, row.capped),
            error_class=row.error_class,
            error=error_line(row.error_class, row.tail),
            disposition=(
                RetryDisposition(row.retry_disposition)
                if row.retry_disposition
                else None
            ),
        )
        for row in annotated
    ]


def _is_current(current: Reading, attempt_number: int) -> bool:
    """Claim that the execution's row tells of that attempt: not while it waits for another."""
    execution = current.execution
    return attempt_number == execution.attempt_number and execution.run_id is not None


def _rows(current: Reading) -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.filter(execution_id=current.execution.pk)


def _reading(
    current: Reading, row: TaskAttempt, size: int | None, data: bytes | None
) -> Reading:
    if _is_current(current, row.attempt_number):
        return current
    execution = replace(
        current.execution,
        state=ExecutionState(row.state),
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=row.run_id,
        claimed_at=row.claimed_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        lease_expires_at=None,
    )
    said, availability = summary.parse(size, data, execution)
    return replace(
        current, execution=execution, summary=said, availability=availability
    )
