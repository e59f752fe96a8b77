"""The compact picture of a compiled session that the summary carries. Contract 4.9.

The whole snapshot, up to 16 KiB, is a column of the run's row; the summary is read at every
poll, so it holds the facts a page shows, in at most 2 KiB.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from django_ray.errors import ProtocolError
from django_ray.protocol import canonical, values
from django_ray.protocol.frames import Number
from django_ray.protocol.limits import V1

Word = Annotated[str, Meta(max_length=64)]


class _Session(msgspec.Struct, frozen=True):
    owner_epoch: Number
    session_id: Annotated[str, Meta(max_length=128)]


class _Invocation(msgspec.Struct, frozen=True):
    invocation_id: Annotated[str, Meta(max_length=128)]
    number: Number
    outputs: Annotated[tuple[Word, ...], Meta(max_length=64)]


class _Snapshot(msgspec.Struct, frozen=True):
    cleanup: Annotated[tuple[Word, ...], Meta(max_length=8)]
    effect: Word
    graph: Word
    invocation: _Invocation | None
    invocation_state: Word
    outcome: Word | None
    protocol_version: Number
    retry: Word
    session: _Session
    session_state: Word


class _Compact(msgspec.Struct, frozen=True):
    graph: Word
    owner_epoch: Number


_decoder = msgspec.json.Decoder(_Snapshot)
_compact_decoder = msgspec.json.Decoder(_Compact)


def compact(snapshot: bytes) -> bytes | None:
    """Return the facts of a lifecycle snapshot as canonical JSON; None if it is none.

    Outputs are counted by their state. What would not fit is not there either, nor what no
    summary may hold: text of more than a line.
    """
    try:
        told = _decoder.decode(snapshot)
    except (msgspec.MsgspecError, ValueError):
        return None
    invocation = told.invocation
    outputs: dict[str, int] = {}
    for state in () if invocation is None else invocation.outputs:
        outputs[state] = outputs.get(state, 0) + 1
    facts = {
        "cleanup": told.cleanup,
        "effect": told.effect,
        "graph": told.graph,
        "invocation": None if invocation is None else invocation.number,
        "invocation_id": None if invocation is None else invocation.invocation_id,
        "invocation_state": told.invocation_state,
        "outcome": told.outcome,
        "outputs": outputs,
        "owner_epoch": told.session.owner_epoch,
        "protocol_version": told.protocol_version,
        "retry": told.retry,
        "session_id": told.session.session_id,
        "session_state": told.session_state,
    }
    try:
        values.require_lines(facts)
    except ProtocolError:
        return None
    data = canonical.encode(facts)
    return data if len(data) <= V1.session_compact else None


def was_prepared(told: bytes) -> bool:
    """Claim that preparation began in the session, or in one of its run before it."""
    try:
        known = _compact_decoder.decode(told)
    except (msgspec.MsgspecError, ValueError):
        return False
    return known.owner_epoch > 1 or known.graph != "UNPREPARED"
