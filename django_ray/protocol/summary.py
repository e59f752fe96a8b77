"""Summary schema 3: the one bounded task-row value, its codec and terminal derivation.

Canonical JSON of at most 16 KiB, fields sorted, every one of fixed shape or bounded. The
stored form carries the internal task key and manifest id; `readers/public.py` leaves
them out.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from django_ray.errors import IntegrityFault, LimitExceeded, ProtocolError
from django_ray.identity import MAXIMUM_63, RunIdentity
from django_ray.protocol import canonical, text, values
from django_ray.protocol.frames import MAXIMUM_MILLISECONDS, Milliseconds, Number
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import (
    RETAINED,
    DetailAvailability,
    ExecutionStrategy,
    NodeState,
    ReportingPolicy,
    TruncationReason,
    WorkflowState,
)

SCHEMA: Final = 3
STORAGE_PROTOCOL: Final = 1
FINAL_REVISION = MAXIMUM_63
"""Reserved for the lifecycle: a producer's revisions end at 2⁶³-2. Contract 4.8."""

DAY_MS = 86_400_000

WORD = 64
"""The longest profile name, plan fingerprint or terminal reason, in characters."""

MINUTES = 10
"""How many minutes of endings are carried. Contract 4.9."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy of the summary's structs: frozen, no unknown fields, all written."""


class Detail(Part, frozen=True):
    """What may be said of the detail, and every reason it is a subset."""

    availability: DetailAvailability
    complete: bool
    reasons: tuple[TruncationReason, ...]


class NodeCounts(Part, frozen=True, rename="upper"):
    """The seven counts; they add up to the discovered nodes."""

    cancelled: Number = 0
    failed: Number = 0
    pending: Number = 0
    running: Number = 0
    skipped: Number = 0
    submitted: Number = 0
    succeeded: Number = 0

    def of(self, state: NodeState) -> int:
        """Return the count of one state."""
        count: int = getattr(self, state.lower())
        return count

    @property
    def ended(self) -> int:
        """Count the nodes that have ended, however."""
        return self.succeeded + self.failed + self.cancelled + self.skipped

    @property
    def total(self) -> int:
        """Count the discovered nodes."""
        return self.ended + self.pending + self.running + self.submitted


class Run(Part, frozen=True):
    """The four-field identity as stored."""

    attempt_number: int
    execution_generation: int
    run_id: str
    task_execution_pk: int


class Terminal(Part, frozen=True):
    """How the run ended: bounded, without error text. `derived` by the lifecycle."""

    derived: bool
    outcome: WorkflowState
    reason: Annotated[str, Meta(max_length=WORD)]


class Summary(Part, frozen=True):
    """Everything a poll needs: counters stay true whatever happened to the detail."""

    changed_at_ms: Milliseconds
    declared_nodes: Number
    detail: Detail
    detail_revision: Number | None
    discovered_edges: Number
    discovered_nodes: Number
    ended_at_ms: Milliseconds | None
    ended_by_minute: Annotated[tuple[Number, ...], Meta(max_length=MINUTES)]
    expires_at_ms: Milliseconds | None
    hosts: Number
    limits_profile: Annotated[str, Meta(max_length=WORD)]
    manifest_id: Number | None
    node_counts: NodeCounts
    observed_at_ms: Milliseconds
    percent: Annotated[int, Meta(ge=0, le=100)]
    plan_fingerprint: Annotated[str, Meta(max_length=WORD)]
    policy: ReportingPolicy
    retained_edges: Annotated[int, Meta(ge=0, le=V1.retained_edges)]
    retained_nodes: Annotated[int, Meta(ge=0, le=V1.retained_nodes)]
    retention_days: Annotated[int, Meta(ge=0, le=V1.retention_days)]
    revision: Number
    run: Run
    schema: Literal[3]
    session: msgspec.Raw | None
    started_at_ms: Milliseconds
    state: WorkflowState
    storage: Literal["database"]
    storage_protocol: Literal[1]
    strategy: ExecutionStrategy
    terminal: Terminal | None
    topology_version: Number | None


class _Stored(Summary, frozen=True):
    """A summary as its bytes hold it: beside null, msgspec decodes no raw value."""

    session: msgspec.Raw


_decoder = msgspec.json.Decoder(_Stored)
_no_session = msgspec.Raw(b"null")


def encode(summary: Summary) -> bytes:
    """Return the canonical bytes; raise LimitExceeded above 16 KiB, 2 of a session."""
    if summary.session is not None:
        _check_session(bytes(summary.session))
    data = canonical.encode(summary)
    if len(data) > V1.summary:
        raise LimitExceeded("summary", V1.summary, len(data))
    return data


def decode(data: bytes) -> Summary:
    """Parse stored bytes; raise IntegrityFault(CORRUPT) when they are not a summary."""
    if len(data) > V1.summary:
        raise IntegrityFault("A summary is oversized.", DetailAvailability.CORRUPT)
    try:
        stored = _decoder.decode(data)
        _check(stored)
    except (msgspec.MsgspecError, ValueError, RecursionError, ProtocolError) as exc:
        raise IntegrityFault(
            "A summary does not parse.", DetailAvailability.CORRUPT
        ) from exc
    if stored.node_counts.total != stored.discovered_nodes:
        raise IntegrityFault(
            "A summary's counts do not add up.", DetailAvailability.CORRUPT
        )
    session = None if stored.session == _no_session else stored.session
    return Summary(**{**msgspec.structs.asdict(stored), "session": session})


def _check(stored: _Stored) -> None:
    """Bound what the types cannot say: identity, refused characters, the session."""
    RunIdentity(**msgspec.structs.asdict(stored.run))
    text.require_line(stored.limits_profile, "limits_profile", 4 * WORD)
    text.require_line(stored.plan_fingerprint, "plan_fingerprint", WORD)
    if stored.terminal is not None:
        text.require_line(stored.terminal.reason, "reason", 4 * WORD)
    _check_session(bytes(stored.session))


def _check_session(session: bytes) -> None:
    if len(session) > V1.session_compact:
        raise LimitExceeded("session", V1.session_compact, len(session))
    values.require_lines(values.require_canonical(session))


def is_of(summary: Summary, identity: RunIdentity) -> bool:
    """Claim that the summary belongs to exactly this run."""
    return summary.run == run_of(identity)


def run_of(identity: RunIdentity) -> Run:
    """Return the identity in its stored form."""
    return Run(
        attempt_number=identity.attempt_number,
        execution_generation=identity.execution_generation,
        run_id=identity.run_id,
        task_execution_pk=identity.task_execution_pk,
    )


def percent(
    state: WorkflowState, counts: NodeCounts, declared: int, discovered: int
) -> int:
    """Return the whole percent of contract 4.10: 100 only for a success."""
    if state is WorkflowState.RUNNING:
        total = max(declared, discovered)
        return min(99, 100 * counts.ended // total) if total else 0
    if state is WorkflowState.SUCCEEDED and not discovered:
        return 100
    share = 100 * counts.succeeded // discovered if discovered else 0
    return share if state is WorkflowState.SUCCEEDED else min(share, 99)


def share(summary: Summary) -> tuple[int, int]:
    """Return the two counts behind the percent: what has counted so far, and of how many.

    While a run goes on, what has ended of what may come; then what succeeded of what came.
    """
    counts = summary.node_counts
    if summary.terminal is not None:
        return counts.succeeded, summary.discovered_nodes
    return counts.ended, max(summary.declared_nodes, summary.discovered_nodes)


def derive(
    summary: Summary, outcome: WorkflowState, at_ms: int, reason: str
) -> Summary:
    """Return the canonical terminal envelope of a run whose producer did not end it.

    Success marks every discovered node succeeded and the detail TRUNCATED with
    `terminal_state_unreported`; an interruption keeps the last observed counters. The
    revision is last + 1, up to the reserved final one; an earlier expiry may only become
    later. ADR-0004, contract 4.8 and 4.12.
    """
    counts = summary.node_counts
    detail = summary.detail
    if outcome is WorkflowState.SUCCEEDED:
        counts = NodeCounts(succeeded=summary.discovered_nodes)
        detail = _unreported(detail)
    return msgspec.structs.replace(
        summary,
        detail=detail,
        ended_at_ms=at_ms,
        expires_at_ms=max(
            summary.expires_at_ms or 0, expiry(at_ms, summary.retention_days)
        ),
        node_counts=counts,
        percent=percent(
            outcome, counts, summary.declared_nodes, summary.discovered_nodes
        ),
        revision=min(summary.revision + 1, FINAL_REVISION),
        state=outcome,
        terminal=Terminal(derived=True, outcome=outcome, reason=reason),
    )


def expiry(ended_ms: int, retention_days: int) -> int:
    """Return when the detail of a run that ended then expires, within what a time holds."""
    return min(ended_ms + retention_days * DAY_MS, MAXIMUM_MILLISECONDS)


def _unreported(detail: Detail) -> Detail:
    if detail.availability not in RETAINED:
        return detail
    reason = TruncationReason.terminal_state_unreported
    reasons = detail.reasons if reason in detail.reasons else (*detail.reasons, reason)
    return Detail(
        availability=DetailAvailability.TRUNCATED, complete=False, reasons=reasons
    )
