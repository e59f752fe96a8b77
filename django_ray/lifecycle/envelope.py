"""What is checked of an event before any table. Lifecycle 1, in its order.

Types are compared exactly: a bool is no integer, a plain string no kind, a subclass may
answer what it likes. What `is` the state's own needs no second look.
"""

from django_ray.lifecycle.events import Admission, Callback, Command
from django_ray.lifecycle.scopes import CALLBACK_SCOPES, COMMAND_SCOPES, Scope
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.terms import (
    are_invocation_deadlines,
    is_invocation_identity,
    is_number,
    is_session_identity,
    is_time,
)
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind, RejectionCode

PROVING = (CallbackKind.SUBMISSION_TIMED_OUT, CallbackKind.CHANNEL_ERROR)
"""The callbacks that may say that nothing was started."""

INTERRUPTING = (
    CommandKind.CANCELLATION_REQUESTED,
    CommandKind.OWNER_LOST,
    CommandKind.OUTER_DEADLINE_EXPIRED,
)
"""The commands that are heard while an action is being performed."""


def command_fault(
    state: CompiledGraphSessionState, command: Command
) -> RejectionCode | None:
    """Return why `command` goes no further; None when its row of table 2 decides."""
    if not _is_command(command):
        return RejectionCode.INVALID_EVENT
    kind = command.kind
    fault = _common_fault(state, command, COMMAND_SCOPES[kind])
    if fault is not None:
        return fault
    if command.token is not None:
        return RejectionCode.UNEXPECTED_ACTION_TOKEN
    if state.pending is not None and kind not in INTERRUPTING:
        return RejectionCode.ACTION_IN_PROGRESS
    return None


def callback_fault(
    state: CompiledGraphSessionState, callback: Callback
) -> RejectionCode | None:
    """Return why `callback` goes no further; None when it answers the pending action."""
    if not _is_callback(callback):
        return RejectionCode.INVALID_EVENT
    fault = _common_fault(state, callback, CALLBACK_SCOPES[callback.kind])
    if fault is not None:
        return fault
    token = callback.token
    if token is None:
        return RejectionCode.ACTION_TOKEN_REQUIRED
    if type(token) is not int:
        return RejectionCode.STALE_ACTION_TOKEN
    if state.pending is not None and token == state.pending.token:
        return None
    if token == state.completed:
        return RejectionCode.DUPLICATE_ACTION
    return RejectionCode.STALE_ACTION_TOKEN


def _is_command(command: Command) -> bool:
    """Claim that the kind is known, and that every field is complete and the kind's own."""
    try:
        kind, admission, output = command.kind, command.admission, command.output
        _ = command.session, command.observed_at, command.invocation, command.token
    except AttributeError:
        return False
    if type(kind) is not CommandKind:
        return False
    if kind is CommandKind.ADMISSION_REQUESTED:
        return _is_admission(admission) and output is None
    return admission is None and (
        output is None or kind is CommandKind.CONSUMPTION_REQUESTED
    )


def _is_admission(admission: object) -> bool:
    # Its number and its count of outputs have rejections of their own.
    return (
        type(admission) is Admission
        and hasattr(admission, "number")
        and hasattr(admission, "outputs")
        and are_invocation_deadlines(getattr(admission, "deadlines", None))
    )


def _is_callback(callback: Callback) -> bool:
    try:
        kind, not_started = callback.kind, callback.not_started
        _ = callback.session, callback.observed_at, callback.invocation
        _ = callback.token, callback.output
    except AttributeError:
        return False
    if type(kind) is not CallbackKind:
        return False
    return not_started is False or (not_started is True and kind in PROVING)


def _common_fault(
    state: CompiledGraphSessionState, event: Command | Callback, scope: Scope
) -> RejectionCode | None:
    session, at = event.session, event.observed_at
    if session is not state.identity:
        if not is_session_identity(session):
            return RejectionCode.INVALID_IDENTITY
        if session != state.identity:
            return RejectionCode.STALE_SESSION_IDENTITY
    fault = _invocation_fault(state, event, scope)
    if fault is not None:
        return fault
    if not is_time(at):
        return RejectionCode.INVALID_CLOCK
    if at < state.observed_at:
        return RejectionCode.CLOCK_REGRESSION
    return None


def _invocation_fault(
    state: CompiledGraphSessionState, event: Command | Callback, scope: Scope
) -> RejectionCode | None:
    given, current = event.invocation, state.invocation
    if current is not None and given is current.identity and scope is Scope.INVOCATION:
        return None
    if isinstance(event, Command) and event.admission is not None:
        return _admission_fault(state, given, event.admission)
    scope = _present(scope, state)
    if given is None:
        missing = scope is Scope.INVOCATION
        return RejectionCode.MISSING_INVOCATION_IDENTITY if missing else None
    if scope is Scope.SESSION or not is_invocation_identity(given, state.identity.run):
        return RejectionCode.INVALID_IDENTITY
    if current is None or given != current.identity:
        return RejectionCode.STALE_INVOCATION_IDENTITY
    return None


def _present(scope: Scope, state: CompiledGraphSessionState) -> Scope:
    """Return what a scope that depends on the state is in this one."""
    if scope is Scope.IN_PROGRESS:
        return Scope.OPTIONAL if state.in_progress is None else Scope.INVOCATION
    if scope is Scope.PENDING:
        if state.pending is None:
            return Scope.OPTIONAL
        return Scope.SESSION if state.pending.invocation is None else Scope.INVOCATION
    return scope


def _admission_fault(
    state: CompiledGraphSessionState, given: object, admission: Admission
) -> RejectionCode | None:
    """Fault the new identity: its number is the last one's + 1, its id not the last's."""
    if given is None:
        return RejectionCode.MISSING_INVOCATION_IDENTITY
    run = state.identity.run
    if not is_invocation_identity(given, run) or not is_number(admission.number):
        return RejectionCode.INVALID_IDENTITY
    if given.run != run:
        return RejectionCode.STALE_INVOCATION_IDENTITY
    last = state.last_invocation
    if last is not None and (
        admission.number <= last.number or given.invocation_id == last.invocation_id
    ):
        return RejectionCode.DUPLICATE_INVOCATION
    if admission.number != (1 if last is None else last.number + 1):
        return RejectionCode.INVALID_IDENTITY
    return None
