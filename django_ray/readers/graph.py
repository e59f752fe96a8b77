"""A run's retained nodes and edges as registered: the graph, without its states.

Both lists follow the ordinal, edges by target and then source, and stay as they are for as
long as their topology version is the published one. Contract 4.1.
"""

import uuid
from bisect import bisect_left
from collections.abc import Sequence
from math import isqrt

from django_ray.errors import IntegrityFault
from django_ray.protocol.frames import Ordinal
from django_ray.protocol.records import EdgeItem, NodeItem, Stored
from django_ray.protocol.summary import Part
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import page, topology
from django_ray.readers.access import Viewer
from django_ray.readers.context import Selected
from django_ray.readers.page import After, Collection, Keyed, Page, PageQuery
from django_ray.readers.run import Detailed, Unavailable
from django_ray.readers.topology import Items, Sheet


class GraphQuery(PageQuery, frozen=True, kw_only=True):
    """From which ordinal on: of the nodes, or of the edges' targets."""

    start: Ordinal = 0


class Node(Part, frozen=True, kw_only=True):
    """One registered node; `rank` is its longest way from a root."""

    id: str
    label: str
    ordinal: int
    rank: int
    stage: str


class Edge(Part, frozen=True, kw_only=True):
    """One edge, by ordinals: `target` needs the result of `source`."""

    source: int
    target: int


class _Start(Stored, frozen=True):
    start: int


def topology_nodes(
    public_id: uuid.UUID, viewer: Viewer, query: GraphQuery
) -> Page[Node] | Unavailable | None:
    """Return a page of registered nodes; raises InvalidCursor."""

    def find(detailed: Detailed, after: After, most: int) -> list[Keyed[Node]]:
        run = detailed.selected
        sheets = topology.contents(run).nodes
        first = after[0] + 1 if after else query.start
        found: list[Keyed[Node]] = []
        for place, item in _slice(run, sheets, first, most):
            # Ordinals are dense, so the place of a node is its ordinal.
            if not isinstance(item, NodeItem) or item.ordinal != place:
                raise _corrupt("A topology's nodes are not in order.")
            found.append(((item.ordinal,), _node(item)))
        return found

    return page.read(
        public_id,
        viewer,
        query,
        Collection(
            name="topology/nodes",
            filters=_Start(query.start),
            live=False,
            find=find,
            expected=lambda said: max(0, said.retained_nodes - query.start),
        ),
    )


def topology_edges(
    public_id: uuid.UUID, viewer: Viewer, query: GraphQuery
) -> Page[Edge] | Unavailable | None:
    """Return a page of edges; raises InvalidCursor.

    A start reads some forty pages in two statements to find its place, whatever the size.
    """

    def find(detailed: Detailed, after: After, most: int) -> list[Keyed[Edge]]:
        run = detailed.selected
        sheets = topology.contents(run).edges
        if after:
            first = after[2] + 1
        else:
            first = _place_of(run, sheets, query.start) if query.start else 0
        found: list[Keyed[Edge]] = []
        last = after[:2]
        for place, item in _slice(run, sheets, first, most):
            if not isinstance(item, EdgeItem) or (item.target, item.source) <= last:
                raise _corrupt("A topology's edges are not in order.")
            last = (item.target, item.source)
            edge = Edge(source=item.source, target=item.target)
            found.append(((*last, place), edge))
        return found

    return page.read(
        public_id,
        viewer,
        query,
        Collection(
            name="topology/edges",
            filters=_Start(query.start),
            live=False,
            find=find,
            expected=lambda said: None if query.start else said.retained_edges,
        ),
    )


def _slice(
    run: Selected, sheets: Sequence[Sheet], first: int, most: int
) -> list[tuple[int, NodeItem | EdgeItem]]:
    """Return at most so many items from a place on, with their places."""
    wanted = [
        sheet
        for sheet in sheets
        if sheet.place + sheet.count > first and sheet.place < first + most
    ]
    found: list[tuple[int, NodeItem | EdgeItem]] = []
    for sheet, items in zip(wanted, _bodies(run, wanted), strict=True):
        found.extend(enumerate(items, sheet.place))
    begin = max(0, first - wanted[0].place) if wanted else 0
    return found[begin : begin + most]


def _place_of(run: Selected, sheets: Sequence[Sheet], target: int) -> int:
    """Return the place of the first edge that ends at `target` or beyond.

    Every so many pages one is read, then those between two of them: two statements.
    """
    step = isqrt(len(sheets)) + 1
    probes = sheets[::step]
    below = sum(_target(items[0]) < target for items in _bodies(run, probes))
    begin = max(0, below - 1) * step
    between = sheets[begin : begin + step]
    for sheet, items in zip(between, _bodies(run, between), strict=True):
        targets = [_target(item) for item in items]
        if targets[-1] >= target:
            return sheet.place + bisect_left(targets, target)
    return between[-1].place + between[-1].count if between else 0


def _bodies(run: Selected, sheets: Sequence[Sheet]) -> list[Items]:
    if not sheets:
        return []
    return topology.bodies(run, [sheet.digest for sheet in sheets])


def _target(item: NodeItem | EdgeItem) -> int:
    if not isinstance(item, EdgeItem):
        raise _corrupt("A page of edges holds a node.")
    return item.target


def _node(item: NodeItem) -> Node:
    return Node(
        id=item.id,
        label=item.label,
        ordinal=item.ordinal,
        rank=item.rank,
        stage=item.stage,
    )


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
