"""The bounded, durable picture of a session: canonical JSON, at most 16,384 bytes.

It holds identities, protocol version, capacity, states, dispositions, deadlines, outputs,
outcome and codes: nothing that passed through an invocation, no handle, no text of an
error. It is for reading, not for recovery.
"""

import json
from dataclasses import asdict

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.shape import is_known
from django_ray.lifecycle.state import (
    CompiledGraphInvocationState,
    CompiledGraphSessionState,
)
from django_ray.lifecycle.terms import PROTOCOL_VERSION
from django_ray.lifecycle.vocabulary import InvocationState

_encoder = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


def lifecycle_snapshot(state: CompiledGraphSessionState) -> bytes:
    """Return the snapshot of a state, equal bytes for equal states.

    Raise ValueError for what is not a well-formed state: it could hold anything.
    """
    if not is_known(state):
        raise ValueError("There is no snapshot of what is not a well-formed state.")
    return _encoder.encode(_document(state)).encode()


def _document(state: CompiledGraphSessionState) -> dict[str, object]:
    identity, invocation, pending = state.identity, state.invocation, state.pending
    return {
        "action_sequence": None if state.issued == MAXIMUM_63 else state.issued + 1,
        "action_token": None if pending is None else pending.token,
        "capacity": asdict(state.capacity),
        "cleanup": state.cleanup,
        "deadlines": asdict(state.deadlines),
        "effect": state.effect,
        "fallback_open": state.fallback_open,
        "graph": state.graph,
        "invocation": None if invocation is None else _invocation(invocation),
        "invocation_state": InvocationState.NONE
        if invocation is None
        else invocation.state,
        "outcome": state.outcome,
        "protocol_version": PROTOCOL_VERSION,
        "retry": state.retry,
        "run": asdict(identity.run),
        "session": {
            "graph_key": identity.graph_key,
            "owner_epoch": identity.owner_epoch,
            "session_id": identity.session_id,
        },
        "session_state": state.state,
    }


def _invocation(invocation: CompiledGraphInvocationState) -> dict[str, object]:
    return {
        "deadlines": asdict(invocation.deadlines),
        "invocation_id": invocation.identity.invocation_id,
        "number": invocation.number,
        "outputs": invocation.outputs,
    }
