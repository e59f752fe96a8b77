"""One consistent, read-only snapshot for all the statements of one answer.

So no answer holds rows of one publication under the revision of another. Contract 5.
`select` is where detail begins: the summary's references are followed once, and what they
name must be this run's, of these epochs and counts. There is no older revision to fall
back to: what disagrees is MISSING or CORRUPT.
"""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

from django.db import Error, connection, transaction

from django_ray import conf
from django_ray.away import is_away
from django_ray.errors import IntegrityFault, StorageUnavailable
from django_ray.models.progress import TopologyManifest, WorkflowRun
from django_ray.progress.pages import DIGEST_BYTES, Manifest, check_manifest
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import Run, Summary
from django_ray.protocol.vocabulary import DetailAvailability

DIGESTS_BYTES = DIGEST_BYTES * (V1.retained_nodes + V1.retained_edges)
"""The longest list of page digests that any manifest may hold."""

MANIFEST: LiteralString = """
SELECT r.id, r.execution_id, r.attempt_number, r.execution_generation, r.run_id,
    r.summary_revision, r.detail_revision, r.topology_version, r.detail_rows,
    r.detail_bytes, m.topology_version, m.published, m.node_count, m.edge_count,
    m.page_count, m.encoded_bytes, m.decoded_bytes, m.digest,
    CASE WHEN octet_length(m.page_digests) <= %(most)s THEN m.page_digests END
FROM django_ray_manifest AS m
JOIN django_ray_run AS r ON r.id = m.run_id
WHERE m.id = %(manifest)s
"""
RUN_COLUMNS = (
    "id",
    "execution_id",
    "attempt_number",
    "execution_generation",
    "run_id",
    "summary_revision",
    "detail_revision",
    "topology_version",
    "detail_rows",
    "detail_bytes",
)
MANIFEST_COLUMNS = (
    "topology_version",
    "published",
    "node_count",
    "edge_count",
    "page_count",
    "encoded_bytes",
    "decoded_bytes",
    "digest",
)
"""Beside bounded numbers one digest; no time, since one out of range cannot be loaded."""


type Fetched = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The run row and the published topology that a summary references."""

    run_pk: int
    detail_revision: int
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Expired:
    """The detail was removed by the retention that the summary records."""


@contextmanager
def snapshot() -> Iterator[None]:
    """Open the outermost transaction, frozen at its first statement.

    No statement in it lasts longer than READ_SECONDS: then PostgreSQL did not answer.
    """
    limit_ms = 1_000 * conf.current().read_seconds
    with answering(), transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute(
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
                f"SET LOCAL statement_timeout = {limit_ms:d}"
            )
        yield


@contextmanager
def answering() -> Iterator[None]:
    """Raise StorageUnavailable where PostgreSQL does not answer."""
    try:
        yield
    except Error as exc:
        if not is_away(exc):
            raise
        # A broken connection stays so until it is closed; the next read gets a new one.
        if not connection.in_atomic_block:
            connection.close()
        raise StorageUnavailable from exc


def fetch(statement: LiteralString, values: dict[str, Any]) -> list[Fetched]:
    """Return the rows of a reader's own statement.

    The few statements that every answer needs are written out: to have them composed by
    the ORM each time costs several times what PostgreSQL needs to answer them.
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[Fetched] = cursor.fetchall()
    return rows


def select(summary: Summary, read_at: dt.datetime) -> Selected | Expired:
    """Return what the summary's detail is read from, in one statement.

    Raise IntegrityFault: MISSING when the manifest or its run is not there, CORRUPT when
    they are another run's, of other epochs or counts, or contradict themselves.
    """
    found = fetch(MANIFEST, {"manifest": summary.manifest_id, "most": DIGESTS_BYTES})
    if not found:
        if _is_past(summary.expires_at_ms, read_at):
            return Expired()
        raise IntegrityFault(
            "The detail that a summary references is not there.",
            DetailAvailability.MISSING,
        )
    *values, digests = found[0]
    if digests is None:
        raise _corrupt("A manifest is oversized.")
    run_values, values = values[: len(RUN_COLUMNS)], values[len(RUN_COLUMNS) :]
    run = WorkflowRun(**dict(zip(RUN_COLUMNS, run_values, strict=True)))
    row = TopologyManifest(**dict(zip(MANIFEST_COLUMNS, values, strict=True)))
    manifest = manifest_of(row, bytes(digests))
    _require_agreement(summary, run, row, manifest)
    check_manifest(manifest)
    return Selected(
        run_pk=run.pk, detail_revision=run.detail_revision, manifest=manifest
    )


def manifest_of(row: TopologyManifest, digests: bytes) -> Manifest:
    """Return a manifest row and its joined digests as the value that is checked."""
    return Manifest(
        version=row.topology_version,
        node_count=row.node_count,
        edge_count=row.edge_count,
        encoded_bytes=row.encoded_bytes,
        decoded_bytes=row.decoded_bytes,
        digests=tuple(
            digests[at : at + DIGEST_BYTES]
            for at in range(0, len(digests), DIGEST_BYTES)
        ),
        digest=bytes(row.digest),
    )


def run_of(row: WorkflowRun) -> Run:
    """Return the identity a run row holds, as summaries spell it."""
    return Run(
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=str(row.run_id),
        task_execution_pk=row.execution_id,
    )


def _require_agreement(
    summary: Summary, run: WorkflowRun, row: TopologyManifest, manifest: Manifest
) -> None:
    if run_of(run) != summary.run:
        raise _corrupt("A summary's manifest is another run's.")
    version = summary.topology_version
    if not row.published or {row.topology_version, run.topology_version} != {version}:
        raise _corrupt("A summary's topology is not the published one.")
    if run.detail_revision != summary.detail_revision:
        raise _corrupt("A summary's detail revision is not the run's.")
    # The lifecycle's derivation is ahead of what the producer last published.
    derived = summary.terminal is not None and summary.terminal.derived
    ahead = summary.revision - run.summary_revision
    if ahead < derived or (ahead and not derived):
        raise _corrupt("A summary's revision is not the run's.")
    counts = (manifest.node_count, manifest.edge_count, run.detail_rows)
    if counts != (
        summary.retained_nodes,
        summary.retained_edges,
        summary.retained_nodes,
    ):
        raise _corrupt("A summary's retained counts are not those of its detail.")
    if not 0 <= run.detail_bytes <= V1.detail_encoded:
        raise _corrupt("A run's detail is out of bounds.")
    if row.page_count != len(manifest.digests):
        raise _corrupt("A manifest's number of pages is not that of its digests.")


def _is_past(expires_at_ms: int | None, read_at: dt.datetime) -> bool:
    return expires_at_ms is not None and expires_at_ms <= read_at.timestamp() * 1_000


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
