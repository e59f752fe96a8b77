"""What a collector leaves to the next one of its run, and no reader reads.

A few values that neither the summary nor the detail holds, written with every publication
that changes something, in the run row's own column. Contract 2, 4.4 and 4.6.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from django_ray.errors import IntegrityFault
from django_ray.protocol import canonical
from django_ray.protocol.frames import Count, Number, Ordinal, Try
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored
from django_ray.protocol.vocabulary import DetailAvailability, TruncationReason

SCHEMA: Final = 1
KEY_BYTES = 8
"""So much of a SHA-256 tells a stage's label or a host's name from any other's."""

Key = Annotated[str, Meta(pattern=rf"\A[0-9a-f]{{{2 * KEY_BYTES}}}\Z")]
Producer = Annotated[str, Meta(pattern=r"\A([0-9a-f]{32})?\Z")]


class Bequest(Stored, frozen=True):
    """Format 1, canonical JSON within `V1.bequest` bytes.

    All of the coordinator's frames up to `applied` are in this publication; its id is
    `producer`, empty before its first frame. `registered` counts the nodes that are in the
    totals, whatever is retained of them. `stages` are the keys of the named stages, by
    index, `hosts` those of the first hosts seen. `running` are nodes without detail that
    their leaves said to run, each with its try: nobody would say so again. `reasons` tell
    why nodes are not in the detail; `nodes_ended` and `edges_ended` why the topology takes
    no more of them.
    """

    applied: Number
    edges_ended: TruncationReason | None
    hosts: Annotated[tuple[Key, ...], Meta(max_length=V1.bequest_hosts)]
    nodes_ended: TruncationReason | None
    producer: Producer
    reasons: tuple[TruncationReason, ...]
    registered: Count
    running: Annotated[
        tuple[tuple[Ordinal, Try], ...], Meta(max_length=V1.bequest_running)
    ]
    schema: Literal[1]
    stages: Annotated[tuple[Key, ...], Meta(max_length=V1.stages)]


_decoder = msgspec.json.Decoder(Bequest)


def key(text: str) -> str:
    """Return the short key of a label or a name."""
    return canonical.node_key(text)[:KEY_BYTES].hex()


def encode(bequest: Bequest) -> bytes:
    """Return the column's canonical bytes: within their bound, as every part is."""
    return canonical.encode(bequest)


def decode(data: bytes) -> Bequest:
    """Parse the column; raise IntegrityFault(CORRUPT) otherwise."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise IntegrityFault(
            "What a collector left does not parse.", DetailAvailability.CORRUPT
        ) from exc
