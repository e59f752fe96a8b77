"""Why nodes failed: the kept failures grouped by cause, the largest group first.

Bounded whatever failed: the first 1,000 failed nodes in order of registration are read, 64
causes are told with three nodes each, and what is left out of either is counted.
"""

import uuid
from collections.abc import Iterable

from django_ray.protocol import text
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import Part
from django_ray.protocol.vocabulary import NodeState
from django_ray.readers import causes, details, run
from django_ray.readers.access import Viewer
from django_ray.readers.details import NodeRow
from django_ray.readers.run import Detailed, Query, RunPart, Unavailable

EXAMINED = 1_000
CAUSES = 64
EXAMPLES = 3
FAILED = details.Filter(states=(NodeState.FAILED,))
PLACES = 8
"""So many stages and hosts of a cause are named."""


class FailedNode(Part, frozen=True, kw_only=True, rename={"try_": "try"}):
    """One failed node of a cause."""

    ended_ms: int | None
    host: str | None
    id: str
    ordinal: int
    stage: int
    started_ms: int | None
    text: str
    try_: int


class Cause(Part, frozen=True, kw_only=True):
    """Failures of one class whose texts differ in particulars only.

    `hosts` and `stages` are the first few; the totals beside them count all examined.
    """

    examples: tuple[FailedNode, ...]
    first_ms: int | None
    hosts: tuple[str, ...]
    hosts_total: int
    kind: str
    last_ms: int | None
    nodes: int
    stages: tuple[int, ...]
    stages_total: int
    text: str


class Failures(Part, frozen=True, kw_only=True):
    """The causes, largest first. `failed` counts all failed nodes, kept or not.

    `examined` kept ones were read (`more`: not all); `omitted` of those are of causes past
    the last one told.
    """

    causes_total: int
    examined: int
    failed: int
    items: tuple[Cause, ...]
    more: bool
    omitted: int
    run: RunPart


def failures(
    public_id: uuid.UUID, viewer: Viewer, query: Query
) -> Failures | Unavailable | None:
    """Return the run's failures by cause, in one statement."""
    return run.of_detail(public_id, viewer, query, read)


def group(rows: Iterable[NodeRow]) -> list[Cause]:
    """Return the causes of failed nodes, the largest first, then by first node."""
    return [_cause(kind, told, members) for (kind, told), members in by_cause(rows)]


def by_cause(
    rows: Iterable[NodeRow],
) -> list[tuple[tuple[str, str], list[NodeRow]]]:
    """Return failed nodes by class and folded text, the largest group first."""
    found: dict[tuple[str, str], list[NodeRow]] = {}
    for row in rows:
        kind, told = details.fault(row.detail)
        found.setdefault((kind, causes.fold(told)), []).append(row)
    return sorted(found.items(), key=lambda each: -len(each[1]))


def read(detailed: Detailed) -> Failures:
    """Return the failures of a run whose detail can be read; raise IntegrityFault."""
    rows = details.in_order(detailed.selected, FAILED, most=EXAMINED + 1)
    examined = [details.public(detailed.selected, row) for row in rows[:EXAMINED]]
    grouped = group(examined)
    told, left_out = grouped[:CAUSES], grouped[CAUSES:]
    return Failures(
        causes_total=len(grouped),
        examined=len(examined),
        failed=detailed.summary.node_counts.failed,
        items=tuple(told),
        more=len(rows) > EXAMINED,
        omitted=sum(cause.nodes for cause in left_out),
        run=detailed.part,
    )


def _cause(kind: str, told: str, members: list[NodeRow]) -> Cause:
    ended = [
        at for row in members if (at := details.given(row.detail.ended_ms)) is not None
    ]
    hosts = list(
        dict.fromkeys(h for row in members if (h := details.given(row.detail.host)))
    )
    stages = list(dict.fromkeys(row.stage for row in members))
    newest = newest_first(members)[:EXAMPLES]
    return Cause(
        examples=tuple(_example(row) for row in newest),
        first_ms=min(ended, default=None),
        hosts=tuple(hosts[:PLACES]),
        hosts_total=len(hosts),
        kind=kind,
        last_ms=max(ended, default=None),
        nodes=len(members),
        stages=tuple(stages[:PLACES]),
        stages_total=len(stages),
        text=told,
    )


def _example(row: NodeRow) -> FailedNode:
    return FailedNode(
        ended_ms=details.given(row.detail.ended_ms),
        host=details.given(row.detail.host),
        id=row.id,
        ordinal=row.ordinal,
        stage=row.stage,
        started_ms=details.given(row.detail.started_ms),
        text=text.fit(details.fault(row.detail)[1], V1.first_failure),
        try_=row.detail.try_,
    )


def newest_first(rows: list[NodeRow]) -> list[NodeRow]:
    """Return nodes by their end, the latest first."""
    return sorted(
        rows, key=lambda row: details.given(row.detail.ended_ms) or 0, reverse=True
    )
