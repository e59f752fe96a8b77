"""The fence: locks the task row if this run still owns it.

The one lock order of the package: **task row, run row, manifests, touched detail rows.**
Each lock is a statement of its own, before the statement that writes: under READ COMMITTED
that one then sees everything committed before the locks were granted. Locks taken inside
the writing statement leave it with a snapshot older than its locks, and wrong totals.

No key of a locked row ever changes, so the locks leave keys free: they exclude each other,
every update, deletion and `FOR UPDATE`, but not the foreign-key checks of a writer that
stages pages meanwhile, which would otherwise be a lock out of order.
"""

from dataclasses import dataclass
from typing import LiteralString

from django_ray.identity import RunIdentity
from django_ray.progress.delta import Revisions
from django_ray.storage.pool import Connection

OURS: LiteralString = """e.id = %(task)s::int8
  AND e.state = 'RUNNING'
  AND e.attempt_number = %(attempt)s::int8
  AND e.execution_generation = %(generation)s::int8
  AND e.run_id = %(run_id)s::uuid"""
"""What the task row `e` says while it is the run's: the fence in every statement."""

HOLD: LiteralString = f"""
SELECT true
FROM django_ray_execution AS e
WHERE {OURS}
FOR NO KEY UPDATE
"""

LOCK_RUN: LiteralString = """
SELECT r.writer_epoch, r.summary_revision, r.detail_revision, r.topology_version,
    m.id, coalesce(m.node_count, 0),
    EXISTS (SELECT 1 FROM django_ray_node_detail AS d
            WHERE d.run_id = r.id AND d.ordinal >= %(from_ordinal)s::int4)
FROM django_ray_run AS r
LEFT JOIN django_ray_manifest AS m
  ON m.run_id = r.id AND m.topology_version = r.topology_version AND m.published
WHERE r.id = %(run)s::int8
  AND r.execution_id = %(task)s::int8
  AND r.run_id = %(run_id)s::uuid
FOR NO KEY UPDATE OF r
"""

type Parameters = dict[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """The locked run row as it is under the lock, and its published topology."""

    writer_epoch: int
    revisions: Revisions
    manifest_id: int | None
    node_count: int
    has_rows_from: bool


def hold(conn: Connection, identity: RunIdentity) -> bool:
    """Lock the task row if it is this run's; False, with nothing locked, when it is not.

    A row that another transaction is changing is waited for and then compared as it was
    committed. Always the first statement of a publication's transaction.
    """
    row = conn.execute(HOLD, parameters(identity), binary=True).fetchone()
    return row is not None


def hold_run(
    conn: Connection, identity: RunIdentity, run_pk: int, from_ordinal: int
) -> HeldRun | None:
    """Lock the run row after `hold`; say whether detail from an ordinal on exists.

    What is joined is as true as the row: whoever writes it holds the task row too, so
    nothing changes between this statement's snapshot and its lock.
    """
    row = conn.execute(
        LOCK_RUN,
        {**parameters(identity), "run": run_pk, "from_ordinal": from_ordinal},
        binary=True,
    ).fetchone()
    if row is None:
        return None
    epoch, summary, detail, topology, manifest_id, node_count, has_rows_from = row
    return HeldRun(
        writer_epoch=epoch,
        revisions=Revisions(summary=summary, detail=detail, topology=topology),
        manifest_id=manifest_id,
        node_count=node_count,
        has_rows_from=has_rows_from,
    )


def parameters(identity: RunIdentity) -> Parameters:
    """Return the four fields by the names the statements use."""
    return {
        "task": identity.task_execution_pk,
        "attempt": identity.attempt_number,
        "generation": identity.execution_generation,
        "run_id": identity.run_id,
    }
