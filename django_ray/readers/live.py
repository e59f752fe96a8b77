"""What the terminal shows besides the summary: stages, failures, the longest running.

Every statement is bounded whatever the run's size, and all see one snapshot. It asks for
no permission: who may run a command with the database's credentials may see every run.
"""

import uuid

from django.db.models import QuerySet
from django.db.models.functions import Right
from msgspec import UnsetType

from django_ray.errors import IntegrityFault
from django_ray.models.executions import TaskAttempt
from django_ray.models.progress import NodeDetail, RunStages
from django_ray.progress import stages as rollup
from django_ray.protocol import records
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts, Run, Summary
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    TERMINAL_EXECUTION_STATES,
    DetailAvailability,
    NodeState,
)
from django_ray.readers import context
from django_ray.readers import summary as reader
from django_ray.readers.picture import (
    Execution,
    Failure,
    Picture,
    Reading,
    Running,
    Stage,
)

FAILURES = 16
RUNNING_READ = 256
"""So many nodes at work are compared, first registered first; it may not be all."""

ERROR_CHARACTERS = 4_096
"""The end of a stored traceback: the error itself stands there."""


def read(public_id: uuid.UUID) -> Picture | None:
    """Return the picture of one execution in one snapshot, None when it is not there."""
    with context.snapshot():
        reading = reader.read_trusted(public_id)
        return None if reading is None else _picture(reading)


def _picture(reading: Reading) -> Picture:
    summary = reading.summary
    error = _error(reading.execution)
    if summary is None or not _has_detail(summary):
        return Picture(reading=reading, error=error)
    counts = summary.node_counts
    stages, first = _stages(summary.run)
    failures = _failures(summary.run) if counts.failed else ()
    return Picture(
        reading=reading,
        stages=stages,
        failures=failures or first,
        running=_running(summary.run) if counts.running else (),
        error=error,
    )


def _has_detail(summary: Summary) -> bool:
    return summary.detail.availability in (
        DetailAvailability.AVAILABLE,
        DetailAvailability.TRUNCATED,
    )


def _error(execution: Execution) -> str:
    """Return the line that names the attempt's own error, when it ended with one."""
    if execution.state not in TERMINAL_EXECUTION_STATES:
        return ""
    found = (
        TaskAttempt.objects.filter(
            execution_id=execution.pk, attempt_number=execution.attempt_number
        )
        .annotate(tail=Right("error_text", ERROR_CHARACTERS))
        .values_list("error_class", "tail")
        .first()
    )
    return "" if found is None else _named(*found)


def _named(error_class: str, traceback: str) -> str:
    """Return the line of a traceback that begins with the error's class."""
    short = error_class.rpartition(".")[2]
    lines = [line for line in traceback.splitlines() if line.strip()]
    for line in reversed(lines):
        if short and line.startswith((f"{short}:", f"{error_class}:")):
            return line
    return ": ".join(part for part in (error_class, *lines[-1:]) if part)


def _failures(run: Run) -> tuple[Failure, ...]:
    """Return the failed kept nodes, the newest change first."""
    rows = (
        _nodes(run, NodeState.FAILED)
        .order_by("-detail_revision", "-ordinal")
        .values_list("node_id", "record")[:FAILURES]
    )
    return tuple(_failure(node_id, bytes(record)) for node_id, record in rows)


def _failure(node_id: str, record: bytes) -> Failure:
    try:
        detail = records.decode_detail(record)
    except IntegrityFault:
        return Failure(
            node_id=node_id, ended_ms=None, try_=None, kind="CORRUPT", text=""
        )
    kind, text = _fault(detail.error)
    return Failure(
        node_id=node_id,
        ended_ms=_set(detail.ended_ms),
        try_=detail.try_,
        kind=kind,
        text=text,
    )


def _fault(error: records.Fault | UnsetType) -> tuple[str, str]:
    if isinstance(error, UnsetType):
        return "", "no error reported"
    if isinstance(error.omitted, str):
        return error.kind, f"error not kept: {error.omitted}"
    return error.kind, error.text


def _running(run: Run) -> tuple[Running, ...]:
    """Return the kept nodes at work, longest first."""
    rows = (
        _nodes(run, NodeState.RUNNING)
        .order_by("ordinal")
        .values_list("node_id", "stage", "record")[:RUNNING_READ]
    )
    found = [
        node
        for node_id, stage, record in rows
        if (node := _at_work(node_id, stage, bytes(record))) is not None
    ]
    found.sort(key=lambda node: node.started_ms)
    return tuple(found)


def _at_work(node_id: str, stage: int, record: bytes) -> Running | None:
    try:
        detail = records.decode_detail(record)
    except IntegrityFault:
        return None
    started = _set(detail.started_ms)
    if started is None:
        return None
    return Running(
        node_id=node_id,
        stage=stage,
        started_ms=started,
        host=detail.host if isinstance(detail.host, str) else "",
        message=detail.message if isinstance(detail.message, str) else "",
        current=_set(detail.current),
        total=_set(detail.total),
    )


def _nodes(run: Run, state: NodeState) -> QuerySet[NodeDetail]:
    return NodeDetail.objects.filter(
        run__execution_id=run.task_execution_pk,
        run__run_id=run.run_id,
        run__execution_generation=run.execution_generation,
        state=NODE_STATES.index(state),
    )


def _set[T: (int, float)](value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _stages(run: Run) -> tuple[tuple[Stage, ...], tuple[Failure, ...]]:
    """Return the stages, and the run's first failure where the stage row names it."""
    body = (
        RunStages.objects.filter(
            run__execution_id=run.task_execution_pk,
            run__run_id=run.run_id,
            body__octets__lte=V1.stage_row,
        )
        .values_list("body", flat=True)
        .first()
    )
    if body is None:
        return (), ()
    try:
        row = rollup.decode(bytes(body))
    except IntegrityFault:
        return (), ()
    return tuple(_stage(stage) for stage in row.stages), _first(row.failure)


def _stage(stored: rollup.Stage) -> Stage:
    numbers = dict(zip(NODE_STATES, stored.counts, strict=True))
    return Stage(
        index=stored.index,
        label=stored.label,
        counts=NodeCounts(
            cancelled=numbers[NodeState.CANCELLED],
            failed=numbers[NodeState.FAILED],
            pending=numbers[NodeState.PENDING],
            running=numbers[NodeState.RUNNING],
            skipped=numbers[NodeState.SKIPPED],
            submitted=numbers[NodeState.SUBMITTED],
            succeeded=numbers[NodeState.SUCCEEDED],
        ),
        first_start_ms=stored.started_ms,
        p50_ms=stored.p50_ms,
        p95_ms=stored.p95_ms,
        longest_ms=stored.longest_ms,
    )


def _first(failure: rollup.FirstFailure | None) -> tuple[Failure, ...]:
    if failure is None:
        return ()
    found = Failure(
        node_id=failure.node_id,
        ended_ms=None,
        try_=None,
        kind=failure.kind,
        text=failure.text,
    )
    return (found,)
