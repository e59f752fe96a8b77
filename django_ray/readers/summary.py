"""The summary of one execution: its row and its bounded progress, in one statement.

The statement's cost never depends on the run's size: the summary passes a byte guard in
SQL, and legacy snapshots, pages and node rows are never selected. Only where it finds no
summary of the current run and a legacy snapshot is there, `read` asks for that too, in a
second one; `read_trusted`, for what polls, never does. Contract 2, ADR-0004.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, LiteralString, TypedDict, cast

from django_ray.errors import IntegrityFault
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol import summary as codec
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ReportingPolicy,
)
from django_ray.readers import access, context, legacy
from django_ray.readers.access import Viewer
from django_ray.readers.picture import Execution, Reading

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations


class Extra(TypedDict):
    """What the statement adds to the row's own columns."""

    read_at: dt.datetime
    summary_size: int | None
    summary_bytes: bytes | None
    has_legacy: bool
    policy: str | None
    max_attempts: str | None
    timeout_seconds: str | None
    lease_until: dt.datetime | None


if TYPE_CHECKING:
    Row = WithAnnotations[RayTaskExecution, Extra]

EXECUTION: LiteralString = """
SELECT e.id, e.public_id, e.task_path, e.queue_name, e.state, e.attempt_number,
    e.execution_generation, e.run_id, e.enqueued_at, e.claimed_at, e.started_at,
    e.finished_at, e.cancel_requested_at, statement_timestamp() AS read_at,
    octet_length(e.progress_summary) AS summary_size,
    CASE WHEN octet_length(e.progress_summary) <= %(size)s
        THEN e.progress_summary END AS summary_bytes,
    e.progress_data IS NOT NULL AS has_legacy, e.options ->> 'policy' AS policy,
    e.options ->> 'max_attempts' AS max_attempts,
    e.options ->> 'timeout_seconds' AS timeout_seconds,
    l.expires_at AS lease_until
FROM django_ray_execution AS e
LEFT JOIN django_ray_lease AS l ON l.execution_id = e.id
"""
COLUMNS = (
    "public_id",
    "task_path",
    "queue_name",
    "state",
    "attempt_number",
    "execution_generation",
    "run_id",
    "enqueued_at",
    "claimed_at",
    "started_at",
    "finished_at",
    "cancel_requested_at",
)


def read(public_id: uuid.UUID, viewer: Viewer) -> Reading | None:
    """Return the reading, or None: not there and not the viewer's look the same."""
    row = _permitted(public_id, viewer)
    if row is None:
        return None
    found = reading(row)
    if not row.has_legacy or not _may_be_legacy(found):
        return found
    return _with_legacy(found, superseded=row.summary_size is not None)


def authorized(public_id: uuid.UUID, viewer: Viewer) -> Reading | None:
    """Return the reading as `read` does, whatever an older writer left: no detail is his.

    Every service begins here: the policy is asked before anything of the row is returned.
    """
    row = _permitted(public_id, viewer)
    return None if row is None else reading(row)


def _permitted(public_id: uuid.UUID, viewer: Viewer) -> "Row | None":
    # The policy may ask the database as well.
    with context.answering():
        row = _select(public_id)
        return row if row is not None and access.allows(viewer, row) else None


def read_trusted(public_id: uuid.UUID) -> Reading | None:
    """Return the reading to a caller that needs no permission: an operator's command."""
    row = _select(public_id)
    return None if row is None else reading(row)


def rows(pks: Sequence[int]) -> "Iterable[Row]":
    """Return executions with what a reading is made of; a summary passes a byte guard."""
    return _raw(f"{EXECUTION} WHERE e.id = ANY (%(ids)s)", {"ids": list(pks)})


def _select(public_id: uuid.UUID) -> "Row | None":
    statement = f"{EXECUTION} WHERE e.public_id = %(id)s"
    with context.answering():
        return next(iter(_raw(statement, {"id": public_id})), None)


def _raw(statement: LiteralString, values: dict[str, object]) -> "Iterable[Row]":
    values = {**values, "size": V1.summary}
    return cast("Iterable[Row]", RayTaskExecution.objects.raw(statement, values))


def reading(row: "Row") -> Reading:
    """Return one of `rows` as a reading."""
    execution = Execution(
        pk=row.pk,
        public_id=row.public_id,
        task_path=row.task_path,
        queue_name=row.queue_name,
        state=ExecutionState(row.state),
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=row.run_id,
        policy=_policy(row.policy),
        max_attempts=_number(row.max_attempts),
        timeout_seconds=_number(row.timeout_seconds),
        enqueued_at=row.enqueued_at,
        claimed_at=row.claimed_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        cancel_requested_at=row.cancel_requested_at,
        lease_expires_at=row.lease_until,
    )
    summary, availability = parse(row.summary_size, row.summary_bytes, execution)
    return Reading(
        execution=execution,
        summary=summary,
        availability=availability,
        read_at=row.read_at,
    )


def _may_be_legacy(reading: Reading) -> bool:
    """Claim that nothing published hides an older writer's snapshot."""
    return (
        reading.summary is None
        and reading.availability is DetailAvailability.NOT_REPORTED
    )


def _with_legacy(reading: Reading, *, superseded: bool) -> Reading:
    try:
        found = legacy.read(reading.execution, superseded=superseded)
    except IntegrityFault:
        return replace(reading, availability=DetailAvailability.CORRUPT)
    return replace(reading, legacy=found)


def _policy(value: str | None) -> ReportingPolicy | None:
    if value is None or value not in ReportingPolicy.__members__:
        return None
    return ReportingPolicy(value)


def _number(value: str | None) -> int | None:
    """Return an option of a row, whatever an earlier version wrote there."""
    is_number = value is not None and value.isascii() and value.isdecimal()
    return int(value[:18]) if value is not None and is_number else None


def parse(
    size: int | None, data: bytes | None, execution: Execution
) -> tuple[Summary | None, DetailAvailability]:
    """Return a stored summary of the run the execution is at, and what detail it has.

    `data` passed a byte guard in SQL: it is None where `size` is too large, too.
    """
    if size is None:
        disabled = execution.policy is ReportingPolicy.disabled
        state = "DISABLED" if disabled else "NOT_REPORTED"
        return None, DetailAvailability(state)
    if data is None:
        return None, DetailAvailability.CORRUPT
    try:
        summary = codec.decode(bytes(data))
    except IntegrityFault:
        return None, DetailAvailability.CORRUPT
    if _is_current(summary, execution):
        return summary, summary.detail.availability
    if _is_earlier(summary, execution):
        # Claimed anew, nothing reported since: what stands there is an earlier run's.
        return None, DetailAvailability.NOT_REPORTED
    return None, DetailAvailability.CORRUPT


def _is_current(summary: Summary, execution: Execution) -> bool:
    return summary.run == codec.Run(
        attempt_number=execution.attempt_number,
        execution_generation=execution.execution_generation,
        run_id=str(execution.run_id),
        task_execution_pk=execution.pk,
    )


def _is_earlier(summary: Summary, execution: Execution) -> bool:
    """Claim that this execution had that run: every claim raises the generation."""
    return (
        summary.run.task_execution_pk == execution.pk
        and summary.run.execution_generation < execution.execution_generation
    )
