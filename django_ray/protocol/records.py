"""What is stored of a node, an edge and an event: canonical JSON, fields sorted.

Contract 2 bounds each of them; a detail record's base (state, times, try, attempt, host,
invocation) always fits the 256 bytes reserved for its node.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from django_ray.errors import IntegrityFault, LimitExceeded
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability, NodeState


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy of stored structs: frozen, no unknown fields, absent is not written."""


class Omitted(Stored, frozen=True):
    """The marker that stands where a value did not fit. Contract 2."""

    omitted: str


class Fault(Stored, frozen=True, omit_defaults=True):
    """A classified error as stored: class and redacted text, or its omission."""

    kind: str = ""
    omitted: str | UnsetType = UNSET
    text: str = ""


class Detail(Stored, frozen=True, omit_defaults=True, gc=False, rename={"try_": "try"}):
    """The latest state of one retained node. Times are milliseconds since the epoch.

    An omitted value is `{"omitted": reason}` in its place: `Omitted` where its type allows
    one, a field of the fault, the one key of the metrics, the raw bytes of the preview.
    """

    attempt: int | UnsetType = UNSET
    current: int | float | UnsetType = UNSET
    ended_ms: int | UnsetType = UNSET
    error: Fault | UnsetType = UNSET
    host: str | UnsetType = UNSET
    invocation: int = 0
    message: str | Omitted | UnsetType = UNSET
    metrics: dict[str, bool | int | float | str] | UnsetType = UNSET
    preview: msgspec.Raw | UnsetType = UNSET
    reported_ms: int | UnsetType = UNSET
    sequence: int = 0
    started_ms: int | UnsetType = UNSET
    state: NodeState = NodeState.PENDING
    submitted_ms: int | UnsetType = UNSET
    total: int | float | UnsetType = UNSET
    try_: int = 1


class NodeItem(Stored, frozen=True, array_like=True, gc=False):
    """One node in a topology page: rank is its longest path from a root."""

    ordinal: int
    id: str
    label: str
    stage: str
    rank: int


class EdgeItem(Stored, frozen=True, array_like=True, gc=False):
    """One edge in a topology page, by ordinals; ordered by (target, source)."""

    target: int
    source: int


class EventItem(Stored, frozen=True, omit_defaults=True, gc=False):
    """One recent event of the run: at most 1 KiB encoded."""

    at_ms: int
    kind: str
    ordinal: int | None = None
    text: str = ""


Encoding = Literal["identity", "zlib"]
PageKind = Literal["nodes", "edges"]
Size = Annotated[int, Meta(ge=0)]

_detail_decoder = msgspec.json.Decoder(Detail)
_events_decoder = msgspec.json.Decoder(tuple[EventItem, ...])


def encode(record: Stored) -> bytes:
    """Return a record's canonical bytes; raise LimitExceeded above 16 KiB."""
    data = canonical.encode(record)
    if len(data) > V1.record:
        raise LimitExceeded("record", V1.record, len(data))
    return data


def decode_detail(data: bytes) -> Detail:
    """Parse a stored detail record; raise IntegrityFault(CORRUPT) otherwise."""
    try:
        return _detail_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise IntegrityFault(
            "A stored node detail does not parse.", DetailAvailability.CORRUPT
        ) from exc


def decode_events(data: bytes) -> tuple[EventItem, ...]:
    """Parse a run's stored events; raise IntegrityFault(CORRUPT) otherwise."""
    try:
        return _events_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise IntegrityFault(
            "The stored events do not parse.", DetailAvailability.CORRUPT
        ) from exc
