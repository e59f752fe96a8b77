"""What the terminal shows besides the summary: stages, failures, the longest running.

Every statement is bounded whatever the run's size, and all see one snapshot. Detail that
is not what the summary says is named in the reading, MISSING or CORRUPT. It asks for no
permission: who may run a command with the database's credentials may see every run.
"""

import uuid
from dataclasses import replace

from django.db.models.functions import Right

from django_ray.errors import IntegrityFault
from django_ray.models.executions import TaskAttempt
from django_ray.progress import stages as stage_row
from django_ray.protocol import records
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import (
    RETAINED,
    DetailAvailability,
    NodeState,
)
from django_ray.readers import context, details
from django_ray.readers import stages as stages_of_run
from django_ray.readers import summary as reader
from django_ray.readers.archive import ERROR_CHARACTERS, error_line
from django_ray.readers.context import Selected
from django_ray.readers.details import Row
from django_ray.readers.picture import (
    Execution,
    Failure,
    Picture,
    Reading,
    Running,
    Stage,
)

FAILED = details.Filter(states=(NodeState.FAILED,))
FAILURES = 16
RUNNING = details.Filter(states=(NodeState.RUNNING,))
RUNNING_READ = 256
"""So many nodes at work are compared, first registered first; it may not be all."""


def read(public_id: uuid.UUID) -> Picture | None:
    """Return the picture of one execution in one snapshot, None when it is not there."""
    with context.snapshot():
        reading = reader.read_trusted(public_id)
        return None if reading is None else picture_of(reading)


def picture_of(reading: Reading) -> Picture:
    """Return the picture of a reading, in the snapshot that it was read in."""
    summary = reading.summary
    error = error_of(reading.execution)
    if summary is None or not _has_detail(summary):
        return Picture(reading=reading, error=error)
    try:
        run = context.select(summary, reading.read_at)
    except IntegrityFault as fault:
        return Picture(reading=_but(reading, fault.availability), error=error)
    if isinstance(run, context.Expired):
        gone = _but(reading, DetailAvailability.EXPIRED)
        return Picture(reading=gone, error=error)
    detail = _Detail(run, summary)
    counts = summary.node_counts
    stages, first = detail.stages()
    failures = detail.failures() if counts.failed else ()
    running = detail.running() if counts.running else ()
    return Picture(
        reading=_but(reading, detail.availability),
        stages=stages,
        failures=failures or first,
        running=running,
        error=error,
    )


def _but(reading: Reading, availability: str) -> Reading:
    """Return the reading with what its detail turned out to be; the summary stays."""
    return replace(reading, availability=DetailAvailability(availability))


def _has_detail(summary: Summary) -> bool:
    return summary.detail.availability in RETAINED


def error_of(execution: Execution) -> str:
    """Return the line that names the attempt's own error, when it ended with one."""
    if not (execution.has_ended or execution.is_undecided):
        return ""
    found = (
        TaskAttempt.objects.filter(
            execution_id=execution.pk, attempt_number=execution.attempt_number
        )
        .annotate(tail=Right("error_text", ERROR_CHARACTERS))
        .values_list("error_class", "tail")
        .first()
    )
    return "" if found is None else error_line(*found)


class _Detail:
    """The detail of one run as it is read; `availability` becomes what was found.

    What is damaged is named and left out, the rest is shown: none of it is older.
    """

    def __init__(self, run: Selected, summary: Summary) -> None:
        self._run = run
        self._counts = summary.node_counts
        self._complete = summary.detail.complete
        self.availability: str = summary.detail.availability

    def failures(self) -> tuple[Failure, ...]:
        """Return the failed kept nodes, the newest change first."""
        rows = details.newest(self._run, FAILED, most=FAILURES)
        self._count(NodeState.FAILED, rows, FAILURES)
        return tuple(_failure(row, self._parsed(row)) for row in rows)

    def running(self) -> tuple[Running, ...]:
        """Return the kept nodes at work, longest first."""
        rows = details.in_order(self._run, RUNNING, most=RUNNING_READ)
        self._count(NodeState.RUNNING, rows, RUNNING_READ)
        parsed = [(row, self._parsed(row)) for row in rows]
        found = [
            node
            for row, detail in parsed
            if detail is not None and (node := at_work(row, detail)) is not None
        ]
        found.sort(key=lambda node: node.started_ms)
        return tuple(found)

    def stages(self) -> tuple[tuple[Stage, ...], tuple[Failure, ...]]:
        """Return the stages, and the run's first failure where their row names it."""
        try:
            row = stages_of_run.load(self._run)
        except IntegrityFault as fault:
            self._fault(fault.availability)
            return (), ()
        stages = tuple(_stage(stage) for stage in row.stages)
        counts = [stage.counts for stage in stages]
        if self._complete and not stages_of_run.add_up(counts, self._counts):
            self._fault(DetailAvailability.CORRUPT)
        return stages, _first(row.failure)

    def _count(self, state: NodeState, rows: list[Row], most: int) -> None:
        """Compare the rows of one state with the counts, where no node is omitted."""
        expected = min(self._counts.of(state), most)
        if self._complete and len(rows) != expected:
            fewer = len(rows) < expected
            self._fault(
                DetailAvailability.MISSING if fewer else DetailAvailability.CORRUPT
            )

    def _parsed(self, row: Row) -> records.Detail | None:
        try:
            return details.parse(self._run, row)
        except IntegrityFault as fault:
            self._fault(fault.availability)
            return None

    def _fault(self, availability: str) -> None:
        if self.availability != DetailAvailability.CORRUPT:
            self.availability = availability


def _failure(row: Row, detail: records.Detail | None) -> Failure:
    if detail is None:
        return Failure(
            node_id=row.node_id, ended_ms=None, try_=None, kind="CORRUPT", text=""
        )
    kind, text = details.fault(detail)
    return Failure(
        node_id=row.node_id,
        ended_ms=details.given(detail.ended_ms),
        try_=detail.try_,
        kind=kind,
        text=text,
    )


def at_work(row: Row, detail: records.Detail) -> Running | None:
    """Return a row as a node at work; None while its start is not known."""
    started = details.given(detail.started_ms)
    if started is None:
        return None
    return Running(
        node_id=row.node_id,
        stage=row.stage,
        started_ms=started,
        host=detail.host if isinstance(detail.host, str) else "",
        message=detail.message if isinstance(detail.message, str) else "",
        current=details.given(detail.current),
        total=details.given(detail.total),
    )


def _stage(stored: stage_row.Stage) -> Stage:
    return Stage(
        index=stored.index,
        label=stored.label,
        counts=stages_of_run.counts(stored),
        first_start_ms=stored.started_ms,
        p50_ms=stored.p50_ms,
        p95_ms=stored.p95_ms,
        longest_ms=stored.longest_ms,
    )


def _first(failure: stage_row.FirstFailure | None) -> tuple[Failure, ...]:
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
