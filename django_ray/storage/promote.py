"""What a staged candidate must prove before a publication promotes it. ADR-0004.

First the bodies, before any lock: the server hands them out only where the manifest's row
and the pages' stated counts and sizes agree with the publication and with every cap, so
what is read is bounded by this statement and not by what is stored. Then, under the locks,
the manifest row and the rows of the pages it names. A page that the published
manifest names proved its body when that one was promoted, and pages are immutable: its row
is compared again, its body is not read, so a growing graph costs its new pages.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import lt
from typing import LiteralString

from django_ray.errors import IntegrityFault
from django_ray.progress.pages import Manifest, check_manifest, decode
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EdgeItem, NodeItem
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.storage import columns
from django_ray.storage.pool import Connection

BODIES: LiteralString = """
WITH named AS (
    SELECT p.digest, p.kind, p.item_count, p.encoding, p.encoded_size, p.decoded_size,
        p.body, octet_length(p.body) AS size
    FROM django_ray_page AS p
    WHERE p.run_id = %(run)s::int8 AND p.digest = ANY (%(digests)s::bytea[])
), counted AS (
    SELECT count(*) AS pages,
        coalesce(sum(item_count) FILTER (WHERE kind = 'nodes'), 0) AS nodes,
        coalesce(sum(item_count) FILTER (WHERE kind = 'edges'), 0) AS edges,
        coalesce(sum(size), 0) AS encoded,
        coalesce(sum(decoded_size), 0) AS decoded,
        coalesce(bool_and(
            size = encoded_size
            AND size <= %(page_encoded)s::int4
            AND decoded_size <= %(page_decoded)s::int4
            AND item_count <= %(page_items)s::int4
        ), true) AS bounded
    FROM named
), sound AS (
    SELECT FROM django_ray_manifest AS m, counted AS n
    WHERE m.run_id = %(run)s::int8
      AND m.topology_version = %(version)s::int8
      AND NOT m.published
      AND m.node_count = (%(stated)s::int4[])[1] AND n.nodes = m.node_count
      AND m.edge_count = (%(stated)s::int4[])[2] AND n.edges = m.edge_count
      AND m.page_count = cardinality(%(digests)s::bytea[]) AND n.pages = m.page_count
      AND m.decoded_bytes = (%(stated)s::int4[])[3] AND n.decoded = m.decoded_bytes
      AND m.encoded_bytes <= %(topology_encoded)s::int4 AND n.encoded = m.encoded_bytes
      AND m.digest = %(digest)s::bytea
      AND n.bounded
)
SELECT n.digest, n.kind, n.item_count, n.encoding, n.decoded_size,
    CASE WHEN EXISTS (SELECT FROM sound) THEN n.body END
FROM named AS n
WHERE n.digest NOT IN (
    SELECT substring(m.page_digests FROM 32 * i + 1 FOR 32)
    FROM django_ray_manifest AS m, generate_series(0, m.page_count - 1) AS i
    WHERE m.run_id = %(run)s::int8 AND m.published
)
"""

CANDIDATE: LiteralString = """
SELECT m.id, m.node_count, m.edge_count, m.page_count, m.encoded_bytes,
    m.decoded_bytes, m.page_digests = p.joined, m.digest, p.kinds, p.counts, p.encoded, p.decoded
FROM django_ray_manifest AS m
CROSS JOIN LATERAL (
    SELECT array_agg(p.kind::text ORDER BY i.position) AS kinds,
        array_agg(p.item_count::int4 ORDER BY i.position) AS counts,
        array_agg(p.encoded_size ORDER BY i.position) AS encoded,
        array_agg(p.decoded_size ORDER BY i.position) AS decoded,
        coalesce(string_agg(i.digest, '' ORDER BY i.position), '') AS joined
    FROM unnest(%(digests)s::bytea[]) WITH ORDINALITY AS i (digest, position)
    LEFT JOIN django_ray_page AS p ON p.run_id = m.run_id AND p.digest = i.digest
) AS p
WHERE m.run_id = %(run)s::int8
  AND m.topology_version = %(version)s::int8
  AND NOT m.published
FOR UPDATE OF m
"""

type Key = tuple[int, int]
type Spans = dict[bytes, tuple[Key, Key]]
"""The first and the last key of every page whose body was read."""


def read_bodies(conn: Connection, run_pk: int, manifest: Manifest) -> Spans | None:
    """Check the manifest and the pages it adds, each against its own digest.

    One statement, outside the publication's transaction. None where the bodies were
    withheld, for the rows disagree: `lock_candidate` then says about what. Raise
    IntegrityFault when a page is not what its row and its digest say.
    """
    check_manifest(manifest)
    cursor = columns.execute(
        conn,
        BODIES,
        {
            "run": run_pk,
            "version": manifest.version,
            # As a column: of one type, whatever the numbers are.
            "stated": columns.ints(
                [manifest.node_count, manifest.edge_count, manifest.decoded_bytes]
            ),
            "digest": manifest.digest,
            "digests": columns.blobs(manifest.digests),
            "page_items": V1.page_items,
            "page_encoded": V1.page_encoded,
            "page_decoded": V1.page_decoded,
            "topology_encoded": V1.topology_encoded,
        },
    )
    spans: Spans = {}
    for digest, kind, item_count, encoding, decoded_size, body in cursor:
        if body is None:
            return None
        items = decode(body, encoding, digest, kind)
        # Equal to the digest again: the stored bytes are canonical, and of this size.
        data = canonical.encode(items)
        if len(data) != decoded_size or canonical.digest(data) != digest:
            raise _corrupt("A candidate's page is not canonical.")
        if len(items) != item_count:
            raise _corrupt("A candidate's page counts other items than it holds.")
        spans[digest] = _span(items)
    return spans


def lock_candidate(
    conn: Connection, run_pk: int, manifest: Manifest, spans: Spans | None
) -> int:
    """Lock the candidate after the run row, and return its id once all of it agrees.

    Raise IntegrityFault when the row, a page's presence or owner, the order, a count, or
    a size differs from `manifest`.
    """
    row = columns.execute(
        conn,
        CANDIDATE,
        {
            "run": run_pk,
            "version": manifest.version,
            "digests": columns.blobs(manifest.digests),
        },
    ).fetchone()
    if row is None:
        raise _missing("The candidate is not staged.")
    manifest_id, nodes, edges, number, encoded_bytes, decoded_bytes, *rest = row
    same_pages, digest, kinds, counts, encoded, decoded = rest
    if (nodes, edges, number, decoded_bytes, same_pages, digest) != (
        manifest.node_count,
        manifest.edge_count,
        len(manifest.digests),
        manifest.decoded_bytes,
        True,
        manifest.digest,
    ):
        raise _corrupt("The staged candidate is another than the publication's.")
    if None in (kinds or ()):
        raise _missing("A candidate's page is not there, or is another run's.")
    sums = (sum(encoded or ()), sum(decoded or ()))
    if sums != (encoded_bytes, decoded_bytes):
        raise _corrupt("A candidate's sizes do not add up.")
    if _counted(kinds or [], counts or []) != (nodes, edges):
        raise _corrupt("A candidate's counts do not add up.")
    if spans is None:
        raise _corrupt("A candidate's pages are oversized.")
    _require_order(manifest, kinds or [], spans)
    return int(manifest_id)


def _counted(kinds: Sequence[str], counts: Sequence[int]) -> tuple[int, int]:
    pairs = list(zip(kinds, counts, strict=True))
    return (
        sum(count for kind, count in pairs if kind == "nodes"),
        sum(count for kind, count in pairs if kind == "edges"),
    )


def _require_order(manifest: Manifest, kinds: Sequence[str], spans: Spans) -> None:
    nodes = sum(kind == "nodes" for kind in kinds)
    if "edges" in kinds[:nodes]:
        raise _corrupt("A candidate's node pages do not come first.")
    for digests in (manifest.digests[:nodes], manifest.digests[nodes:]):
        read = [spans[digest] for digest in digests if digest in spans]
        if not all(left[1] < right[0] for left, right in pairwise(read)):
            raise _corrupt("A candidate's pages are out of order.")


def _span(items: tuple[NodeItem, ...] | tuple[EdgeItem, ...]) -> tuple[Key, Key]:
    keys = [
        (item.ordinal, -1) if isinstance(item, NodeItem) else (item.target, item.source)
        for item in items
    ]
    if not all(map(lt, keys, keys[1:])) or not all(s < t for t, s in keys):
        raise _corrupt("A candidate's page is out of order.")
    return keys[0], keys[-1]


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)


def _missing(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.MISSING)
