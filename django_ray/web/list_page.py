"""The list of runs as its template is given it: the active ones, and those that ended."""

import uuid
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from django_ray.management.terminal import words
from django_ray.management.terminal.status import Freshness
from django_ray.management.terminal.words import age, clock, count, duration
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import (
    TERMINAL_EXECUTION_STATES,
    DetailAvailability,
    ExecutionState,
)
from django_ray.readers import runs
from django_ray.readers.access import Viewer
from django_ray.readers.runs import Listed, RunRow, RunsQuery
from django_ray.web import bars, marks, statusline
from django_ray.web.bars import Bar
from django_ray.web.marks import Mark

SHOWN = 50
ENDED = tuple(state for state in ExecutionState if state in TERMINAL_EXECUTION_STATES)
ACTIVE = (*runs.WAITING, *runs.AT_WORK)
TROUBLED = (
    ExecutionState.RECONCILE,
    ExecutionState.FAILED,
    ExecutionState.TIMED_OUT,
    ExecutionState.LOST,
)

Show = Literal["all", "active", "attention", "ended"]
TITLES: dict[Show, str] = {
    "all": "All",
    "active": "Active",
    "attention": "Needs attention",
    "ended": "Ended",
}


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the list's URL may say; `cursor` goes on with the ended ones."""

    cursor: str | None = None
    prefix: Annotated[str, Meta(max_length=V1.label)] = ""
    queue: Annotated[str, Meta(max_length=64)] = ""
    show: Show = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run in the list."""

    public_id: uuid.UUID
    route: str
    mark: Mark
    name: str
    task: str
    short: str
    attempt: str
    percent: str
    bar: Bar
    waits: str
    done: str
    whole: str
    failed: str
    started: str
    took: str
    fresh: str
    is_stale: bool
    is_partial: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Both groups, and where the ended ones go on."""

    query: ListQuery
    filters: tuple[tuple[str, str, bool], ...]
    active: tuple[Row, ...]
    ended: tuple[Row, ...]
    more_active: bool
    next_cursor: str | None
    now: str

    @property
    def shown(self) -> int:
        """How many runs are listed."""
        return len(self.active) + len(self.ended)


def read(viewer: Viewer, query: ListQuery) -> Page:
    """Return what the viewer may see; raises InvalidCursor, ReadError."""
    ended = None if query.show == "active" else _ask(viewer, query, ENDED)
    goes_on = ended is not None and query.cursor is not None
    active = None if query.show == "ended" or goes_on else _ask(viewer, query, ACTIVE)
    rows = _rows(active, query), _rows(ended, query)
    clocks = [found.read_at for found in (active, ended) if found is not None]
    return Page(
        query=query,
        filters=tuple(
            (show, title, show == query.show) for show, title in TITLES.items()
        ),
        active=rows[0],
        ended=rows[1],
        more_active=active is not None and active.page.next_cursor is not None,
        next_cursor=None if ended is None else ended.page.next_cursor,
        now=str(words.milliseconds(clocks[0])),
    )


def _ask(
    viewer: Viewer, query: ListQuery, states: tuple[ExecutionState, ...]
) -> Listed:
    asked = RunsQuery(
        cursor=query.cursor,
        limit=SHOWN,
        prefix=query.prefix,
        queue=query.queue,
        state=states,
    )
    return runs.listed(viewer, asked)


def _rows(found: Listed | None, query: ListQuery) -> tuple[Row, ...]:
    if found is None:
        return ()
    now_ms = words.milliseconds(found.read_at)
    rows: list[Row] = []
    for item, reading in zip(found.page.items, found.readings, strict=True):
        stale = statusline.freshness(reading) is Freshness.Stale
        if query.show != "attention" or _needs_attention(item, stale=stale):
            rows.append(_row(item, now_ms, stale=stale))
    return tuple(rows)


def _needs_attention(item: RunRow, *, stale: bool) -> bool:
    counts = item.node_counts
    failed = counts is not None and counts.failed > 0
    return failed or stale or item.execution.state in TROUBLED


def _row(item: RunRow, now_ms: int, *, stale: bool) -> Row:
    execution, counts = item.execution, item.node_counts
    reported = item.revision is not None
    has_ended = execution.state in ENDED
    total = (item.discovered_nodes or 0) if reported else 0
    if not has_ended:
        total = max(total, item.declared_nodes or 0)
    done = _done(item, has_ended=has_ended)
    return Row(
        public_id=execution.id,
        route=item.route,
        mark=marks.of_execution(execution.state, is_reported=reported, is_stale=stale),
        name=execution.task.rpartition(".")[2],
        task=execution.task,
        short=str(execution.id)[:8],
        attempt=f"attempt {execution.attempt}" if execution.attempt > 1 else "",
        percent=words.percent(item.percent or 0, done) if total else words.NONE,
        bar=bars.draw(counts if reported else None, total, bars.ROW),
        waits="" if total else _waits(execution.state, reported=reported),
        done=count(done) if total else "",
        whole=f"of {count(total)} {'succeeded' if has_ended else 'ended'}"
        if total
        else "",
        failed=_failed(item),
        started=_started(item, now_ms),
        took=_took(item, now_ms),
        fresh=_fresh(item, now_ms),
        is_stale=stale,
        is_partial=item.detail.availability is DetailAvailability.TRUNCATED,
        detail=_DETAIL.get(item.detail.availability, ""),
    )


_DETAIL = {
    DetailAvailability.TRUNCATED: "partial",
    DetailAvailability.EXPIRED: "expired",
    DetailAvailability.MISSING: "detail missing",
    DetailAvailability.CORRUPT: "detail damaged",
}


def _done(item: RunRow, *, has_ended: bool) -> int:
    counts = item.node_counts
    if counts is None:
        return 0
    return counts.succeeded if has_ended else counts.ended


def _waits(state: ExecutionState, *, reported: bool) -> str:
    if state in ENDED:
        return "no node registered" if reported else "nothing reported"
    if state is ExecutionState.QUEUED:
        return "waits for a worker"
    return (
        "waits to be tried again"
        if state is ExecutionState.RETRY_WAIT
        else "no node reported yet"
    )


def _failed(item: RunRow) -> str:
    counts = item.node_counts
    return f"{count(counts.failed)} failed" if counts and counts.failed else ""


def _started(item: RunRow, now_ms: int) -> str:
    begun = item.execution.started_at
    return "" if begun is None else clock(words.milliseconds(begun), now_ms)


def _took(item: RunRow, now_ms: int) -> str:
    begun, ended = item.execution.started_at, item.execution.finished_at
    if begun is None:
        return ""
    until = now_ms if ended is None else words.milliseconds(ended)
    return duration(max(until - words.milliseconds(begun), 0))


def _fresh(item: RunRow, now_ms: int) -> str:
    execution = item.execution
    if execution.finished_at is not None:
        return f"ended {clock(words.milliseconds(execution.finished_at), now_ms)}"
    if execution.state is ExecutionState.QUEUED:
        return f"queued {age(now_ms - words.milliseconds(execution.enqueued_at))}"
    if item.observed_at_ms is None:
        return "no report yet"
    return f"{age(now_ms - item.observed_at_ms)} ago"
