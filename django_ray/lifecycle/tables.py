"""What a row of the transition tables says, and the words its guards are made of.

Lifecycle 2 to 4 are tables of rows: `commands`, `callbacks` and `deadlines` hold them in
the page's order, `settle` applies one. Under a key stand one or more rows; the first whose
guard holds is taken. What no row says stays as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django_ray.lifecycle.events import Callback, Event
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import (
    OPEN_OUTPUTS,
    REUSE_SAFE_OUTPUTS,
    ActionKind,
    CleanupCode,
    EffectState,
    GraphDisposition,
    InvocationState,
    Outcome,
    OutputState,
    RetryDisposition,
    SessionState,
)

type Guard = Callable[[CompiledGraphSessionState, Event], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: under which guard it holds, what becomes of the state, what is issued.

    `outcome` is set where none stands, and `brings` is the retry disposition that comes
    with it only then; `retry` is set in any case. `open_outputs` is what all open slots
    become, `claimed_output` what the slot of the command or of the pending action becomes.
    `admits` begins a new invocation. `keeps` lets the pending action go on: else a
    callback completes it, a command supersedes it. What issuing sets is `actions.ISSUES`.
    """

    when: Guard | None = None
    session: SessionState | None = None
    invocation: InvocationState | None = None
    graph: GraphDisposition | None = None
    outcome: Outcome | None = None
    brings: RetryDisposition | None = None
    effect: EffectState | None = None
    retry: RetryDisposition | None = None
    open_outputs: OutputState | None = None
    claimed_output: OutputState | None = None
    code: CleanupCode | None = None
    closes_admission: bool = False
    closes_fallback: bool = False
    admits: bool = False
    keeps: bool = False
    issues: ActionKind | None = None


type Rows = tuple[Row, ...]

AS_ITS_DEADLINE: Rows = ()
"""Stands where a callback only names its action's deadline: table 4 has the row."""


REFUSED = Row()
"""Stands where no row holds."""


def choose(rows: Rows, state: CompiledGraphSessionState, event: Event) -> Row:
    """Return the first row whose guard holds, or REFUSED."""
    for row in rows:
        if row.when is None or row.when(state, event):
            return row
    return REFUSED


def may_admit(state: CompiledGraphSessionState, _: Event) -> bool:
    """admission open, graph PREPARED or REUSABLE, earlier slots reuse-safe"""
    invocation = state.invocation
    return (
        state.admission_open
        and state.graph in (GraphDisposition.PREPARED, GraphDisposition.REUSABLE)
        and (invocation is None or REUSE_SAFE_OUTPUTS.issuperset(invocation.outputs))
    )


def admission_open(state: CompiledGraphSessionState, _: Event) -> bool:
    """admission open"""
    return state.admission_open


def graph_prepared(state: CompiledGraphSessionState, _: Event) -> bool:
    """graph not UNPREPARED"""
    return state.graph is not GraphDisposition.UNPREPARED


def drain_required(state: CompiledGraphSessionState, _: Event) -> bool:
    """graph DRAIN_REQUIRED"""
    return state.graph is GraphDisposition.DRAIN_REQUIRED


def effects_not_started(state: CompiledGraphSessionState, _: Event) -> bool:
    """effect NOT_STARTED"""
    return state.effect is EffectState.NOT_STARTED


def succeeded(state: CompiledGraphSessionState, _: Event) -> bool:
    """outcome SUCCEEDED"""
    return state.outcome is Outcome.SUCCEEDED


def proven_not_started(_: CompiledGraphSessionState, event: Event) -> bool:
    """not_started proven"""
    return type(event) is Callback and event.not_started


def others_open(state: CompiledGraphSessionState, _: Event) -> bool:
    """others open"""
    invocation = state.invocation
    return invocation is not None and OutputState.AVAILABLE in invocation.outputs


def _closing(end: OutputState) -> Mapping[OutputState, OutputState]:
    return {state: end if state in OPEN_OUTPUTS else state for state in OutputState}


CLOSINGS = {end: _closing(end) for end in OutputState}
"""What each slot state becomes when all open slots become one: no terminal one moves."""
