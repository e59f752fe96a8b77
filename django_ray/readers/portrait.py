"""All that the page of a run shows first, in one snapshot, bounded whatever its size.

Each part stands for itself: one that is damaged is named in the reading's availability and
left out, the others are shown. None of them is of an older publication.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from django_ray.errors import IntegrityFault
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import (
    archive,
    context,
    details,
    failures,
    live,
    run,
    stages,
    summary,
)
from django_ray.readers.access import Viewer
from django_ray.readers.details import NodeRow
from django_ray.readers.failures import Failures
from django_ray.readers.picture import Reading, Running
from django_ray.readers.run import Detailed, Query
from django_ray.readers.stages import Stages

NODES = 50
"""So many nodes are shown before anything is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """One attempt; `attempts` is the number of the current one.

    `stages` and `failures` are None where there is no detail to read. `running` is longest
    first, `nodes` newest change first; both may be fewer than are counted.
    """

    reading: Reading
    attempts: int
    stages: Stages | None
    failures: Failures | None
    running: tuple[Running, ...]
    nodes: tuple[NodeRow, ...]
    error: str


def portrait(public_id: uuid.UUID, viewer: Viewer, query: Query) -> Portrait | None:
    """Return the portrait of an attempt; None where nothing is there, or not his."""
    with context.snapshot():
        current = summary.authorized(public_id, viewer)
        if current is None:
            return None
        reading: Reading | None = current
        if query.attempt is not None:
            reading = archive.find(current, query.attempt)
        if reading is None:
            return None
        return _draw(reading, viewer, current.execution.attempt_number)


def _draw(reading: Reading, viewer: Viewer, attempts: int) -> Portrait:
    parts = _Parts(reading, viewer)
    drawn = Portrait(
        reading=reading,
        attempts=attempts,
        stages=parts.take(stages.read, None),
        failures=parts.take(failures.read, None),
        running=parts.take(_running, ()),
        nodes=parts.take(_nodes, ()),
        error=live.error_of(reading.execution),
    )
    availability = DetailAvailability(parts.availability)
    return replace(drawn, reading=replace(reading, availability=availability))


class _Parts:
    """The parts of one run as they are read; `availability` becomes what was found."""

    def __init__(self, reading: Reading, viewer: Viewer) -> None:
        self._detailed: Detailed | None = None
        self.availability: str = reading.availability
        try:
            chosen = run.choose(reading, viewer)
        except IntegrityFault as fault:
            self.availability = fault.availability
        else:
            self._detailed = chosen.detailed
            self.availability = chosen.part.detail.availability

    def take[T](self, read: Callable[[Detailed], T], nothing: T) -> T:
        """Return what `read` makes of the detail; nothing where it is not sound."""
        if self._detailed is None:
            return nothing
        try:
            return read(self._detailed)
        except IntegrityFault as fault:
            if self.availability != DetailAvailability.CORRUPT:
                self.availability = fault.availability
            return nothing


def _running(detailed: Detailed) -> tuple[Running, ...]:
    if not detailed.summary.node_counts.running:
        return ()
    run_ = detailed.selected
    rows = details.in_order(run_, live.RUNNING, most=live.RUNNING_READ)
    found = [live.at_work(row, details.parse(run_, row)) for row in rows]
    known = [node for node in found if node is not None]
    return tuple(sorted(known, key=lambda node: node.started_ms))


def _nodes(detailed: Detailed) -> tuple[NodeRow, ...]:
    run_ = detailed.selected
    rows = details.newest(run_, details.Filter(), most=NODES)
    return tuple(details.public(run_, row) for row in rows)
