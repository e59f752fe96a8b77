"""The attempts of an execution, newest first, each with what its summary last said.

An attempt's traceback names files of the machine it ran on, so only the line that names the
error leaves here.
"""

import datetime as dt
import uuid

import msgspec

from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.protocol import text
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts, Part
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers import archive, context, run, summary
from django_ray.readers.access import Viewer
from django_ray.readers.archive import Archived
from django_ray.readers.run import Positive, RunPart

MOST = 32
"""So many at once: each has a summary of at most 16 KiB."""


class AttemptsQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Attempts before this number; without one, from the newest on."""

    before: Positive | None = None


class Attempt(Part, frozen=True, kw_only=True):
    """One try of the execution. Its counts are null where no summary is kept.

    `retry_disposition` is null where no compiled session was sent an input. Decision 0007.
    """

    claimed_at: dt.datetime | None
    discovered_nodes: int | None
    error: str
    error_class: str
    finished_at: dt.datetime | None
    node_counts: NodeCounts | None
    percent: int | None
    retry_disposition: RetryDisposition | None
    run: RunPart
    started_at: dt.datetime | None
    state: ExecutionState


class Attempts(Part, frozen=True, kw_only=True):
    """Attempts, newest first; `next_before` is null when none is older."""

    items: tuple[Attempt, ...]
    next_before: int | None


def attempts(
    public_id: uuid.UUID, viewer: Viewer, query: AttemptsQuery
) -> Attempts | None:
    """Return at most 32 attempts; None where nothing is there, or not his."""
    with context.snapshot():
        current = summary.authorized(public_id, viewer)
        if current is None:
            return None
        found = archive.before(current, query.before, MOST + 1)
    items = tuple(_attempt(one) for one in found[:MOST])
    more = len(found) > MOST
    return Attempts(items=items, next_before=items[-1].run.attempt if more else None)


def _attempt(one: Archived) -> Attempt:
    reading = one.reading
    execution, said = reading.execution, reading.summary
    return Attempt(
        claimed_at=execution.claimed_at,
        discovered_nodes=said.discovered_nodes if said else None,
        error=text.fit(one.error, V1.error),
        error_class=one.error_class,
        finished_at=execution.finished_at,
        node_counts=said.node_counts if said else None,
        percent=said.percent if said else None,
        retry_disposition=one.disposition,
        run=run.part_of(reading, reading.availability),
        started_at=execution.started_at,
        state=execution.state,
    )
