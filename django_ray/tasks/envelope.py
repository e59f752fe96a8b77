"""The terminal summary of an execution: the producer's own, or one derived from its last.

Called under the task-row lock. A producer that ended the run as the row does wrote the
summary that stays; in every other case the last accepted one is carried to its end.
Contract 4.8, 4.12.
"""

from datetime import datetime

from django_ray.conf import Options
from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.protocol import summary as summaries
from django_ray.protocol.summary import Detail, NodeCounts, Summary
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ReportingPolicy,
    WorkflowState,
)

UNREPORTED = {
    ReportingPolicy.full: DetailAvailability.NOT_REPORTED,
    ReportingPolicy.summary: DetailAvailability.OMITTED_BY_POLICY,
    ReportingPolicy.terminal_only: DetailAvailability.OMITTED_BY_POLICY,
    ReportingPolicy.disabled: DetailAvailability.DISABLED,
}
"""What is said of the detail of a run of which nothing was published."""


def close(
    stored: bytes | None,
    identity: RunIdentity,
    *,
    options: Options,
    plan_fingerprint: str,
    started_at: datetime | None,
    outcome: WorkflowState,
    reason: str,
    now: datetime,
) -> Summary:
    """Return the terminal summary that belongs into the row, from the `stored` one.

    A stored summary that does not parse, or is another run's, counts as none.
    """
    at_ms = milliseconds(now)
    last = _last(stored, identity)
    if last is None:
        last = _blank(
            identity,
            options,
            plan_fingerprint,
            at_ms if started_at is None else milliseconds(started_at),
        )
    if last.state is outcome and last.terminal is not None:
        return last
    return summaries.derive(last, outcome, at_ms, reason)


def milliseconds(at: datetime) -> int:
    """Return a time as the wire and the summary have it."""
    return int(at.timestamp() * 1_000)


def _last(stored: bytes | None, identity: RunIdentity) -> Summary | None:
    if stored is None:
        return None
    try:
        last = summaries.decode(bytes(stored))
    except IntegrityFault:
        return None
    return last if summaries.is_of(last, identity) else None


def _blank(
    identity: RunIdentity, options: Options, plan_fingerprint: str, started_ms: int
) -> Summary:
    """Return the summary of a run that never published: no node, revision 0."""
    return Summary(
        changed_at_ms=started_ms,
        declared_nodes=0,
        detail=Detail(
            availability=UNREPORTED[options.policy], complete=False, reasons=()
        ),
        detail_revision=None,
        discovered_edges=0,
        discovered_nodes=0,
        ended_at_ms=None,
        ended_by_minute=(),
        expires_at_ms=None,
        hosts=0,
        limits_profile=options.profile.name,
        manifest_id=None,
        node_counts=NodeCounts(),
        observed_at_ms=started_ms,
        percent=0,
        plan_fingerprint=plan_fingerprint,
        policy=options.policy,
        retained_edges=0,
        retained_nodes=0,
        retention_days=options.retention_days,
        revision=0,
        run=summaries.run_of(identity),
        schema=summaries.SCHEMA,
        session=None,
        started_at_ms=started_ms,
        state=WorkflowState.RUNNING,
        storage="database",
        storage_protocol=summaries.STORAGE_PROTOCOL,
        strategy=options.strategy,
        terminal=None,
        topology_version=None,
    )
