"""Applies a row of a table: one new state an event, and one more an action that expires.

Lifecycle 1: an action issued when its deadline has passed already is not dispatched; it
expires at once and counts as completed.
"""

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.actions import ISSUES, Action, Issue
from django_ray.lifecycle.deadlines import DEADLINES
from django_ray.lifecycle.events import Event
from django_ray.lifecycle.frozen import maker
from django_ray.lifecycle.results import REJECTIONS, Rejection, Transition
from django_ray.lifecycle.state import (
    CompiledGraphInvocationState,
    CompiledGraphSessionState,
    seal,
)
from django_ray.lifecycle.tables import CLOSINGS, Row, choose
from django_ray.lifecycle.vocabulary import (
    ActionKind,
    CleanupCode,
    EffectState,
    InvocationState,
    Outcome,
    RejectionCode,
    RetryDisposition,
)

_settled = maker(CompiledGraphSessionState)
_moved = maker(CompiledGraphInvocationState)
_issued = maker(Action)
_transition = maker(Transition)

MAXIMUM_CODES = 8
"""Cleanup codes kept, the mark that there were more included. Contract 2."""


def follow(
    state: CompiledGraphSessionState,
    row: Row,
    event: Event,
    *,
    outcome: Outcome | None,
    completed: int | None,
    output: int | None,
    begun: CompiledGraphInvocationState | None = None,
) -> Transition | Rejection:
    """Apply `row`, then the deadline of each action it issues too late to be performed.

    `outcome` is the row's, or what replaces it. `completed` is the token completed last.
    `output` is the slot that the row calls claimed. `begun` is the invocation that begins.
    """
    at = event.observed_at
    settled = settle(state, row, at, outcome, completed, output, begun)
    while settled is not None and row.issues is not None:
        action = settled.pending
        if action is None or at < action.deadline:
            return _transition(state=settled, action=action)
        row = choose(DEADLINES[action.kind], settled, event)
        outcome = deadline_outcome(settled, action, row)
        settled = settle(settled, row, at, outcome, action.token, action.output, None)
    if settled is None:
        return REJECTIONS[RejectionCode.ACTION_SEQUENCE_EXHAUSTED]
    return _transition(state=settled, action=None)


def expire(
    state: CompiledGraphSessionState, action: Action, event: Event
) -> Transition | Rejection:
    """Apply the deadline of the pending action."""
    row = choose(DEADLINES[action.kind], state, event)
    return follow(
        state,
        row,
        event,
        outcome=deadline_outcome(state, action, row),
        completed=action.token,
        output=action.output,
    )


def deadline_outcome(
    state: CompiledGraphSessionState, action: Action, row: Row
) -> Outcome | None:
    """Return whose deadline it was; a tie is the outer's. Lifecycle 4."""
    if action.deadline == state.deadlines.outer:
        return Outcome.OUTER_DEADLINE
    return row.outcome


def settle(
    state: CompiledGraphSessionState,
    row: Row,
    at: int,
    outcome: Outcome | None,
    completed: int | None,
    output: int | None,
    begun: CompiledGraphInvocationState | None,
) -> CompiledGraphSessionState | None:
    """Return the next state; None when an action is to be issued and no token is left."""
    issue = None if row.issues is None else ISSUES[row.issues]
    if begun is None:
        invocation = state.invocation
        if invocation is not None:
            invocation = _move(invocation, row, issue, output)
        retry = row.retry or state.retry
        primary = state.outcome
        if primary is None and outcome is not None:
            primary = outcome
            retry = row.brings or retry
        effect = row.effect or state.effect
        cleanup = state.cleanup if row.code is None else _noted(state.cleanup, row.code)
    else:
        invocation, primary, cleanup = begun, None, ()
        effect, retry = EffectState.NOT_STARTED, RetryDisposition.AUTOMATIC_ALLOWED
    phase = row.session or state.state
    graph = row.graph or state.graph
    pending = state.pending if row.keeps else None
    issued = state.issued
    if issue is not None and row.issues is not None:
        if issued >= MAXIMUM_63:
            return None
        issued += 1
        phase = issue.session or phase
        graph = issue.graph or graph
        pending = make_action(state, invocation, row.issues, issued, output)
    in_time = at < state.deadlines.outer
    return seal(
        _settled(
            identity=state.identity,
            capacity=state.capacity,
            deadlines=state.deadlines,
            before=state.before,
            state=phase,
            graph=graph,
            admission_open=state.admission_open
            and in_time
            and not row.closes_admission,
            fallback_open=state.fallback_open and in_time and not row.closes_fallback,
            outcome=primary,
            effect=effect,
            retry=retry,
            cleanup=cleanup,
            invocation=invocation,
            pending=pending,
            completed=completed,
            issued=issued,
            observed_at=at,
        )
    )


def _move(
    invocation: CompiledGraphInvocationState,
    row: Row,
    issue: Issue | None,
    output: int | None,
) -> CompiledGraphInvocationState:
    """Return the invocation after `row`; one that is TERMINAL stays as it is."""
    if invocation.state is InvocationState.TERMINAL:
        return invocation
    phase = row.invocation or invocation.state
    if (
        issue is not None
        and issue.invocation is not None
        and phase is not InvocationState.TERMINAL
    ):
        phase = issue.invocation
    outputs = invocation.outputs
    if row.claimed_output is not None and output is not None:
        outputs = (*outputs[:output], row.claimed_output, *outputs[output + 1 :])
    elif row.open_outputs is not None:
        outputs = tuple(map(CLOSINGS[row.open_outputs].__getitem__, outputs))
    return _moved(
        identity=invocation.identity,
        number=invocation.number,
        deadlines=invocation.deadlines,
        state=phase,
        outputs=outputs,
    )


def make_action(
    state: CompiledGraphSessionState,
    invocation: CompiledGraphInvocationState | None,
    kind: ActionKind,
    token: int,
    output: int | None,
) -> Action:
    """Return the action that issuing `kind` in `state` makes, with its deadline."""
    issue = ISSUES[kind]
    owner = invocation if issue.own else None
    stage: int = getattr(
        state.deadlines if owner is None else owner.deadlines, issue.stage
    )
    outer = state.deadlines.outer
    return _issued(
        kind=kind,
        token=token,
        session=state.identity,
        invocation=None if owner is None else owner.identity,
        deadline=stage if stage < outer else outer,
        output=output if kind is ActionKind.CONSUME_OUTPUT else None,
    )


def _noted(
    cleanup: tuple[CleanupCode, ...], code: CleanupCode
) -> tuple[CleanupCode, ...]:
    if len(cleanup) < MAXIMUM_CODES:
        return (*cleanup, code)
    return (*cleanup[: MAXIMUM_CODES - 1], CleanupCode.DIAGNOSTICS_TRUNCATED)
