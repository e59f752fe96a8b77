"""What the reducer is told: commands of the owner, callbacks of the adapter.

The functions fill in identity and token, so that an owner or adapter names only what it
observed. The classes hold whatever they are given; the reducer judges it.
"""

from dataclasses import dataclass

from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.scopes import COMMAND_SCOPES, Scope
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.terms import (
    InvocationDeadlines,
    SessionIdentity,
    WorkflowInvocationIdentity,
)
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What an ADMISSION_REQUESTED brings: the run's next invocation number, 1 to 64
    declared outputs, and the invocation's own deadlines."""

    number: int
    outputs: int
    deadlines: InvocationDeadlines


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request of the owner, observed at a time; it carries no token.

    `admission` belongs to ADMISSION_REQUESTED, `output` to CONSUMPTION_REQUESTED.
    """

    kind: CommandKind
    session: SessionIdentity
    observed_at: int
    invocation: WorkflowInvocationIdentity | None = None
    token: int | None = None
    admission: Admission | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """The adapter's answer to one action, observed at a time.

    `not_started` says that the engine proved it had refused the input before executing
    anything; only SUBMISSION_TIMED_OUT and CHANNEL_ERROR may say so.
    """

    kind: CallbackKind
    session: SessionIdentity
    observed_at: int
    invocation: WorkflowInvocationIdentity | None = None
    token: int | None = None
    output: int | None = None
    not_started: bool = False


type Event = Command | Callback


def answer(
    action: Action, kind: CallbackKind, observed_at: int, *, not_started: bool = False
) -> Callback:
    """Return the callback to `action` that says `kind`."""
    return Callback(
        kind=kind,
        session=action.session,
        observed_at=observed_at,
        invocation=action.invocation,
        token=action.token,
        output=action.output,
        not_started=not_started,
    )


def command(
    state: CompiledGraphSessionState, kind: CommandKind, observed_at: int
) -> Command:
    """Return a command about the session, or about its invocation in progress.

    Not for ADMISSION_REQUESTED and CONSUMPTION_REQUESTED, which say more.
    """
    invocation = state.in_progress
    return Command(
        kind=kind,
        session=state.identity,
        observed_at=observed_at,
        invocation=None
        if invocation is None or COMMAND_SCOPES[kind] is Scope.SESSION
        else invocation.identity,
    )


def admission(
    state: CompiledGraphSessionState,
    observed_at: int,
    *,
    invocation_id: str,
    outputs: int,
    deadlines: InvocationDeadlines,
) -> Command:
    """Return the request to admit the run's next invocation."""
    last = state.last_invocation
    return Command(
        kind=CommandKind.ADMISSION_REQUESTED,
        session=state.identity,
        observed_at=observed_at,
        invocation=WorkflowInvocationIdentity(
            run=state.identity.run, invocation_id=invocation_id
        ),
        admission=Admission(
            number=1 if last is None else last.number + 1,
            outputs=outputs,
            deadlines=deadlines,
        ),
    )


def consumption(
    state: CompiledGraphSessionState, observed_at: int, *, output: int
) -> Command:
    """Return the request to consume one output slot of the invocation in progress."""
    invocation = state.in_progress
    return Command(
        kind=CommandKind.CONSUMPTION_REQUESTED,
        session=state.identity,
        observed_at=observed_at,
        invocation=None if invocation is None else invocation.identity,
        output=output,
    )
