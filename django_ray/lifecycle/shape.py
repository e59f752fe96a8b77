"""Which states there are: the check for one that the reducer has not made itself.

A state that was pickled, copied or put together elsewhere is looked at whole, once. The
table lists every combination of session, invocation and pending action that the
transitions can reach, with the facts that go with it; the tests walk all reachable states
and find exactly these rows.
"""

from dataclasses import dataclass

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle import terms
from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.settle import MAXIMUM_CODES, make_action
from django_ray.lifecycle.state import (
    CompiledGraphInvocationState,
    CompiledGraphSessionState,
    is_sealed,
)
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


@dataclass(frozen=True, slots=True)
class Shape:
    """What goes with a combination: graphs, effects, slots, and whether an outcome stands.

    `outcome` None: one may stand.
    """

    graphs: frozenset[GraphDisposition]
    effects: frozenset[EffectState]
    outcome: bool | None
    outputs: frozenset[OutputState] = frozenset()


_S, _I, _A = SessionState, InvocationState, ActionKind
_G, _O = GraphDisposition, OutputState

_UNPREPARED = frozenset({_G.UNPREPARED})
_PREPARED = frozenset({_G.PREPARED})
_USABLE = frozenset({_G.PREPARED, _G.REUSABLE})
_DRAIN = frozenset({_G.DRAIN_REQUIRED})
_IDLE_DRAIN = frozenset({_G.PREPARED, _G.REUSABLE, _G.DRAIN_REQUIRED})
_REBUILD = frozenset({_G.REBUILD_REQUIRED})
_GONE = frozenset({_G.TORN_DOWN})

_NOT = frozenset({EffectState.NOT_STARTED})
_MAY = frozenset({EffectState.MAY_HAVE_STARTED})
_EITHER = _NOT | _MAY

_DECLARED = frozenset({_O.DECLARED})
_NONE_MADE = frozenset({_O.NOT_CREATED})
_RUNNING = frozenset({_O.AVAILABLE, _O.CONSUMED})
_CONSUMING = _RUNNING | {_O.CONSUMING}
_INTERRUPTED = _DECLARED | _RUNNING | {_O.RELEASE_PENDING}
_DRAINED = _INTERRUPTED | _NONE_MADE
_CONSUMED = frozenset({_O.CONSUMED})
_SETTLED = REUSE_SAFE_OUTPUTS
_TEARDOWN = _DRAINED | _SETTLED
_ENDED = frozenset(OutputState) - OPEN_OUTPUTS
_KEPT = _ENDED - {_O.UNAVAILABLE_AFTER_TEARDOWN}

# fmt: off
SHAPES = {
    (_S.NEW, _I.NONE, None): Shape(_UNPREPARED, _NOT, False),
    (_S.VALIDATING, _I.NONE, _A.VALIDATE): Shape(_UNPREPARED, _NOT, False),
    (_S.VALIDATED, _I.NONE, None): Shape(_UNPREPARED, _NOT, False),
    (_S.PREPARING, _I.NONE, _A.PREPARE): Shape(_UNPREPARED, _NOT, None),
    (_S.READY, _I.NONE, None): Shape(_PREPARED, _NOT, False),
    (_S.READY, _I.ADMITTING, _A.ADMIT): Shape(_PREPARED, _NOT, False, _DECLARED),
    (_S.READY, _I.ADMITTED, None): Shape(_PREPARED, _NOT, False, _DECLARED),
    (_S.READY, _I.SUBMITTING, _A.SUBMIT): Shape(_PREPARED, _MAY, False, _DECLARED),
    (_S.READY, _I.RUNNING, None): Shape(_PREPARED, _MAY, False, _RUNNING),
    (_S.READY, _I.CONSUMING, _A.CONSUME_OUTPUT): Shape(_PREPARED, _MAY, False, _CONSUMING),
    (_S.READY, _I.CANCELLING, _A.RELEASE_CAPACITY): Shape(_PREPARED, _NOT, True, _NONE_MADE),
    (_S.READY, _I.CHECKING_HEALTH, _A.CHECK_HEALTH): Shape(_PREPARED, _MAY, True, _CONSUMED),
    (_S.READY, _I.TERMINAL, None): Shape(_USABLE, _EITHER, True, _SETTLED),
    (_S.DRAINING, _I.NONE, _A.DRAIN_SESSION): Shape(_PREPARED, _NOT, None),
    (_S.DRAINING, _I.NONE, _A.TEARDOWN): Shape(_REBUILD, _NOT, None),
    (_S.DRAINING, _I.CANCELLING, _A.CANCEL): Shape(_DRAIN, _MAY, True, _INTERRUPTED),
    (_S.DRAINING, _I.DRAINING, _A.DRAIN_INVOCATION): Shape(_DRAIN | _REBUILD, _MAY, True, _DRAINED),
    (_S.DRAINING, _I.DRAINING, _A.TEARDOWN): Shape(_REBUILD, _MAY, True, _TEARDOWN),
    (_S.DRAINING, _I.CHECKING_HEALTH, _A.CHECK_HEALTH): Shape(_DRAIN, _MAY, True, _SETTLED),
    (_S.DRAINING, _I.TERMINAL, _A.DRAIN_SESSION): Shape(_IDLE_DRAIN, _EITHER, True, _SETTLED),
    (_S.DRAINING, _I.TERMINAL, _A.TEARDOWN): Shape(_REBUILD, _EITHER, True, _KEPT),
    (_S.QUARANTINED, _I.NONE, None): Shape(_UNPREPARED | _REBUILD, _NOT, True),
    (_S.QUARANTINED, _I.TERMINAL, None): Shape(_REBUILD, _EITHER, True, _KEPT),
    (_S.REJECTED, _I.NONE, None): Shape(_UNPREPARED, _NOT, True),
    (_S.TORN_DOWN, _I.NONE, None): Shape(_GONE, _NOT, None),
    (_S.TORN_DOWN, _I.TERMINAL, None): Shape(_GONE, _EITHER, True, _ENDED),
}
# fmt: on
"""By session state, invocation state and pending action."""

FALLBACK_STATES = frozenset(
    {_S.NEW, _S.VALIDATING, _S.VALIDATED, _S.REJECTED, _S.QUARANTINED}
)
"""Where fallback may still be open: PREPARE was not issued."""


def is_known(state: object) -> bool:
    """Claim that `state` is one the reducer made, or could have made."""
    if type(state) is not CompiledGraphSessionState:
        return False
    return is_sealed(state) or is_well_formed(state)


def is_well_formed(state: CompiledGraphSessionState) -> bool:
    """Claim the same of a state by looking at all of it, sealed or not."""
    try:
        return (
            _has_types(state)
            and _has_terms(state)
            and _has_history(state)
            and _has_invocation(state)
            and _has_pending(state)
            and _has_shape(state)
        )
    except AttributeError:  # a slot was never filled
        return False


def _has_types(state: CompiledGraphSessionState) -> bool:
    return (
        type(state.state) is SessionState
        and type(state.graph) is GraphDisposition
        and type(state.admission_open) is bool
        and type(state.fallback_open) is bool
        and (state.outcome is None or type(state.outcome) is Outcome)
        and type(state.effect) is EffectState
        and type(state.retry) is RetryDisposition
    )


def _has_terms(state: CompiledGraphSessionState) -> bool:
    return (
        terms.is_session_identity(state.identity)
        and terms.is_capacity(state.capacity)
        and terms.are_session_deadlines(state.deadlines)
        and (state.before is None or terms.is_last_invocation(state.before))
    )


def _has_history(state: CompiledGraphSessionState) -> bool:
    """Claim that time, tokens and cleanup codes are within their bounds."""
    issued, completed, cleanup = state.issued, state.completed, state.cleanup
    return (
        terms.is_time(state.observed_at)
        and type(issued) is int
        and 0 <= issued <= MAXIMUM_63
        and (completed is None or (terms.is_number(completed) and completed <= issued))
        and type(cleanup) is tuple
        and len(cleanup) <= MAXIMUM_CODES
        and all(type(code) is CleanupCode for code in cleanup)
        and CleanupCode.DIAGNOSTICS_TRUNCATED not in cleanup[: MAXIMUM_CODES - 1]
    )


def _has_invocation(state: CompiledGraphSessionState) -> bool:
    invocation = state.invocation
    if invocation is None:
        return True
    return (
        type(invocation) is CompiledGraphInvocationState
        and terms.is_invocation_identity(invocation.identity, state.identity.run)
        and invocation.identity.run == state.identity.run
        and terms.is_number(invocation.number)
        and terms.are_invocation_deadlines(invocation.deadlines)
        and type(invocation.state) is InvocationState
        and type(invocation.outputs) is tuple
        and 1 <= len(invocation.outputs) <= terms.MAXIMUM_OUTPUTS
        and all(type(output) is OutputState for output in invocation.outputs)
    )


def _has_pending(state: CompiledGraphSessionState) -> bool:
    """Claim that the pending action is the one that was issued last, as it was issued."""
    pending, run = state.pending, state.identity.run
    if pending is None:
        return True
    return (
        type(pending) is Action
        and type(pending.kind) is ActionKind
        and type(pending.token) is int
        and type(pending.deadline) is int
        and (pending.output is None or type(pending.output) is int)
        and terms.is_session_identity(pending.session)
        and (
            pending.invocation is None
            or terms.is_invocation_identity(pending.invocation, run)
        )
        and 0 < state.issued != state.completed
        and pending
        == make_action(
            state, state.invocation, pending.kind, state.issued, pending.output
        )
    )


def _has_shape(state: CompiledGraphSessionState) -> bool:
    """Claim that the table has this combination, with these facts."""
    invocation, pending = state.invocation, state.pending
    phase = InvocationState.NONE if invocation is None else invocation.state
    kind = None if pending is None else pending.kind
    shape = SHAPES.get((state.state, phase, kind))
    if shape is None or ((invocation is None) != (phase is InvocationState.NONE)):
        return False
    return (
        state.graph in shape.graphs
        and state.effect in shape.effects
        and shape.outcome in (None, state.outcome is not None)
        and (not state.fallback_open or _may_fall_back(state))
        and (invocation is None or shape.outputs.issuperset(invocation.outputs))
        and _has_claim(invocation, pending)
    )


def _may_fall_back(state: CompiledGraphSessionState) -> bool:
    return state.state in FALLBACK_STATES and state.graph is GraphDisposition.UNPREPARED


def _has_claim(
    invocation: CompiledGraphInvocationState | None, pending: Action | None
) -> bool:
    """Claim that a slot is CONSUMING exactly while its CONSUME_OUTPUT is pending, and that
    one is left to consume while RUNNING."""
    if invocation is None:
        return True
    outputs = invocation.outputs
    if invocation.state is InvocationState.RUNNING:
        return OutputState.AVAILABLE in outputs
    if pending is None or pending.kind is not ActionKind.CONSUME_OUTPUT:
        return True
    index = pending.output
    return (
        index is not None
        and 0 <= index < len(outputs)
        and outputs[index] is OutputState.CONSUMING
        and outputs.count(OutputState.CONSUMING) == 1
    )
