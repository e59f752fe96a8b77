"""Writes the one candidate topology of a run, outside the publication.

Holds no lock of the task row or the run: what a stale writer stages is one bounded
candidate at most, which no reader finds and cleanup removes. ADR-0004.
"""

from dataclasses import dataclass
from typing import LiteralString

import psycopg

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.progress.delta import Fenced, Moved, Revisions
from django_ray.progress.pages import Candidate, Manifest, Page, check_manifest
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.storage import columns, fence
from django_ray.storage.pool import Connection, translated

STANDING: LiteralString = f"""
SELECT r.writer_epoch, r.summary_revision, r.detail_revision, r.topology_version
FROM django_ray_execution AS e
JOIN django_ray_run AS r ON r.execution_id = e.id AND r.run_id = e.run_id
WHERE {fence.OURS}
  AND r.id = %(run)s::int8
"""

HAS_ROOM: LiteralString = """
SELECT o.size + p.encoded <= %(encoded)s::int8 AND o.size + p.decoded <= %(decoded)s::int8
FROM (
    SELECT r.detail_bytes + coalesce(octet_length(r.events), 0)
        + coalesce(octet_length(r.session), 0)
        + coalesce(octet_length(r.bequest), 0)
        + coalesce(octet_length(s.body), 0) AS size
    FROM django_ray_run AS r
    LEFT JOIN django_ray_stages AS s ON s.run_id = r.id
    WHERE r.id = %(run)s::int8
) AS o, (
    SELECT coalesce(sum(encoded_size), 0) AS encoded,
        coalesce(sum(decoded_size), 0) AS decoded
    FROM django_ray_page WHERE run_id = %(run)s::int8
) AS p
"""

INSERT_PAGES: LiteralString = """
INSERT INTO django_ray_page (
    run_id, digest, kind, item_count, encoding, encoded_size, decoded_size, body,
    created_at
)
SELECT %(run)s::int8, i.digest, i.kind, i.item_count, i.encoding, octet_length(i.body),
    i.decoded_size, i.body, now()
FROM unnest(
    %(digests)s::bytea[], %(kinds)s::text[], %(counts)s::int4[], %(encodings)s::text[],
    %(sizes)s::int4[], %(bodies)s::bytea[]
) AS i (digest, kind, item_count, encoding, decoded_size, body)
ON CONFLICT (run_id, digest) DO NOTHING
"""

REPLACE_CANDIDATE: LiteralString = """
INSERT INTO django_ray_manifest (
    run_id, topology_version, published, node_count, edge_count, page_count,
    encoded_bytes, decoded_bytes, page_digests, digest, created_at
)
SELECT %(run)s::int8, %(version)s::int8, false, %(node_count)s::int4,
    %(edge_count)s::int4, %(page_count)s::int4,
    coalesce(sum(p.encoded_size), 0)::int4, %(decoded_bytes)s::int4,
    %(page_digests)s::bytea, %(digest)s::bytea, now()
FROM unnest(%(digests)s::bytea[]) AS i (digest)
JOIN django_ray_page AS p ON p.run_id = %(run)s::int8 AND p.digest = i.digest
ON CONFLICT (run_id) WHERE NOT published DO UPDATE
SET topology_version = excluded.topology_version,
    node_count = excluded.node_count,
    edge_count = excluded.edge_count,
    page_count = excluded.page_count,
    encoded_bytes = excluded.encoded_bytes,
    decoded_bytes = excluded.decoded_bytes,
    page_digests = excluded.page_digests,
    digest = excluded.digest,
    created_at = excluded.created_at
RETURNING id
"""

PRUNE: LiteralString = """
DELETE FROM django_ray_page AS p
WHERE p.run_id = %(run)s::int8
  AND p.digest NOT IN (
    SELECT substring(m.page_digests FROM 32 * n + 1 FOR 32)
    FROM django_ray_manifest AS m, generate_series(0, m.page_count - 1) AS n
    WHERE m.run_id = %(run)s::int8
  )
"""

LOCK_WRITER: LiteralString = """
SELECT 1 FROM django_ray_run
WHERE id = %(run)s::int8 AND writer_epoch = %(writer_epoch)s::int8
FOR NO KEY UPDATE
"""

DISCARD: LiteralString = """
DELETE FROM django_ray_manifest WHERE run_id = %(run)s::int8 AND NOT published
"""


@dataclass(frozen=True, slots=True)
class Staged:
    """The candidate is stored; no reader sees it until a publication promotes it."""

    manifest_id: int


@translated
def stage(
    conn: Connection,
    identity: RunIdentity,
    run_pk: int,
    writer_epoch: int,
    candidate: Candidate,
) -> Staged | Fenced | Moved:
    """Store `candidate` in place of any earlier one, in one transaction.

    The run is compared before the write and after it, and one that went stale in between
    leaves nothing. `Moved` when the run has published this version already, as after a
    commit whose answer was lost.
    """
    check_manifest(candidate.manifest)
    version = candidate.manifest.version
    with conn.transaction():
        refusal = _refusal(conn, identity, run_pk, writer_epoch, version)
        if refusal is not None:
            return refusal
        if candidate.pages:
            columns.execute(conn, INSERT_PAGES, _pages(run_pk, candidate.pages))
        row = columns.execute(
            conn, REPLACE_CANDIDATE, _manifest(run_pk, candidate.manifest)
        ).fetchone()
        assert row is not None
        conn.execute(PRUNE, {"run": run_pk})
        refusal = _refusal(conn, identity, run_pk, writer_epoch, version)
        if refusal is not None:
            raise psycopg.Rollback
        _require_room(conn, run_pk)
    return refusal or Staged(manifest_id=row[0])


@translated
def discard(conn: Connection, run_pk: int, writer_epoch: int) -> None:
    """Remove the run's candidate and its pages, if this writer is still the last.

    For a writer that was fenced off: it no longer owns the task row, and takes only the
    run's lock, so that a newer writer's candidate is never removed. Contract 4.7.
    """
    fields = {"run": run_pk, "writer_epoch": writer_epoch}
    with conn.transaction():
        if conn.execute(LOCK_WRITER, fields).fetchone() is not None:
            conn.execute(DISCARD, fields)
            conn.execute(PRUNE, fields)


def _refusal(
    conn: Connection,
    identity: RunIdentity,
    run_pk: int,
    writer_epoch: int,
    version: int,
) -> Fenced | Moved | None:
    row = conn.execute(
        STANDING, {**fence.parameters(identity), "run": run_pk}
    ).fetchone()
    if row is None:
        return Fenced("task")
    epoch, summary, detail, topology = row
    if epoch != writer_epoch:
        return Fenced("writer_epoch")
    if topology >= version:
        return Moved(Revisions(summary=summary, detail=detail, topology=topology))
    return None


def _require_room(conn: Connection, run_pk: int) -> None:
    row = conn.execute(
        HAS_ROOM,
        {"run": run_pk, "encoded": V1.run_encoded, "decoded": V1.run_decoded},
    ).fetchone()
    if row is None or not row[0]:
        raise IntegrityFault(
            "A run's candidate does not fit beside what is published.",
            DetailAvailability.CORRUPT,
        )


def _pages(run_pk: int, pages: tuple[Page, ...]) -> dict[str, columns.Value]:
    return {
        "run": run_pk,
        "digests": columns.blobs([page.digest for page in pages]),
        "kinds": columns.texts([page.kind for page in pages]),
        "counts": columns.ints([page.item_count for page in pages]),
        "encodings": columns.texts([page.encoding for page in pages]),
        "sizes": columns.ints([page.decoded_size for page in pages]),
        "bodies": columns.blobs([page.body for page in pages]),
    }


def _manifest(run_pk: int, manifest: Manifest) -> dict[str, columns.Value]:
    return {
        "run": run_pk,
        "version": manifest.version,
        "node_count": manifest.node_count,
        "edge_count": manifest.edge_count,
        "page_count": len(manifest.digests),
        "decoded_bytes": manifest.decoded_bytes,
        "page_digests": b"".join(manifest.digests),
        "digest": manifest.digest,
        # Another zlib may have stored any of the pages in another size: the same page by
        # its digest, so the manifest counts what is stored, offered again or not.
        "digests": columns.blobs(manifest.digests),
    }
