"""Summaries: what one must say to be published, and the writer of a summary alone."""

from typing import LiteralString

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.progress.delta import Fenced, Moved, Outcome, Publication, Published
from django_ray.protocol import summary
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import DetailAvailability, WorkflowState
from django_ray.storage import columns, fence, nodes
from django_ray.storage.pool import Connection, translated

RUN_SAYS: LiteralString = """summary_revision = %(summary_revision)s::int8,
        events = coalesce(%(events)s::bytea, r.events),
        session = coalesce(%(session)s::bytea, r.session),
        bequest = coalesce(%(bequest)s::bytea, r.bequest),
        expires_at = coalesce(
            to_timestamp(%(expires_at_ms)s::int8 / 1000.0), r.expires_at
        )"""
"""What every publication sets in the run row `r`."""

TASK_SAYS: LiteralString = f"""task AS (
    UPDATE django_ray_execution AS e
    SET progress_summary = %(summary)s::bytea
    WHERE {fence.OURS}
    RETURNING pg_notify(
        'django_ray', e.public_id::text || ' ' || %(summary_revision)s::int8
    )
)"""
"""What it sets in the task row, and the notification of it; both take `spoken`."""

WRITE_SUMMARY: LiteralString = f"""
WITH run AS (
    UPDATE django_ray_run AS r
    SET {RUN_SAYS}
    WHERE r.id = %(run)s::int8
    RETURNING r.detail_rows, r.detail_bytes
), {TASK_SAYS}
SELECT run.detail_rows, run.detail_bytes FROM run, task
"""


@translated
def publish_summary(
    conn: Connection,
    identity: RunIdentity,
    run_pk: int,
    writer_epoch: int,
    publication: Publication,
) -> Outcome:
    """Make the summary of `publication` visible under the same fence, or change nothing.

    For policies that keep no detail. Opens the one transaction. Refuses with
    IntegrityFault what would attach storage to the run: rows, a candidate, a stage row, a
    revision of detail, a pointer in the summary.
    """
    _require_alone(require_coherent(identity, publication), publication)
    with conn.transaction():
        if not fence.hold(conn, identity):
            return Fenced("task")
        run = fence.hold_run(conn, identity, run_pk, nodes.NOWHERE)
        if run is None or run.writer_epoch != writer_epoch:
            return Fenced("writer_epoch")
        if run.revisions != publication.base:
            return Moved(run.revisions)
        row = columns.execute(
            conn,
            WRITE_SUMMARY,
            {
                **fence.parameters(identity),
                **spoken(publication),
                "run": run_pk,
            },
        ).fetchone()
        if row is None:
            raise _corrupt("A locked row is not there.")
    return Published(rows=row[0], bytes=row[1])


def spoken(publication: Publication) -> dict[str, columns.Value]:
    """Return what a publication sets in the run row and the task row."""
    return {
        "summary_revision": publication.after.summary,
        "summary": publication.summary,
        "events": publication.events,
        "session": publication.session,
        "bequest": publication.bequest,
        "expires_at_ms": publication.expires_at_ms,
    }


def require_coherent(identity: RunIdentity, publication: Publication) -> Summary:
    """Return the parsed summary, of one piece with the revisions and the rows.

    Raise IntegrityFault otherwise, so that no reader ever finds the rows of one
    publication under the revision of another.
    """
    base, after = publication.base, publication.after
    said = summary.decode(publication.summary)
    revisions = (said.revision, said.detail_revision or 0, said.topology_version or 0)
    if not summary.is_of(said, identity):
        raise _corrupt("The summary is another run's.")
    if revisions != (after.summary, after.detail, after.topology):
        raise _corrupt("The summary names other revisions than its publication.")
    if not base.summary < after.summary < summary.FINAL_REVISION:
        raise _corrupt("The summary's revision does not rise, or is the lifecycle's.")
    if after.detail < base.detail + bool(publication.rows.ordinals):
        raise _corrupt("Detail rows change without their revision.")
    version = base.topology
    if publication.candidate is not None:
        version = publication.candidate.manifest.version
        if version <= base.topology:
            raise _corrupt("A candidate's version does not rise.")
    if after.topology != version:
        raise _corrupt("The topology changes without a candidate.")
    _require_end(said, publication)
    return said


def _require_end(said: Summary, publication: Publication) -> None:
    """Refuse an end that is half said, or the lifecycle's: no envelope may rest on it."""
    end = said.terminal
    if end is None:
        if said.state is not WorkflowState.RUNNING:
            raise _corrupt("The summary ends without saying how.")
        ends = (said.ended_at_ms, said.expires_at_ms, publication.expires_at_ms)
        if any(each is not None for each in ends):
            raise _corrupt("The summary of a run that goes on has an end or an expiry.")
        return
    if end.derived or end.outcome is not said.state or said.ended_at_ms is None:
        raise _corrupt("The summary's end contradicts itself, or is the lifecycle's.")
    expires = said.expires_at_ms
    if expires is None or expires != publication.expires_at_ms:
        raise _corrupt("The summary's expiry is not its publication's.")


def _require_alone(said: Summary, publication: Publication) -> None:
    after = publication.after
    if (
        publication.rows.ordinals
        or publication.candidate is not None
        or publication.stages is not None
        or after.detail
        or after.topology
        or said.manifest_id is not None
    ):
        raise _corrupt("A publication of a summary alone carries detail.")
    if said.detail.availability is not DetailAvailability.OMITTED_BY_POLICY or (
        said.retained_nodes or said.retained_edges
    ):
        raise _corrupt("A summary alone speaks of detail that it cannot have.")


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
