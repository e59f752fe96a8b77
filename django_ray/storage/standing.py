"""A run read back for a collector that goes on with it.

Called after `begin`, from which on nobody else writes the run: what is read, bounded and
checked as a reader must, is what the next publication stands on.
"""

from contextlib import suppress
from typing import LiteralString

import psycopg

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.progress import bequest, stages, standing
from django_ray.progress.pages import DIGEST_BYTES, Manifest, Page
from django_ray.progress.standing import Detailed, Rows, Standing
from django_ray.protocol import records, summary
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EVENTS_BYTES
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import (
    CODES,
    DetailAvailability,
    NodeState,
    ReportingPolicy,
)
from django_ray.storage import columns
from django_ray.storage.load import Begun
from django_ray.storage.pool import Connection, translated

TOLD: LiteralString = """
SELECT
    CASE WHEN octet_length(e.progress_summary) <= %(summary)s::int4
        THEN e.progress_summary END,
    CASE WHEN octet_length(r.bequest) <= %(bequest)s::int4 THEN r.bequest END,
    CASE WHEN octet_length(r.events) <= %(events)s::int4 THEN r.events END,
    CASE WHEN octet_length(s.body) <= %(stage_row)s::int4 THEN s.body END
FROM django_ray_run AS r
JOIN django_ray_execution AS e ON e.id = r.execution_id AND e.run_id = r.run_id
LEFT JOIN django_ray_stages AS s ON s.run_id = r.id
WHERE r.id = %(run)s::int8
"""

MANIFEST: LiteralString = """
SELECT id, topology_version, node_count, edge_count, encoded_bytes, decoded_bytes,
    page_digests, digest
FROM django_ray_manifest
WHERE run_id = %(run)s::int8
  AND topology_version = %(version)s::int8
  AND published
  AND page_count <= %(pages)s::int4
"""

PAGES: LiteralString = """
SELECT p.kind, p.item_count, p.encoding, p.decoded_size, p.digest,
    CASE
        WHEN octet_length(p.body) <= %(page_encoded)s::int4
            AND sum(octet_length(p.body)) OVER () <= %(topology_encoded)s::int8
        THEN p.body
    END
FROM unnest(%(digests)s::bytea[]) WITH ORDINALITY AS i (digest, position)
JOIN django_ray_page AS p ON p.run_id = %(run)s::int8 AND p.digest = i.digest
ORDER BY i.position
"""

DETAILS: LiteralString = """
SELECT ordinal, node_key,
    CASE WHEN octet_length(node_id) <= %(node_id)s::int4 THEN node_id END,
    stage, state, detail_revision,
    CASE WHEN octet_length(record) <= %(record)s::int4 THEN record END
FROM django_ray_node_detail
WHERE run_id = %(run)s::int8
ORDER BY ordinal
LIMIT %(rows)s::int4
"""

RUNNING: LiteralString = """
SELECT ordinal
FROM django_ray_node_detail
WHERE run_id = %(run)s::int8 AND state = %(running)s::int2
ORDER BY ordinal
LIMIT %(rows)s::int4
"""

FAULTS = frozenset((DetailAvailability.MISSING, DetailAvailability.CORRUPT))
"""What a run's summary says until its end, once its detail could not be read back."""

CHUNK = 2_000
"""So many detail rows are in memory as they are stored."""


@translated
def read(conn: Connection, identity: RunIdentity, begun: Begun) -> Standing:
    """Read the run back as `begin` found it, in one transaction that writes nothing.

    What does not prove to be whole is no error: the `Standing` names the fault. Holds at
    most one topology, its decoded nodes and the parsed rows.
    """
    if not begun.revisions.summary:
        return Standing()
    with conn.transaction():
        try:
            return _sound(conn, identity, begun)
        except IntegrityFault as exc:
            fault = DetailAvailability(exc.availability)
            return _faulty(conn, identity, begun, fault)


def _sound(conn: Connection, identity: RunIdentity, begun: Begun) -> Standing:
    said, left, events, row = _told(conn, begun)
    spoken = _spoken(said, identity, begun)
    if left is None:
        raise _fault(DetailAvailability.MISSING)
    if spoken.detail.availability in FAULTS:
        # Its rows and its stages are those of before the fault.
        raise _fault(spoken.detail.availability)
    inherited = bequest.decode(left)
    detailed = None
    if begun.revisions.topology:
        detailed = _detailed(conn, begun)
    elif begun.rows or begun.revisions.detail:
        raise _fault(DetailAvailability.MISSING)
    if spoken.policy is ReportingPolicy.full and inherited.registered and row is None:
        raise _fault(DetailAvailability.MISSING)
    found = Standing(
        summary=spoken,
        bequest=inherited,
        row=None if row is None else stages.decode(row),
        events=() if events is None else records.decode_events(events),
        detailed=detailed,
    )
    standing.require_agreed(found)
    return found


def _faulty(
    conn: Connection,
    identity: RunIdentity,
    begun: Begun,
    fault: DetailAvailability,
) -> Standing:
    """Return what can be told of a run whose detail has a fault: its totals, if these.

    And which nodes ran, of which the coordinator's arrays make nothing that is not so.
    """
    left = spoken = None
    with suppress(IntegrityFault):
        said, left, *_ = _told(conn, begun)
        spoken = _spoken(said, identity, begun)
    found = _manifest(conn, begun)
    detailed = (
        None if found is None else Detailed(manifest=found[1], manifest_id=found[0])
    )
    return Standing(
        summary=spoken,
        detailed=detailed,
        fault=fault,
        running=_running(conn, begun, left),
    )


def _running(
    conn: Connection, begun: Begun, left: bytes | None
) -> tuple[tuple[int, int], ...]:
    """Return nodes that ran, each with its try: what the bequest and the rows name."""
    running: dict[int, int] = {}
    with suppress(IntegrityFault):
        running.update(() if left is None else bequest.decode(left).running)
    fields = {
        "run": begun.run_pk,
        "running": CODES[NodeState.RUNNING],
        "rows": V1.bequest_running,
    }
    for (ordinal,) in columns.execute(conn, RUNNING, fields):
        running.setdefault(ordinal, 1)
    return tuple(running.items())[: V1.bequest_running]


def _told(
    conn: Connection, begun: Begun
) -> tuple[bytes | None, bytes | None, bytes | None, bytes | None]:
    row = columns.execute(
        conn,
        TOLD,
        {
            "run": begun.run_pk,
            "summary": V1.summary,
            "bequest": V1.bequest,
            "events": EVENTS_BYTES,
            "stage_row": V1.stage_row,
        },
    ).fetchone()
    if row is None:
        raise _fault(DetailAvailability.MISSING)
    said, left, events, body = row
    return said, left, events, body


def _spoken(said: bytes | None, identity: RunIdentity, begun: Begun) -> Summary:
    """Return the summary, if it is of this run and of the revisions it should be."""
    if said is None:
        raise _fault(DetailAvailability.MISSING)
    spoken, at = summary.decode(said), begun.revisions
    revisions = (
        spoken.revision,
        spoken.detail_revision or 0,
        spoken.topology_version or 0,
    )
    if (
        not summary.is_of(spoken, identity)
        or revisions != (at.summary, at.detail, at.topology)
        or spoken.manifest_id != begun.manifest_id
    ):
        raise _fault(DetailAvailability.CORRUPT)
    return spoken


def _detailed(conn: Connection, begun: Begun) -> Detailed:
    found = _manifest(conn, begun)
    if found is None:
        raise _fault(DetailAvailability.MISSING)
    manifest_id, manifest = found
    pages = _pages(conn, begun, manifest)
    nodes, edges = standing.topology(manifest, pages)
    rows = Rows(nodes, begun.revisions.detail)
    with psycopg.ServerCursor(conn, "django_ray_details") as cursor:
        fields = {
            "run": begun.run_pk,
            "node_id": V1.node_id,
            "record": V1.record,
            "rows": V1.retained_nodes + 1,
        }
        cursor.execute(DETAILS, fields, binary=True)
        while chunk := cursor.fetchmany(CHUNK):
            for row in chunk:
                rows.add(*row)
    totals = (begun.rows, begun.bytes)
    return standing.detailed(manifest, manifest_id, pages, rows, edges, totals)


def _manifest(conn: Connection, begun: Begun) -> tuple[int, Manifest] | None:
    row = columns.execute(
        conn,
        MANIFEST,
        {
            "run": begun.run_pk,
            "version": begun.revisions.topology,
            "pages": V1.retained_nodes + V1.retained_edges,
        },
    ).fetchone()
    if row is None:
        return None
    manifest_id, version, nodes, edges, encoded, decoded, joined, digest = row
    return manifest_id, Manifest(
        version=version,
        node_count=nodes,
        edge_count=edges,
        encoded_bytes=encoded,
        decoded_bytes=decoded,
        digests=tuple(
            joined[at : at + DIGEST_BYTES] for at in range(0, len(joined), DIGEST_BYTES)
        ),
        digest=digest,
    )


def _pages(conn: Connection, begun: Begun, manifest: Manifest) -> list[Page]:
    rows = columns.execute(
        conn,
        PAGES,
        {
            "run": begun.run_pk,
            "digests": columns.blobs(manifest.digests),
            "page_encoded": V1.page_encoded,
            "topology_encoded": V1.topology_encoded,
        },
    ).fetchall()
    if len(rows) < len(manifest.digests):
        raise _fault(DetailAvailability.MISSING)
    if any(row[-1] is None for row in rows):
        raise _fault(DetailAvailability.CORRUPT)
    return [
        Page(
            kind=kind,
            item_count=item_count,
            encoding=encoding,
            decoded_size=decoded_size,
            digest=digest,
            body=body,
        )
        for kind, item_count, encoding, decoded_size, digest, body in rows
    ]


def _fault(availability: DetailAvailability) -> IntegrityFault:
    return IntegrityFault("A stored run cannot be read back.", availability)
