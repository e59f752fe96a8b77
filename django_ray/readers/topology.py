"""Topology pages, each proven against the manifest that names it.

A page passes a byte guard in SQL, is decoded under both caps, and must have the digest,
the owner, the count and the sizes that are stated of it: contract 2, ADR-0004.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, F, When

from django_ray.errors import IntegrityFault
from django_ray.models.progress import TopologyPage
from django_ray.progress.pages import parse, unpack
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EdgeItem, NodeItem
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.context import Selected

type Items = tuple[NodeItem, ...] | tuple[EdgeItem, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page as a list of nodes or edges sees it: its items begin at `place`."""

    digest: bytes
    place: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The pages of a topology, in order, without their bodies."""

    nodes: tuple[Sheet, ...]
    edges: tuple[Sheet, ...]


def contents(run: Selected) -> Contents:
    """Return what the manifest's pages hold, in one statement.

    Raise IntegrityFault, MISSING or CORRUPT, when a page is not there or the counts are
    not the manifest's.
    """
    stored = {
        bytes(digest): (kind, count)
        for digest, kind, count in TopologyPage.objects.filter(
            run_id=run.run_pk
        ).values_list("digest", "kind", "item_count")
    }
    sheets: dict[str, list[Sheet]] = {"nodes": [], "edges": []}
    totals = {"nodes": 0, "edges": 0}
    for digest in run.manifest.digests:
        if digest not in stored:
            raise _missing()
        kind, count = stored[digest]
        if kind not in sheets or not 1 <= count <= V1.page_items:
            raise _corrupt("A topology page is of no known kind or count.")
        sheets[kind].append(Sheet(digest, totals[kind], count))
        totals[kind] += count
    if (totals["nodes"], totals["edges"]) != (
        run.manifest.node_count,
        run.manifest.edge_count,
    ):
        raise _corrupt("A topology's pages do not hold what its manifest counts.")
    return Contents(nodes=tuple(sheets["nodes"]), edges=tuple(sheets["edges"]))


def bodies(run: Selected, digests: Sequence[bytes]) -> list[Items]:
    """Return the items of the pages with these digests, in their order, in one statement.

    Raise IntegrityFault, MISSING or CORRUPT, when one is not there or is not what the
    manifest names.
    """
    body = When(body__octets__lte=V1.page_encoded, then=F("body"))
    found: dict[bytes, Items] = {}
    columns = ("digest", "kind", "item_count", "encoding", "encoded_size")
    for stored, *stated in (
        TopologyPage.objects.filter(run_id=run.run_pk, digest__in=list(digests))
        .annotate(capped=Case(body))
        .values_list(*columns, "decoded_size", "capped")
    ):
        digest = bytes(stored)
        found[digest] = _items(digest, *stated)
    if len(found) < len(set(digests)):
        raise _missing()
    return [found[digest] for digest in digests]


def _items(
    digest: bytes,
    kind: str,
    item_count: int,
    encoding: str,
    encoded_size: int,
    decoded_size: int,
    capped: bytes | None,
) -> Items:
    if capped is None:
        raise _corrupt("A topology page is oversized.")
    stored = bytes(capped)
    data = unpack(stored, encoding)
    items = parse(data, digest, kind)
    stated = (item_count, encoded_size, decoded_size)
    if stated != (len(items), len(stored), len(data)):
        raise _corrupt("A topology page's counts or sizes are not its own.")
    return items


def _missing() -> IntegrityFault:
    return IntegrityFault("A topology page is not there.", DetailAvailability.MISSING)


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
