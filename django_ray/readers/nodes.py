"""Latest state of a run's retained nodes: listed, filtered, or one by its id.

A filter comes before the limit, so three failed nodes among 25,000 are found exactly. No
index holds what changes: a filtered page scans the run's own range of the primary key, at
most 25,000 rows. Architecture 5.5.
"""

import uuid
from typing import Annotated, Literal, assert_never

from msgspec import Meta

from django_ray.errors import ReadError
from django_ray.protocol import canonical, text
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored
from django_ray.protocol.summary import NodeCounts, Part, Summary
from django_ray.protocol.vocabulary import NodeState
from django_ray.readers import details, page, run
from django_ray.readers.access import Viewer
from django_ray.readers.context import Selected
from django_ray.readers.details import Filter, NodeRow, Row
from django_ray.readers.page import After, Collection, Keyed, Page, PageQuery
from django_ray.readers.run import Detailed, Query, RunPart, Unavailable

Order = Literal["ordinal", "newest"]
StageIndex = Annotated[int, Meta(ge=0, lt=V1.stages)]


class NodesQuery(PageQuery, frozen=True, kw_only=True):
    """Which nodes, and in which order: by registration, or the newest change first."""

    order: Order = "ordinal"
    prefix: Annotated[str, Meta(max_length=V1.node_id)] = ""
    stage: StageIndex | None = None
    state: tuple[NodeState, ...] = ()


class NodeQuery(Query, frozen=True, kw_only=True):
    """Which node, by its id."""

    id: Annotated[str, Meta(max_length=V1.node_id)]


class Counters(Part, frozen=True, kw_only=True):
    """What the run counts, and how much of it is retained."""

    declared_nodes: int
    discovered_edges: int
    discovered_nodes: int
    node_counts: NodeCounts
    retained_edges: int
    retained_nodes: int


class FoundNode(Part, frozen=True, kw_only=True):
    """One node, if it is retained. Not found: unknown, or counted and not kept."""

    counters: Counters
    found: bool
    node: NodeRow | None
    run: RunPart


class _Filters(Stored, frozen=True):
    """A question's filters and order, as its cursors are bound to them."""

    order: Order
    prefix: str
    stage: int | None
    states: tuple[NodeState, ...]


def nodes(
    public_id: uuid.UUID, viewer: Viewer, query: NodesQuery
) -> Page[NodeRow] | Unavailable | None:
    """Return a page of nodes that pass every filter; raises InvalidCursor, ReadError."""
    filters = _Filters(
        order=query.order,
        prefix=require_line(query.prefix),
        stage=query.stage,
        states=tuple(state for state in NodeState if state in query.state),
    )

    wanted = details.Filter(
        prefix=filters.prefix or None, stage=filters.stage, states=filters.states
    )

    def find(detailed: Detailed, after: After, most: int) -> list[Keyed[NodeRow]]:
        selected = detailed.selected
        found = [
            details.public(selected, row)
            for row in _in(selected, filters.order, wanted, after, most)
        ]
        return [(_key(filters.order, row), row) for row in found]

    def expected(summary: Summary) -> int | None:
        if filters.prefix or filters.stage is not None:
            return None
        if not filters.states:
            return summary.retained_nodes
        # Counters are ahead of rows that wait for their topology; then nothing is claimed.
        if not summary.detail.complete:
            return None
        return sum(summary.node_counts.of(state) for state in filters.states)

    return page.read(
        public_id,
        viewer,
        query,
        Collection(
            name="nodes", filters=filters, live=True, find=find, expected=expected
        ),
    )


def node(
    public_id: uuid.UUID, viewer: Viewer, query: NodeQuery
) -> FoundNode | Unavailable | None:
    """Return one node by its id, with the run's counters; one indexed row is looked up."""

    def look_up(detailed: Detailed) -> FoundNode:
        selected, row = detailed.selected, None
        if text.is_line(query.id):
            row = details.by_key(selected, canonical.node_key(query.id))
        found = None if row is None else details.public(selected, row)
        return FoundNode(
            counters=counters(detailed.summary),
            found=found is not None,
            node=found,
            run=detailed.part,
        )

    return run.of_detail(public_id, viewer, query, look_up)


def counters(said: Summary) -> Counters:
    """Return the counters of a summary."""
    return Counters(
        declared_nodes=said.declared_nodes,
        discovered_edges=said.discovered_edges,
        discovered_nodes=said.discovered_nodes,
        node_counts=said.node_counts,
        retained_edges=said.retained_edges,
        retained_nodes=said.retained_nodes,
    )


def require_line(value: str) -> str:
    """Return a text to search with; raise ReadError where nothing stored can match it."""
    if not text.is_line(value):
        raise ReadError("A text to search with is not one clean line.")
    return value


def _in(
    selected: Selected, order: Order, wanted: Filter, after: After, most: int
) -> list[Row]:
    match order:
        case "ordinal":
            last = after[0] if after else -1
            return details.in_order(selected, wanted, after=last, most=most)
        case "newest":
            before = (after[0], after[1]) if after else None
            return details.newest(selected, wanted, before=before, most=most)
    assert_never(order)


def _key(order: Order, row: NodeRow) -> After:
    match order:
        case "ordinal":
            return (row.ordinal,)
        case "newest":
            return (row.detail_revision, row.ordinal)
    assert_never(order)
