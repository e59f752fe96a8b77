"""An owner's loss as its outer task reduces it: from the last state the owner returned.

Pure, and the reducer's alone: what was sent and never answered is assumed to have been
asked for, at the time of sending, before the loss is told. Lifecycle 5.
"""

from collections.abc import Sequence

from actors.owner import OwnerTerms, begun
from django_ray.lifecycle import budgets, events
from django_ray.lifecycle.events import Callback, Command
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import Transition
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind, SessionState

Sent = tuple[CommandKind, int]
"""A command that was sent to the owner, and when."""


def reduced(
    state: CompiledGraphSessionState, event: Command | Callback
) -> CompiledGraphSessionState:
    """Return the next state; the same where the event is rejected."""
    result = reduce_lifecycle(state, event)
    return result.state if isinstance(result, Transition) else state


def assumed(
    state: CompiledGraphSessionState,
    terms: OwnerTerms,
    invocation_id: str,
    sent: Sequence[Sent],
) -> CompiledGraphSessionState:
    """Return the state in which an invocation that was sent has been asked for.

    It is admitted when the first of `sent` was, and then all of it is requested, each at
    its time. Where the session was torn down before, the owner is taken to have prepared
    the next.
    """
    sent_ms = sent[0][1]
    if state.state is SessionState.TORN_DOWN:
        epoch = state.identity.owner_epoch + 1
        name = f"{state.identity.session_id[:100]}+{epoch}"
        state = begun(terms, epoch, state.last_invocation, name)
        for kind, said in (
            (CommandKind.VALIDATION_REQUESTED, CallbackKind.VALIDATED),
            (CommandKind.PREPARATION_REQUESTED, CallbackKind.PREPARED),
        ):
            state = reduced(state, events.command(state, kind, sent_ms))
            state = _answered(state, said, sent_ms)
    admission = events.admission(
        state,
        sent_ms,
        invocation_id=invocation_id,
        outputs=terms.outputs,
        deadlines=budgets.of_invocation(terms.budgets, sent_ms),
    )
    state = _answered(reduced(state, admission), CallbackKind.ADMITTED, sent_ms)
    for kind, at_ms in sent:
        state = reduced(state, events.command(state, kind, at_ms))
    return state


def _answered(
    state: CompiledGraphSessionState, said: CallbackKind, at_ms: int
) -> CompiledGraphSessionState:
    action = state.pending
    if action is None:
        return state
    return reduced(state, events.answer(action, said, at_ms))
