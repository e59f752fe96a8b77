"""The public form of a reading: the body of the JSON summary.

Canonical JSON, fields sorted. It holds no internal key, no manifest, no storage detail.
Without a summary the run's own fields are null: a count nobody reported is not 0, except
where nothing can have been discovered yet.
"""

import datetime as dt
import uuid
from typing import Literal

import msgspec

from django_ray.protocol.summary import Detail, NodeCounts, Part, Summary, Terminal
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ExecutionStrategy,
    ReportingPolicy,
    WorkflowState,
)
from django_ray.readers import archive, context
from django_ray.readers import summary as reader
from django_ray.readers.access import Viewer
from django_ray.readers.picture import (
    Execution,
    Legacy,
    LegacyState,
    Oversized,
    Reading,
)
from django_ray.readers.run import Query


class PublicExecution(Part, frozen=True):
    """The durable task as its owner knows it."""

    attempt: int
    cancel_requested_at: dt.datetime | None
    claimed_at: dt.datetime | None
    enqueued_at: dt.datetime
    finished_at: dt.datetime | None
    id: uuid.UUID
    queue: str
    run_id: uuid.UUID | None
    started_at: dt.datetime | None
    state: ExecutionState
    task: str


class Body(Part, frozen=True, kw_only=True):
    """One execution with the summary of its current run."""

    changed_at_ms: int | None = None
    declared_nodes: int | None = None
    detail: Detail
    detail_revision: int | None = None
    discovered_edges: int | None = None
    discovered_nodes: int | None = None
    ended_at_ms: int | None = None
    ended_by_minute: tuple[int, ...] | None = None
    execution: PublicExecution
    expires_at_ms: int | None = None
    hosts: int | None = None
    limits_profile: str | None = None
    node_counts: NodeCounts | None = None
    observed_at_ms: int | None = None
    percent: int | None = None
    plan_fingerprint: str | None = None
    policy: ReportingPolicy | None = None
    retained_edges: int | None = None
    retained_nodes: int | None = None
    retention_days: int | None = None
    revision: int | None = None
    route: str
    schema: Literal[3] = 3
    session: msgspec.Raw | None = None
    started_at_ms: int | None = None
    state: WorkflowState | None = None
    strategy: ExecutionStrategy | None = None
    terminal: Terminal | None = None
    topology_version: int | None = None


class LegacyBody(Part, frozen=True, kw_only=True):
    """One execution with what an older writer's snapshot of its run adds up to.

    `schema` says whose figures these are; the counts need not add up. Of a snapshot that
    is too large to be read there is nothing but the diagnostic.
    """

    detail: Detail
    diagnostic: Literal["legacy_snapshot_oversized"] | None = None
    discovered_edges: int | None = None
    discovered_nodes: int | None = None
    execution: PublicExecution
    node_counts: NodeCounts | None = None
    observed_at_ms: int | None = None
    percent: int | None = None
    policy: ReportingPolicy | None = None
    revision: int | None = None
    schema: Literal[1, 2] | None = None
    state: LegacyState | None = None


class SummaryQuery(Query, frozen=True, kw_only=True):
    """Which attempt's summary; `legacy` also reads what an older writer left.

    Such a snapshot may be of 64 MiB: it is not for polling. ADR-0004.
    """

    legacy: bool = False


def summary(
    public_id: uuid.UUID, viewer: Viewer, query: SummaryQuery
) -> Body | LegacyBody | None:
    """Return the summary of the current run, or of an attempt; None: not there, not his.

    One statement, in no transaction; an earlier attempt takes one more, in a snapshot, and
    so does an older writer's snapshot.
    """
    if query.attempt is None:
        read = reader.read if query.legacy else reader.authorized
        found = read(public_id, viewer)
        return None if found is None else body(found)
    with context.snapshot():
        found = reader.authorized(public_id, viewer)
        if found is not None:
            found = archive.find(found, query.attempt)
    return None if found is None else body(found)


def body(reading: Reading) -> Body | LegacyBody:
    """Return the reading without anything internal."""
    if reading.summary is None and reading.legacy is not None:
        return _legacy(reading, reading.legacy)
    return current(reading)


def current(reading: Reading) -> Body:
    """Return the body of a reading whatever an older writer left."""
    if reading.summary is not None:
        return _reported(reading.execution, reading.summary)
    corrupt = reading.availability is DetailAvailability.CORRUPT
    return Body(
        detail=Detail(availability=reading.availability, complete=False, reasons=()),
        discovered_nodes=None if corrupt else 0,
        execution=execution_of(reading.execution),
        node_counts=None if corrupt else NodeCounts(),
        policy=reading.execution.policy,
        route=_route(reading.execution),
    )


def _reported(execution: Execution, summary: Summary) -> Body:
    return Body(
        changed_at_ms=summary.changed_at_ms,
        declared_nodes=summary.declared_nodes,
        detail=summary.detail,
        detail_revision=summary.detail_revision,
        discovered_edges=summary.discovered_edges,
        discovered_nodes=summary.discovered_nodes,
        ended_at_ms=summary.ended_at_ms,
        ended_by_minute=summary.ended_by_minute,
        execution=execution_of(execution),
        expires_at_ms=summary.expires_at_ms,
        hosts=summary.hosts,
        limits_profile=summary.limits_profile,
        node_counts=summary.node_counts,
        observed_at_ms=summary.observed_at_ms,
        percent=summary.percent,
        plan_fingerprint=summary.plan_fingerprint,
        policy=summary.policy,
        retained_edges=summary.retained_edges,
        retained_nodes=summary.retained_nodes,
        retention_days=summary.retention_days,
        revision=summary.revision,
        route=_route(execution),
        session=summary.session,
        started_at_ms=summary.started_at_ms,
        state=summary.state,
        strategy=summary.strategy,
        terminal=summary.terminal,
        topology_version=summary.topology_version,
    )


def _legacy(reading: Reading, found: Legacy | Oversized) -> LegacyBody:
    bare = LegacyBody(
        detail=Detail(availability=reading.availability, complete=False, reasons=()),
        execution=execution_of(reading.execution),
        policy=reading.execution.policy,
    )
    if isinstance(found, Oversized):
        return msgspec.structs.replace(bare, diagnostic="legacy_snapshot_oversized")
    return msgspec.structs.replace(
        bare,
        discovered_edges=found.edges,
        discovered_nodes=found.nodes,
        node_counts=NodeCounts(
            failed=found.failed,
            pending=found.pending,
            running=found.running,
            succeeded=found.succeeded,
        ),
        observed_at_ms=found.observed_at_ms,
        percent=found.percent,
        revision=found.revision,
        schema=found.schema,
        state=found.state,
    )


def _route(execution: Execution) -> str:
    """Name where the run's other services are, from where the services are mounted."""
    return f"runs/{execution.public_id}/"


def execution_of(execution: Execution) -> PublicExecution:
    """Return the row without anything internal."""
    return PublicExecution(
        attempt=execution.attempt_number,
        cancel_requested_at=execution.cancel_requested_at,
        claimed_at=execution.claimed_at,
        enqueued_at=execution.enqueued_at,
        finished_at=execution.finished_at,
        id=execution.public_id,
        queue=execution.queue_name,
        run_id=execution.run_id,
        started_at=execution.started_at,
        state=execution.state,
        task=execution.task_path,
    )
