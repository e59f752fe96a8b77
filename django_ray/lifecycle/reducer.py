"""The only way a session begins and the only way it moves.

`reduce_lifecycle` is total: it answers every event in every state with a transition or a
named rejection, reads no clock and performs nothing. Lifecycle 1, contract 4.17.
"""

from django_ray.errors import ConfigurationError
from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle import terms
from django_ray.lifecycle.callbacks import ANSWERS
from django_ray.lifecycle.commands import COMMANDS
from django_ray.lifecycle.envelope import callback_fault, command_fault
from django_ray.lifecycle.events import Callback, Command
from django_ray.lifecycle.results import REJECTIONS, Rejection, Transition
from django_ray.lifecycle.settle import expire, follow
from django_ray.lifecycle.shape import is_known, is_well_formed
from django_ray.lifecycle.state import (
    CompiledGraphInvocationState,
    CompiledGraphSessionState,
    seal,
)
from django_ray.lifecycle.tables import AS_ITS_DEADLINE, REFUSED, Row, choose
from django_ray.lifecycle.terms import (
    LastInvocation,
    LifecycleCapacity,
    LifecycleDeadlines,
    SessionIdentity,
)
from django_ray.lifecycle.vocabulary import (
    CallbackKind,
    CommandKind,
    EffectState,
    GraphDisposition,
    InvocationState,
    Outcome,
    OutputState,
    RejectionCode,
    RetryDisposition,
    SessionState,
)

TOKEN_RESERVE = 128
"""Tokens that must be left before work begins that later needs more of them."""

BEGINNING = (
    CommandKind.VALIDATION_REQUESTED,
    CommandKind.PREPARATION_REQUESTED,
    CommandKind.ADMISSION_REQUESTED,
)


def initial_session(
    *,
    identity: SessionIdentity,
    capacity: LifecycleCapacity,
    deadlines: LifecycleDeadlines,
    before: LastInvocation | None,
) -> CompiledGraphSessionState:
    """Return a NEW session; raise ConfigurationError for terms it cannot have.

    `before` is the run's last invocation of an earlier session, if there was one: numbers
    go on from it.
    """
    if not terms.is_session_identity(identity):
        raise ConfigurationError("The identity of the session is malformed.")
    if not terms.is_capacity(capacity):
        raise ConfigurationError(
            "Protocol version 1 has one capacity, and not this one."
        )
    if not terms.are_session_deadlines(deadlines):
        raise ConfigurationError("The seven deadlines must be times in milliseconds.")
    if before is not None and not terms.is_last_invocation(before):
        raise ConfigurationError("The last invocation's number or id is malformed.")
    return seal(
        CompiledGraphSessionState(
            identity=identity,
            capacity=capacity,
            deadlines=deadlines,
            before=before,
            state=SessionState.NEW,
            graph=GraphDisposition.UNPREPARED,
            admission_open=True,
            fallback_open=True,
            outcome=None,
            effect=EffectState.NOT_STARTED,
            retry=RetryDisposition.AUTOMATIC_ALLOWED,
            cleanup=(),
            invocation=None,
            pending=None,
            completed=None,
            issued=0,
            observed_at=0,
        )
    )


def reduce_lifecycle(
    state: CompiledGraphSessionState, event: Command | Callback
) -> Transition | Rejection:
    """Return what `event` makes of `state`; whatever the two are, nothing is raised."""
    if not is_known(state):
        return REJECTIONS[RejectionCode.INVALID_STATE]
    try:
        if type(event) is Callback:
            return _answered(state, event)
        if type(event) is Command:
            return _requested(state, event)
    except Exception:
        # Only a sealed state that was changed by force since can lead here, or a mistake
        # of ours: that one is not to be hidden.
        if is_well_formed(state):
            raise
        return REJECTIONS[RejectionCode.INVALID_STATE]
    return REJECTIONS[RejectionCode.INVALID_EVENT]


def _answered(
    state: CompiledGraphSessionState, callback: Callback
) -> Transition | Rejection:
    fault = callback_fault(state, callback)
    pending = state.pending
    if fault is not None or pending is None:
        return REJECTIONS[fault or RejectionCode.STALE_ACTION_TOKEN]
    kind, output = callback.kind, callback.output
    rows = (
        AS_ITS_DEADLINE
        if kind is CallbackKind.DEADLINE_EXPIRED
        else ANSWERS[pending.kind].get(kind)
    )
    if rows is None:
        return REJECTIONS[RejectionCode.INVALID_TRANSITION]
    if output is None:
        mismatch = kind is CallbackKind.OUTPUT_CONSUMED
    else:
        mismatch = type(output) is not int or output != pending.output
    if mismatch:
        return REJECTIONS[RejectionCode.ACTION_PAYLOAD_MISMATCH]
    if callback.observed_at >= pending.deadline:
        return expire(state, pending, callback)
    if rows is AS_ITS_DEADLINE:
        return REJECTIONS[RejectionCode.DEADLINE_NOT_EXPIRED]
    row = choose(rows, state, callback)
    return follow(
        state,
        row,
        callback,
        outcome=row.outcome,
        completed=pending.token,
        output=pending.output,
    )


def _requested(
    state: CompiledGraphSessionState, command: Command
) -> Transition | Rejection:
    fault = command_fault(state, command)
    if fault is not None:
        return REJECTIONS[fault]
    kind, pending = command.kind, state.pending
    row = _row(state, command, kind)
    wakes = kind is CommandKind.OUTER_DEADLINE_EXPIRED
    if row is REFUSED and not (wakes and pending is not None):
        return REJECTIONS[RejectionCode.INVALID_TRANSITION]
    late = command.observed_at >= state.deadlines.outer
    if late and not _keeps_its_row(state, kind):
        return _outer_deadline(state, command)
    if wakes:
        return REJECTIONS[RejectionCode.DEADLINE_NOT_EXPIRED]
    fault = _content_fault(state, command)
    if fault is not None:
        return REJECTIONS[fault]
    outcome = row.outcome
    if late and outcome is not None:
        outcome = Outcome.OUTER_DEADLINE
    return follow(
        state,
        row,
        command,
        outcome=outcome,
        completed=state.completed,
        output=command.output if pending is None else pending.output,
        begun=_begun(command) if row.admits else None,
    )


def _row(state: CompiledGraphSessionState, command: Command, kind: CommandKind) -> Row:
    """Return the row of table 2 that holds for `kind` now, or REFUSED."""
    invocation = state.in_progress
    if invocation is None:
        rows = COMMANDS[kind].idle.get(state.state, ())
    else:
        rows = COMMANDS[kind].busy.get(invocation.state, ())
    return choose(rows, state, command)


def _keeps_its_row(state: CompiledGraphSessionState, kind: CommandKind) -> bool:
    """Claim that after `outer` the command is still what it says."""
    return kind is CommandKind.OWNER_LOST or (
        kind is CommandKind.TEARDOWN_REQUESTED
        and state.state is SessionState.QUARANTINED
    )


def _outer_deadline(
    state: CompiledGraphSessionState, command: Command
) -> Transition | Rejection:
    """Let `outer` pass, whatever the accepted command asked for."""
    if state.pending is not None:
        return expire(state, state.pending, command)
    row = _row(state, command, CommandKind.OUTER_DEADLINE_EXPIRED)
    return follow(
        state,
        row,
        command,
        outcome=row.outcome,
        completed=state.completed,
        output=None,
    )


def _content_fault(
    state: CompiledGraphSessionState, command: Command
) -> RejectionCode | None:
    """Return what is wrong with what the command's row asks of it, then of the tokens."""
    kind, admission, invocation = command.kind, command.admission, state.invocation
    if admission is not None:
        count = admission.outputs
        if type(count) is not int or not 1 <= count <= terms.MAXIMUM_OUTPUTS:
            return RejectionCode.OUTPUT_CARDINALITY_INVALID
    if kind is CommandKind.CONSUMPTION_REQUESTED and invocation is not None:
        index = command.output
        if type(index) is not int or not 0 <= index < len(invocation.outputs):
            return RejectionCode.OUTPUT_INDEX_INVALID
        if invocation.outputs[index] is not OutputState.AVAILABLE:
            return RejectionCode.OUTPUT_ALREADY_CLAIMED
    if kind in BEGINNING and MAXIMUM_63 - state.issued < TOKEN_RESERVE:
        return RejectionCode.ACTION_SEQUENCE_EXHAUSTED
    return None


def _begun(command: Command) -> CompiledGraphInvocationState | None:
    """Return the invocation that an accepted admission begins."""
    admission, identity = command.admission, command.invocation
    if admission is None or identity is None:
        return None
    return CompiledGraphInvocationState(
        identity=identity,
        number=admission.number,
        deadlines=admission.deadlines,
        state=InvocationState.ADMITTING,
        outputs=(OutputState.DECLARED,) * admission.outputs,
    )
