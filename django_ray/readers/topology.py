"""Topology pages, each proven against the manifest that names it.

A page passes a byte guard in SQL, is decoded under both caps, and must have the digest,
the owner, the count and the sizes that are stated of it: contract 2, ADR-0004.
"""

from django.db.models import Case, F, When

from django_ray.errors import IntegrityFault
from django_ray.models.progress import TopologyPage
from django_ray.progress.pages import parse, unpack
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EdgeItem, NodeItem
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.context import Selected

type Items = tuple[NodeItem, ...] | tuple[EdgeItem, ...]


def page(run: Selected, number: int) -> Items:
    """Return the items of the manifest's page `number`, from 0: node pages come first.

    One statement; raise IntegrityFault, MISSING or CORRUPT, when the page is not there or
    is not what the manifest names.
    """
    digest = run.manifest.digests[number]
    body = When(body__octets__lte=V1.page_encoded, then=F("body"))
    row = (
        TopologyPage.objects.filter(run_id=run.run_pk, digest=digest)
        .only("kind", "item_count", "encoding", "encoded_size", "decoded_size")
        .annotate(capped=Case(body))
        .first()
    )
    if row is None:
        raise IntegrityFault(
            "A topology page is not there.", DetailAvailability.MISSING
        )
    if row.capped is None:
        raise _corrupt("A topology page is oversized.")
    stored = bytes(row.capped)
    data = unpack(stored, row.encoding)
    items = parse(data, digest, row.kind)
    stated = (row.item_count, row.encoded_size, row.decoded_size)
    if stated != (len(items), len(stored), len(data)):
        raise _corrupt("A topology page's counts or sizes are not its own.")
    return items


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
