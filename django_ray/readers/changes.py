"""What changed of a run's retained nodes since a revision: live paging. Contract 4.13.

No snapshot is promised between two answers. The client asks with `next` of the answer
before, merges by ordinal (the newer `detail_revision` wins) and is whole when `more` is
false: a round asks from one revision to its end, and the next round from the revision at
which this one began, so nothing that changed behind its back is missed.
"""

import uuid
from typing import Annotated

from msgspec import Meta

from django_ray.protocol.frames import MAXIMUM_ORDINAL
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import Part
from django_ray.readers import details, page, run
from django_ray.readers.access import Viewer
from django_ray.readers.details import NodeRow
from django_ray.readers.run import (
    Count,
    Detailed,
    Positive,
    Query,
    RunPart,
    Unavailable,
)

BEFORE_ALL = -1
"""The `after` of a round's first question."""


class ChangesQuery(Query, frozen=True, kw_only=True):
    """The revision a round asks from, and how far it came; 0 begins with everything."""

    after: Annotated[int, Meta(ge=BEFORE_ALL, le=MAXIMUM_ORDINAL)] = BEFORE_ALL
    began: Count | None = None
    limit: Positive = V1.response_items
    since: Count = 0


class Next(Part, frozen=True, kw_only=True):
    """The next question: send all three back as they are."""

    after: int
    began: int | None
    since: int


class Changes(Part, frozen=True, kw_only=True):
    """Changed nodes by ordinal. When `run.run_id` is another, begin anew since 0."""

    items: tuple[NodeRow, ...]
    more: bool
    next: Next
    retained_nodes: int
    returned: int
    run: RunPart


def changes(
    public_id: uuid.UUID, viewer: Viewer, query: ChangesQuery
) -> Changes | Unavailable | None:
    """Return the next rows whose revision is above `since`, at most 256."""

    def read(detailed: Detailed) -> Changes:
        return _changes(detailed, query)

    return run.of_detail(public_id, viewer, query, read)


def _changes(detailed: Detailed, query: ChangesQuery) -> Changes:
    selected = detailed.selected
    current = selected.detail_revision
    limit = page.capped(query.limit)
    found: list[page.Keyed[NodeRow]] = []
    if query.since < current:
        newer = details.Filter(since=query.since or None)
        rows = details.in_order(selected, newer, after=query.after, most=limit + 1)
        found = [((row.ordinal,), details.public(selected, row)) for row in rows]
    taken = page.fit(found, limit)
    more = len(taken) < len(found)
    began = current if query.began is None else min(query.began, current)
    following = Next(after=BEFORE_ALL, began=None, since=began)
    if more:
        following = Next(after=taken[-1][0][0], began=began, since=query.since)
    return Changes(
        items=tuple(row for _, row in taken),
        more=more,
        next=following,
        retained_nodes=detailed.summary.retained_nodes,
        returned=len(taken),
        run=detailed.part,
    )
