"""A list in pages: bounded by items and bytes, continued by a cursor, counted to its end.

The last page closes the account: fewer records than the run retains are MISSING, more are
CORRUPT, and neither is shown as a list. Contract 2 and 4.13, ADR-0004.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django_ray.errors import IntegrityFault
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored
from django_ray.protocol.summary import Part, Summary
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import cursor, run
from django_ray.readers.access import Viewer
from django_ray.readers.cursor import Cursor
from django_ray.readers.run import (
    Chosen,
    Detailed,
    Positive,
    Query,
    RunPart,
    Unavailable,
)

ENVELOPE = 4_096
"""Room in a response for what surrounds its items: the run, and a cursor of 2 KiB."""

ROOM = min(V1.response_encoded, V1.response_decoded) - ENVELOPE
"""Bytes for items: JSON is sent as it is, so one bound is always inside the other."""

type After = tuple[int, ...]
"""The stable key of the last record before a page; empty before the first."""

type Keyed[T] = tuple[After, T]


class PageQuery(Query, frozen=True, kw_only=True):
    """A question for a list: where to go on, and how many records (256 at most)."""

    cursor: str | None = None
    limit: Positive = V1.response_items_default


class Page[T](Part, frozen=True, kw_only=True):
    """A part of a list, in its order; `next_cursor` is null on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None
    returned: int
    run: RunPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection[T]:
    """One list of a run as it is asked for: what its cursors are bound to, how it is read.

    `find` returns at most so many records after a key, in order; `expected` how many the
    whole list must hold, None where nothing says so. `live` lists change with the detail
    revision, others with the topology alone.
    """

    name: str
    filters: Stored
    live: bool
    find: Callable[[Detailed, After, int], Sequence[Keyed[T]]]
    expected: Callable[[Summary], int | None]


def read[T](
    public_id: uuid.UUID, viewer: Viewer, query: PageQuery, collection: Collection[T]
) -> Page[T] | Unavailable | None:
    """Return one page, EXPIRED by its cursor, or why there is no detail; see `run.answer`.

    Raises InvalidCursor.
    """
    limit = capped(query.limit)
    digest = cursor.digest(collection.name, collection.filters, limit)

    def turn(chosen: Chosen) -> Page[T] | Unavailable:
        begun: Cursor | RunPart | None = None
        if query.cursor is not None:
            begun = cursor.resume(query.cursor, digest, chosen, live=collection.live)
        if isinstance(begun, RunPart):
            return Unavailable(begun)
        detailed = chosen.detailed
        if detailed is None:
            return Unavailable(chosen.part)
        after, before = (begun.after, begun.returned) if begun else ((), 0)
        found = collection.find(detailed, after, limit + 1)
        taken = fit(found, limit)
        returned = before + len(taken)
        more = len(taken) < len(found)
        _require_account(collection.expected(detailed.summary), returned, more=more)
        following = None
        if more:
            following = cursor.sign(
                Cursor(
                    schema=cursor.SCHEMA,
                    binding=cursor.binding(chosen.identity, chosen.viewer),
                    run_id=str(chosen.execution.run_id),
                    revision=detailed.summary.revision,
                    topology_version=detailed.summary.topology_version or 0,
                    detail_revision=_epoch(detailed.summary, live=collection.live),
                    query=digest,
                    after=taken[-1][0],
                    returned=returned,
                )
            )
        return Page(
            items=tuple(item for _, item in taken),
            next_cursor=following,
            returned=len(taken),
            run=detailed.part,
        )

    return run.answer(public_id, viewer, query, turn)


def capped(limit: int) -> int:
    """Return how many records a page holds at most of those asked for."""
    return min(limit, V1.response_items)


def fit[T](found: Sequence[Keyed[T]], limit: int) -> Sequence[Keyed[T]]:
    """Return the first records that a response has room for.

    One always fits: a record is at most 16 KiB.
    """
    room = ROOM
    for place, (_, item) in enumerate(found[:limit]):
        room -= len(canonical.encode(item)) + 1
        if room < 0:
            return found[:place]
    return found[:limit]


def _epoch(said: Summary, *, live: bool) -> int:
    return (said.detail_revision or 0) if live else 0


def _require_account(expected: int | None, returned: int, *, more: bool) -> None:
    if expected is None or (more and returned < expected):
        return
    if returned < expected:
        raise IntegrityFault(
            "Fewer records than are retained.", DetailAvailability.MISSING
        )
    if returned > expected or more:
        raise IntegrityFault(
            "More records than are retained.", DetailAvailability.CORRUPT
        )
