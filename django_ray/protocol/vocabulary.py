"""The closed vocabularies of progress and of the durable execution. Contract 3.

Names equal values, spelled and ordered as in the contract; anything else is refused by
the decoders that use these types.
"""

from enum import StrEnum


class NodeState(StrEnum):
    """State of one node; the seven counts add up to the discovered nodes."""

    PENDING = "PENDING"
    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


NODE_STATES = tuple(NodeState)
"""The seven states in canonical order; the index of one is its code in a byte."""

CODES = {state: code for code, state in enumerate(NODE_STATES)}
"""The code of each state: three bits."""

RANKS = {state: min(code, 3) for code, state in enumerate(NODE_STATES)}
"""The order of states within a try: PENDING, SUBMITTED, RUNNING, and one rank for all
ends, so that none reopens. Contract 4.3."""

TERMINAL_NODE_STATES = frozenset(NODE_STATES[3:])
"""The ended states: they do not reopen but by a try or an invocation. Contract 4.3."""


class ExecutionState(StrEnum):
    """State of the durable task row."""

    QUEUED = "QUEUED"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    RECONCILE = "RECONCILE"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"


TERMINAL_EXECUTION_STATES = frozenset(tuple(ExecutionState)[5:])
"""The ends of an execution."""


class WorkflowState(StrEnum):
    """State of the run in its summary: running, or one of the five ends."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"


class DetailAvailability(StrEnum):
    """What may be said of a run's node detail."""

    NOT_REPORTED = "NOT_REPORTED"
    AVAILABLE = "AVAILABLE"
    TRUNCATED = "TRUNCATED"
    OMITTED_BY_POLICY = "OMITTED_BY_POLICY"
    DISABLED = "DISABLED"
    EXPIRED = "EXPIRED"
    MISSING = "MISSING"
    CORRUPT = "CORRUPT"


RETAINED = frozenset((DetailAvailability.AVAILABLE, DetailAvailability.TRUNCATED))
"""What availability says where at least some detail is kept."""


class TruncationReason(StrEnum):
    """Why retained detail is a subset; the summary names every one that applies."""

    node_count_limit = "node_count_limit"
    edge_count_limit = "edge_count_limit"
    record_size_limit = "record_size_limit"
    topology_size_limit = "topology_size_limit"
    detail_size_limit = "detail_size_limit"
    run_size_limit = "run_size_limit"
    terminal_state_unreported = "terminal_state_unreported"


class ReportingPolicy(StrEnum):
    """How much of a run is reported."""

    full = "full"
    summary = "summary"
    terminal_only = "terminal_only"
    disabled = "disabled"


class ExecutionStrategy(StrEnum):
    """How a run's graph is executed."""

    dynamic = "dynamic"
    compiled_graph = "compiled_graph"


class SelectionPolicy(StrEnum):
    """How a run's strategy is chosen; `automatic` compiles what can be compiled."""

    dynamic = "dynamic"
    compiled_graph = "compiled_graph"
    automatic = "automatic"


class Effects(StrEnum):
    """What the author says of a compiled region's effects outside of it. Lifecycle 5."""

    read_only = "read_only"
    declared = "declared"
