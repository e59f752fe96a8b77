"""The executions a viewer may see, newest first.

Who may see every execution gets full pages. For anybody else each row is asked about, and
one answer looks at no more than 256: so a page may be short, or empty, and still go on. Its
cursor holds a time and how many rows of that time were looked at: it names no execution,
seen or not. There is no total, for no statement counts.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, LiteralString

import msgspec
from django.db.models import F, Func, Q, QuerySet, TextField, Value
from django.db.models.lookups import StartsWith
from msgspec import Meta

from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored
from django_ray.protocol.summary import Detail, NodeCounts, Part
from django_ray.protocol.vocabulary import ExecutionState, WorkflowState
from django_ray.readers import access, context, cursor, page, public, summary
from django_ray.readers.access import Viewer
from django_ray.readers.cursor import Cursor
from django_ray.readers.nodes import require_line
from django_ray.readers.picture import Reading
from django_ray.readers.public import PublicExecution
from django_ray.readers.run import Positive

LOOKED_AT = 256
"""So many rows one answer asks the policy about."""

WAITING = (ExecutionState.QUEUED, ExecutionState.RETRY_WAIT)
AT_WORK = (ExecutionState.CLAIMED, ExecutionState.RUNNING, ExecutionState.RECONCILE)
"""The states of two partial indexes: asked apart, for the planner proves no union."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
NOW: LiteralString = "SELECT statement_timestamp()"
NO_RUN = str(uuid.UUID(int=0))


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which executions: of these states, of a queue, of tasks whose name begins so."""

    cursor: str | None = None
    limit: Positive = V1.response_items_default
    prefix: Annotated[str, Meta(max_length=V1.label)] = ""
    queue: Annotated[str, Meta(max_length=64)] = ""
    state: tuple[ExecutionState, ...] = ()


class RunRow(Part, frozen=True, kw_only=True):
    """One execution and how far its current run is; null where nothing is reported."""

    changed_at_ms: int | None
    declared_nodes: int | None
    detail: Detail
    discovered_nodes: int | None
    ended_at_ms: int | None
    execution: PublicExecution
    node_counts: NodeCounts | None
    observed_at_ms: int | None
    percent: int | None
    retained_nodes: int | None
    revision: int | None
    route: str
    started_at_ms: int | None
    state: WorkflowState | None


class Runs(Part, frozen=True, kw_only=True):
    """Executions, newest first. Short or empty, it ends where `next_cursor` is null."""

    items: tuple[RunRow, ...]
    next_cursor: str | None
    returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page, the readings its items are of, and the database's clock they are read by."""

    page: Runs
    readings: tuple[Reading, ...]
    read_at: dt.datetime


class _Filters(Stored, frozen=True):
    prefix: str
    queue: str
    states: tuple[ExecutionState, ...]


def runs(viewer: Viewer, query: RunsQuery) -> Runs:
    """Return a page of what the viewer may see; raises InvalidCursor, ReadError."""
    return listed(viewer, query).page


def listed(viewer: Viewer, query: RunsQuery) -> Listed:
    """Return the same page with its readings.

    Two statements, and what the policy asks.
    """
    filters = _Filters(
        prefix=require_line(query.prefix),
        queue=require_line(query.queue),
        states=tuple(state for state in ExecutionState if state in query.state),
    )
    limit = page.capped(query.limit)
    digest = cursor.digest("runs", filters, limit)
    begun = _resume(query.cursor, digest, access.key_of(viewer))
    with context.snapshot():
        sees_all = access.allows(viewer, None)
        most = limit if sees_all else LOOKED_AT
        skip = begun.after[1] if begun else 0
        rows = _select(filters, begun)[skip : skip + most + 1]
        looked_at, seen = _look(viewer, list(rows), most, limit, sees_all=sees_all)
        readings, read_at = _read(seen)
    items: list[page.Keyed[RunRow]] = [((), _row(reading)) for reading in readings]
    taken = page.fit(items, limit)
    if len(taken) < len(items):
        # No room for the rest: go on behind the last that is shown.
        looked_at = looked_at[: looked_at.index(seen[len(taken) - 1]) + 1]
    following = None
    if len(looked_at) < len(rows):
        after = _after(looked_at, begun)
        following = _sign(viewer, digest, after, begun, returned=len(taken))
    return Listed(
        page=Runs(
            items=tuple(item for _, item in taken),
            next_cursor=following,
            returned=len(taken),
        ),
        readings=tuple(readings[: len(taken)]),
        read_at=read_at,
    )


def _look(
    viewer: Viewer,
    rows: Sequence[RayTaskExecution],
    most: int,
    limit: int,
    *,
    sees_all: bool,
) -> tuple[list[RayTaskExecution], list[RayTaskExecution]]:
    """Return the rows that were looked at, and those of them that the viewer may see."""
    looked_at: list[RayTaskExecution] = []
    seen: list[RayTaskExecution] = []
    for row in rows[:most]:
        if len(seen) == limit:
            break
        looked_at.append(row)
        if sees_all or access.allows(viewer, row):
            seen.append(row)
    return looked_at, seen


def _select(filters: _Filters, begun: Cursor | None) -> QuerySet[RayTaskExecution]:
    rows = RayTaskExecution.objects.only(*summary.COLUMNS)
    if begun is not None:
        rows = rows.filter(enqueued_at__lte=EPOCH + begun.after[0] * MICROSECOND)
    if filters.states:
        rows = rows.filter(_in(filters.states))
    if filters.queue:
        rows = rows.filter(queue_name=filters.queue)
    if filters.prefix:
        name = Func(
            F("task_path"),
            Value("."),
            Value(-1),
            function="split_part",
            output_field=TextField(),
        )
        rows = rows.filter(StartsWith(name, filters.prefix))
    return rows.order_by("-enqueued_at", "-id")


def _in(states: Iterable[ExecutionState]) -> Q:
    ended = [s for s in states if s not in WAITING and s not in AT_WORK]
    found = Q(state__in=ended) if ended else Q()
    for indexed in (WAITING, AT_WORK):
        asked = [state for state in states if state in indexed]
        if asked:
            found |= Q(state__in=asked)
    return found


def _read(
    seen: Sequence[RayTaskExecution],
) -> tuple[list[Reading], dt.datetime]:
    if not seen:
        ((now,),) = context.fetch(NOW, {})
        return [], now
    found = {row.pk: row for row in summary.rows([row.pk for row in seen])}
    readings = [summary.reading(found[row.pk]) for row in seen]
    return readings, readings[0].read_at


def _row(reading: Reading) -> RunRow:
    body = public.current(reading)
    return RunRow(
        changed_at_ms=body.changed_at_ms,
        declared_nodes=body.declared_nodes,
        detail=body.detail,
        discovered_nodes=body.discovered_nodes,
        ended_at_ms=body.ended_at_ms,
        execution=body.execution,
        node_counts=body.node_counts,
        observed_at_ms=body.observed_at_ms,
        percent=body.percent,
        retained_nodes=body.retained_nodes,
        revision=body.revision,
        route=body.route,
        started_at_ms=body.started_at_ms,
        state=body.state,
    )


def _resume(given: str | None, digest: str, viewer: str) -> Cursor | None:
    if given is None:
        return None
    said = cursor.parse(given, digest)
    cursor.require_binding(said, None, viewer)
    return said


def _sign(
    viewer: Viewer,
    digest: str,
    after: tuple[int, int],
    begun: Cursor | None,
    *,
    returned: int,
) -> str:
    return cursor.sign(
        Cursor(
            schema=cursor.SCHEMA,
            binding=cursor.binding(None, access.key_of(viewer)),
            run_id=NO_RUN,
            revision=0,
            topology_version=0,
            detail_revision=0,
            query=digest,
            after=after,
            returned=returned + (begun.returned if begun else 0),
        )
    )


def _after(
    looked_at: Sequence[RayTaskExecution], begun: Cursor | None
) -> tuple[int, int]:
    """Return the time of the last row that was looked at, and how many rows had it."""
    last = looked_at[-1].enqueued_at
    micros = (last - EPOCH) // MICROSECOND
    same = sum(row.enqueued_at == last for row in looked_at)
    if begun is not None and begun.after[0] == micros:
        same += begun.after[1]
    return micros, same
