"""All of a publication becomes visible, or nothing.

BEGIN, the task's lock, the run's lock, one writing statement over arrays, COMMIT: five
round trips whatever the number of rows. The writing statement has two shapes, `WRITE` for
rows that are stored and `GROW` where nodes are added or a topology is promoted. Many rows
that were never stored go by COPY, two more; a topology costs two more, whatever its size. Never in pipeline mode: it waits for ever once
one statement's values are larger than the socket's buffers.
"""

from dataclasses import dataclass
from typing import LiteralString

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.progress.delta import Fenced, Moved, Outcome, Publication, Published
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.storage import columns, fence, nodes, promote, summaries
from django_ray.storage.fence import HeldRun
from django_ray.storage.pool import Connection, translated

CHANGED: LiteralString = """changed AS (
    UPDATE django_ray_node_detail AS d
    SET stage = i.stage, state = i.state, record = i.record,
        detail_revision = %(detail)s::int8
    FROM unnest(
        %(ordinals)s::int4[], %(keys)s::bytea[], %(stages)s::int2[], %(states)s::int2[],
        %(records)s::bytea[]
    ) AS i (ordinal, node_key, stage, state, record)
    CROSS JOIN LATERAL (
        SELECT o.ctid, octet_length(o.record) AS size
        FROM django_ray_node_detail AS o
        WHERE o.run_id = %(run)s::int8
          AND o.ordinal = i.ordinal
          AND o.node_key = i.node_key
        LIMIT 1
    ) AS old
    WHERE d.ctid = old.ctid
    RETURNING octet_length(i.record) - old.size AS growth
)"""
"""Rows that are stored, each compared by its node's key; by how much they became longer.

LIMIT has each of them looked up by key. Without it the planner, who makes one plan and may
know the table empty, joins the arrays to all rows of the run: seconds at 2,500 of 25,000.
"""

ADDED: LiteralString = """added AS (
    INSERT INTO django_ray_node_detail (
        run_id, ordinal, node_key, node_id, stage, state, detail_revision, record
    )
    SELECT %(run)s::int8, i.ordinal, i.node_key, i.node_id, i.stage, i.state,
        %(detail)s::int8, i.record
    FROM unnest(
        (%(ordinals)s::int4[])[%(fresh_from)s::int4:],
        (%(keys)s::bytea[])[%(fresh_from)s::int4:],
        %(fresh_ids)s::text[],
        (%(stages)s::int2[])[%(fresh_from)s::int4:],
        (%(states)s::int2[])[%(fresh_from)s::int4:],
        (%(records)s::bytea[])[%(fresh_from)s::int4:]
    ) AS i (ordinal, node_key, node_id, stage, state, record)
    ON CONFLICT (run_id, ordinal) DO NOTHING
    RETURNING octet_length(record) AS growth
)"""
"""Rows of nodes that no commit has confirmed, those left out that are stored all the same."""

PROMOTED: LiteralString = """promoted AS (
    UPDATE django_ray_manifest SET published = true
    WHERE id = %(manifest)s::int8
), retired AS (
    DELETE FROM django_ray_manifest
    WHERE %(manifest)s::int8 IS NOT NULL
      AND run_id = %(run)s::int8
      AND id <> %(manifest)s::int8
), dropped AS (
    DELETE FROM django_ray_page
    WHERE %(manifest)s::int8 IS NOT NULL
      AND run_id = %(run)s::int8
      AND digest NOT IN (SELECT unnest(%(digests)s::bytea[]))
)"""
"""The candidate in place of what was published; nothing where there is no candidate."""

TOLD: LiteralString = f"""rolled AS (
    INSERT INTO django_ray_stages (run_id, body)
    SELECT %(run)s::int8, %(stages_body)s::bytea
    WHERE %(stages_body)s::bytea IS NOT NULL
    ON CONFLICT (run_id) DO UPDATE SET body = excluded.body
), run AS (
    UPDATE django_ray_run AS r
    SET {summaries.RUN_SAYS},
        detail_revision = %(detail)s::int8,
        topology_version = %(topology)s::int8,
        detail_rows = r.detail_rows + n.added + %(copied_rows)s::int4,
        detail_bytes = r.detail_bytes + n.growth + %(copied_bytes)s::int8
    FROM counted AS n
    WHERE r.id = %(run)s::int8
    RETURNING r.detail_rows, r.detail_bytes, n.changed + n.added AS written
), {summaries.TASK_SAYS}
SELECT run.detail_rows, run.detail_bytes, run.written FROM run, task
"""
"""The totals by what was `counted`, the stages, and what readers go by."""

WRITE: LiteralString = f"""
WITH {CHANGED}, counted AS (
    SELECT count(*)::int4 AS changed, 0 AS added, coalesce(sum(growth), 0)::int8 AS growth
    FROM changed
), {TOLD}"""

GROW: LiteralString = f"""
WITH {CHANGED}, {ADDED}, {PROMOTED}, counted AS (
    SELECT c.rows AS changed, a.rows AS added, c.growth + a.growth AS growth
    FROM (SELECT count(*)::int4 AS rows, coalesce(sum(growth), 0)::int8 AS growth
          FROM changed) AS c,
         (SELECT count(*)::int4 AS rows, coalesce(sum(growth), 0)::int8 AS growth
          FROM added) AS a
), {TOLD}"""


@dataclass(frozen=True, slots=True)
class Topology:
    """The manifest readers will use, and how many nodes it retains."""

    manifest_id: int | None
    node_count: int


@translated
def publish(
    conn: Connection,
    identity: RunIdentity,
    run_pk: int,
    writer_epoch: int,
    publication: Publication,
) -> Outcome:
    """Make `publication` visible in full, or change nothing.

    Opens the one transaction. Raises IntegrityFault when the publication or what is
    stored contradicts itself: a candidate, a node's key, a total, a cap.
    """
    said = summaries.require_coherent(identity, publication)
    nodes.require_columns(publication.rows)
    candidate, rows = publication.candidate, publication.rows
    spans: promote.Spans | None = {}
    if candidate is not None:
        spans = promote.read_bodies(conn, run_pk, candidate.manifest)
    with conn.transaction():
        if not fence.hold(conn, identity):
            return Fenced("task")
        run = fence.hold_run(conn, identity, run_pk, nodes.first_fresh_ordinal(rows))
        if run is None or run.writer_epoch != writer_epoch:
            return Fenced("writer_epoch")
        if run.revisions != publication.base:
            return Moved(run.revisions)
        topology = Topology(run.manifest_id, run.node_count)
        if candidate is not None:
            manifest = candidate.manifest
            manifest_id = promote.lock_candidate(conn, run_pk, manifest, spans)
            topology = Topology(manifest_id, manifest.node_count)
        if said.manifest_id != topology.manifest_id:
            raise _corrupt("The summary points at another manifest.")
        published = _write(conn, identity, run_pk, publication, run, topology)
        if published.rows > topology.node_count:
            # A row waits for the topology that names its node. Contract 4.8.
            raise _corrupt("There are more detail rows than nodes.")
    return published


def _write(
    conn: Connection,
    identity: RunIdentity,
    run_pk: int,
    publication: Publication,
    run: HeldRun,
    topology: Topology,
) -> Published:
    rows, candidate = publication.rows, publication.candidate
    copied = 0 if run.has_rows_from or rows.fresh < nodes.COPY_FROM else rows.fresh
    bound = len(rows.ordinals) - copied
    copied_bytes = 0
    if copied:
        copied_bytes = nodes.copy(conn, run_pk, publication.after.detail, rows)
    fields: dict[str, columns.Value] = {
        **fence.parameters(identity),
        **summaries.spoken(publication),
        **nodes.bind(rows, bound),
        "run": run_pk,
        "detail": publication.after.detail,
        "topology": publication.after.topology,
        "copied_rows": copied,
        "copied_bytes": copied_bytes,
        "stages_body": publication.stages,
    }
    statement = WRITE
    if candidate is not None or rows.fresh:
        statement = GROW
        digests = candidate.manifest.digests if candidate is not None else ()
        fields |= nodes.bind_fresh(rows, bound)
        fields |= {
            "manifest": topology.manifest_id if candidate is not None else None,
            "digests": columns.blobs(digests),
        }
    row = columns.execute(conn, statement, fields).fetchone()
    if row is None or row[2] != bound:
        # A row that was confirmed is gone, or an ordinal is another node's.
        raise _corrupt("Stored detail rows are not those of the publication.")
    return Published(rows=row[0], bytes=row[1])


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
