"""The terminal summary of an execution: the producer's own, or one derived from its last.

Called under the task-row lock. A producer that ended the run as the row does wrote the
summary that stays; in every other case the last accepted one is carried to its end.
Contract 4.8, 4.12.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from django_ray.conf import Options
from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.protocol import summary as summaries
from django_ray.protocol.frames import MAXIMUM_MILLISECONDS
from django_ray.protocol.summary import Detail, NodeCounts, Summary
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionStrategy,
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

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

TIMES = (_EPOCH, _EPOCH + MAXIMUM_MILLISECONDS * _MILLISECOND)
"""The first and the last time that a summary can tell."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the run's row says of itself, whatever became of the summary beside it."""

    revision: int
    retention_days: int
    expires_at_ms: int | None


def close(
    stored: bytes | None,
    identity: RunIdentity,
    *,
    standing: Standing | None,
    options: Options,
    plan_fingerprint: str,
    started_at: datetime | None,
    outcome: WorkflowState,
    reason: str,
    now: datetime,
) -> Summary:
    """Return the terminal summary that belongs into the row.

    From the `stored` one, or, where that does not parse or is another run's, from a blank
    one under the run's own revision and retention; one that says this end already is
    returned as it is. A derived expiry is never before the one that stands; `standing` is
    None for a run never begun.
    """
    at_ms = milliseconds(now)
    last, fault = _last(stored, identity)
    if last is not None and _has_ended_as(last, outcome):
        return last
    if last is None:
        begun_ms = at_ms if started_at is None else milliseconds(started_at)
        last = _blank(identity, options, plan_fingerprint, begun_ms, standing, fault)
    return summaries.derive(_over(last, standing), outcome, at_ms, reason)


def milliseconds(at: datetime) -> int:
    """Return a time as the wire and the summary have it."""
    return (at - _EPOCH) // _MILLISECOND


def moment(at_ms: int) -> datetime:
    """Return a time of the summary as the rows have it."""
    return _EPOCH + at_ms * _MILLISECOND


def _last(
    stored: bytes | None, identity: RunIdentity
) -> tuple[Summary | None, DetailAvailability]:
    """Return the run's last summary, or None and what its absence is called."""
    if stored is None:
        return None, DetailAvailability.MISSING
    try:
        last = summaries.decode(stored)
    except IntegrityFault:
        return None, DetailAvailability.CORRUPT
    if not summaries.is_of(last, identity):
        return None, DetailAvailability.MISSING
    return last, last.detail.availability


def _has_ended_as(last: Summary, outcome: WorkflowState) -> bool:
    end = last.terminal
    return (
        end is not None
        and last.state is end.outcome is outcome
        and last.ended_at_ms is not None
        and last.expires_at_ms is not None
    )


def _over(last: Summary, standing: Standing | None) -> Summary:
    """Return the last summary with no revision and no expiry before the run row's own."""
    if standing is None:
        return last
    expires = max(last.expires_at_ms or 0, standing.expires_at_ms or 0)
    return msgspec.structs.replace(
        last,
        expires_at_ms=expires or None,
        revision=max(last.revision, standing.revision),
    )


def _blank(
    identity: RunIdentity,
    options: Options,
    plan_fingerprint: str,
    started_ms: int,
    standing: Standing | None,
    fault: DetailAvailability,
) -> Summary:
    """Return the last summary of a run of which there is none: no node, no pointer.

    A run that had published has lost it, and says so; one that had not has no fault.
    """
    availability = UNREPORTED[options.policy]
    if standing is None:
        standing = Standing(0, options.retention_days, None)
    elif standing.revision and options.policy is ReportingPolicy.full:
        availability = fault
    return Summary(
        changed_at_ms=started_ms,
        declared_nodes=0,
        detail=Detail(availability=availability, complete=False, reasons=()),
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
        retention_days=standing.retention_days,
        revision=standing.revision,
        run=summaries.run_of(identity),
        schema=summaries.SCHEMA,
        session=None,
        started_at_ms=started_ms,
        state=WorkflowState.RUNNING,
        storage="database",
        storage_protocol=summaries.STORAGE_PROTOCOL,
        strategy=ExecutionStrategy.dynamic,
        terminal=None,
        topology_version=None,
    )
