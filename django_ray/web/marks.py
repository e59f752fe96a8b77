"""The words and marks of every state: never a colour alone. A mark names a symbol."""

from dataclasses import dataclass

from django_ray.management.terminal.shapes import stage_state
from django_ray.management.terminal.status import Freshness
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import DetailAvailability, ExecutionState, NodeState

MEANINGS = {
    NodeState.SUCCEEDED: "ended well",
    NodeState.FAILED: "ended with an error, no try left",
    NodeState.CANCELLED: "stopped on request",
    NodeState.SKIPPED: "a node it needs failed",
    NodeState.RUNNING: "at work on a host",
    NodeState.SUBMITTED: "handed to Ray, no start yet",
    NodeState.PENDING: "waits for nodes it needs",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A symbol, its word, the tone that colours it, and the exact code."""

    symbol: str
    word: str
    tone: str
    code: str
    is_last_known: bool = False


def of_node(state: NodeState) -> Mark:
    """Return the mark of a node's state."""
    name = state.lower()
    return Mark(name, name.capitalize(), name, state)


def of_stage(counts: NodeCounts) -> Mark:
    """Return the mark that stands for a stage."""
    return of_node(stage_state(counts))


_EXECUTIONS = {
    ExecutionState.QUEUED: ("pending", "Queued", "pending"),
    ExecutionState.CLAIMED: ("pending", "Claimed", "pending"),
    ExecutionState.RUNNING: ("running", "Running", "running"),
    ExecutionState.RETRY_WAIT: ("waiting", "Waiting to retry", "pending"),
    ExecutionState.RECONCILE: ("warning", "Needs reconciliation", "warn"),
    ExecutionState.SUCCEEDED: ("succeeded", "Succeeded", "succeeded"),
    ExecutionState.FAILED: ("failed", "Failed", "failed"),
    ExecutionState.CANCELLED: ("cancelled", "Cancelled", "cancelled"),
    ExecutionState.TIMED_OUT: ("clock", "Timed out", "failed"),
    ExecutionState.LOST: ("warning", "Lost", "failed"),
}


def of_execution(state: ExecutionState, *, is_reported: bool, is_stale: bool) -> Mark:
    """Return the mark of an execution; while it is stale, as it was last known."""
    symbol, word, tone = _EXECUTIONS[state]
    if state is ExecutionState.RUNNING and not is_reported:
        symbol, word, tone = "waiting", "Waiting", "pending"
    if is_stale:
        return Mark(symbol, f"{word}, last known", tone, state, is_last_known=True)
    return Mark(symbol, word, tone, state)


FRESHNESS = {
    Freshness.Live: ("live", "accent"),
    Freshness.Late: ("clock", "plain"),
    Freshness.Stale: ("clock", "warn"),
    Freshness.Waiting: ("waiting", "plain"),
    Freshness.Silent: ("warning", "warn"),
    Freshness.Final: ("check", "plain"),
}

COMPLETENESS = {
    DetailAvailability.AVAILABLE: ("full", "plain"),
    DetailAvailability.TRUNCATED: ("half", "warn"),
    DetailAvailability.NOT_REPORTED: ("dashed", "plain"),
    DetailAvailability.OMITTED_BY_POLICY: ("dashed", "plain"),
    DetailAvailability.DISABLED: ("dashed", "plain"),
    DetailAvailability.EXPIRED: ("dashed", "plain"),
    DetailAvailability.MISSING: ("warning", "warn"),
    DetailAvailability.CORRUPT: ("warning", "warn"),
}
