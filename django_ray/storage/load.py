"""What a collector starts or resumes from: the run row, under a new writer epoch."""

from dataclasses import dataclass
from typing import LiteralString

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.progress.delta import Fenced, Revisions
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.storage import fence
from django_ray.storage.pool import Connection, translated

INSERT_RUN: LiteralString = """
INSERT INTO django_ray_run (
    execution_id, attempt_number, execution_generation, run_id, writer_epoch,
    summary_revision, detail_revision, topology_version, detail_rows, detail_bytes,
    retention_days, created_at
)
VALUES (
    %(task)s::int8, %(attempt)s::int8, %(generation)s::int8, %(run_id)s::uuid, 0,
    0, 0, 0, 0, 0, %(retention_days)s::int2, now()
)
ON CONFLICT DO NOTHING
"""

RAISE_EPOCH: LiteralString = """
UPDATE django_ray_run AS r
SET writer_epoch = r.writer_epoch + 1
WHERE r.execution_id = %(task)s::int8
  AND r.attempt_number = %(attempt)s::int8
  AND r.execution_generation = %(generation)s::int8
  AND r.run_id = %(run_id)s::uuid
RETURNING r.id, r.writer_epoch, r.summary_revision, r.detail_revision,
    r.topology_version, r.detail_rows, r.detail_bytes,
    (SELECT m.id FROM django_ray_manifest AS m
     WHERE m.run_id = r.id AND m.topology_version = r.topology_version AND m.published)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The run row as this writer found it; `writer_epoch` is its own."""

    run_pk: int
    writer_epoch: int
    revisions: Revisions
    rows: int
    bytes: int
    manifest_id: int | None


@translated
def begin(
    conn: Connection, identity: RunIdentity, retention_days: int
) -> Begun | Fenced:
    """Open the run for a new writer, in one transaction; nothing else is written.

    From its commit on, every writer with an older epoch is refused. Contract 4.6.
    """
    with conn.transaction():
        if not fence.hold(conn, identity):
            return Fenced("task")
        fields = fence.parameters(identity)
        conn.execute(INSERT_RUN, {**fields, "retention_days": retention_days})
        row = conn.execute(RAISE_EPOCH, fields).fetchone()
        if row is None:
            raise IntegrityFault(
                "Another run has this run's identity.", DetailAvailability.CORRUPT
            )
    run_pk, epoch, summary, detail, topology, rows, size, manifest_id = row
    return Begun(
        run_pk=run_pk,
        writer_epoch=epoch,
        revisions=Revisions(summary=summary, detail=detail, topology=topology),
        rows=rows,
        bytes=size,
        manifest_id=manifest_id,
    )
