"""What is stored of a node, an edge and an event: canonical JSON, fields sorted.

Contract 2 bounds each of them; a detail record's base (state, times, try, attempt, host,
invocation) always fits the 256 bytes reserved for its node. What is read back passes the
bounds again, so stored bytes that were changed are CORRUPT and never a larger record.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from django_ray.errors import IntegrityFault, LimitExceeded, ProtocolError
from django_ray.protocol import canonical, text, values
from django_ray.protocol.frames import (
    Count,
    Host,
    Label,
    Metrics,
    Milliseconds,
    NodeId,
    Number,
    Ordinal,
    Try,
)
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability, NodeState

Reason = Annotated[str, Meta(min_length=1, max_length=V1.metric_key)]
"""A fixed word: why a value is omitted."""


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy of stored structs: frozen, no unknown fields, absent is not written."""


class Omitted(Stored, frozen=True):
    """The marker that stands where a value did not fit. Contract 2."""

    omitted: Reason


class Fault(Stored, frozen=True, omit_defaults=True):
    """A classified error as stored: class and redacted text, or its omission."""

    kind: Annotated[str, Meta(max_length=V1.error_kind)] = ""
    omitted: Reason | UnsetType = UNSET
    text: Annotated[str, Meta(max_length=V1.error)] = ""


Message = Annotated[str, Meta(max_length=V1.message)]


class Detail(Stored, frozen=True, omit_defaults=True, gc=False, rename={"try_": "try"}):
    """The latest state of one retained node. Times are milliseconds since the epoch.

    An omitted value is `{"omitted": reason}` in its place: `Omitted` where its type allows
    one, a field of the fault, the one key of the metrics, the raw bytes of the preview.
    """

    attempt: Count | UnsetType = UNSET
    current: int | float | UnsetType = UNSET
    ended_ms: Milliseconds | UnsetType = UNSET
    error: Fault | UnsetType = UNSET
    host: Host | UnsetType = UNSET
    invocation: Number = 0
    message: Message | Omitted | UnsetType = UNSET
    metrics: Metrics | UnsetType = UNSET
    preview: msgspec.Raw | UnsetType = UNSET
    reported_ms: Milliseconds | UnsetType = UNSET
    sequence: Number = 0
    started_ms: Milliseconds | UnsetType = UNSET
    state: NodeState = NodeState.PENDING
    submitted_ms: Milliseconds | UnsetType = UNSET
    total: int | float | UnsetType = UNSET
    try_: Try = 1


class NodeItem(Stored, frozen=True, array_like=True, gc=False):
    """One node in a topology page: rank is its longest path from a root."""

    ordinal: Ordinal
    id: NodeId
    label: Label
    stage: Label
    rank: Count


class EdgeItem(Stored, frozen=True, array_like=True, gc=False):
    """One edge in a topology page, by ordinals; ordered by (target, source)."""

    target: Ordinal
    source: Ordinal


class EventItem(Stored, frozen=True, omit_defaults=True, gc=False):
    """One recent event of the run: at most 1 KiB encoded."""

    at_ms: Milliseconds
    kind: Annotated[str, Meta(min_length=1, max_length=V1.metric_key)]
    ordinal: Ordinal | None = None
    text: Annotated[str, Meta(max_length=V1.event_encoded)] = ""


Encoding = Literal["identity", "zlib"]
PageKind = Literal["nodes", "edges"]

EVENTS_BYTES = V1.events * (V1.event_encoded + 1) + 2
"""The largest array of events."""

_detail_decoder = msgspec.json.Decoder(Detail)
_events_decoder = msgspec.json.Decoder(
    Annotated[tuple[EventItem, ...], Meta(max_length=V1.events)]
)


def encode(record: Stored) -> bytes:
    """Return a record's canonical bytes; raise LimitExceeded above 16 KiB."""
    data = canonical.encode(record)
    _require_size("record", data, V1.record)
    return data


def decode_detail(data: bytes) -> Detail:
    """Parse a stored detail record, bounds included, or raise IntegrityFault(CORRUPT)."""
    try:
        _require_size("record", data, V1.record)
        detail = _detail_decoder.decode(data)
        _check_detail(detail)
    except (msgspec.MsgspecError, ValueError, RecursionError, ProtocolError) as exc:
        raise IntegrityFault(
            "A stored node detail does not parse.", DetailAvailability.CORRUPT
        ) from exc
    return detail


def decode_events(data: bytes) -> tuple[EventItem, ...]:
    """Parse a run's stored events, bounds included, or raise IntegrityFault(CORRUPT)."""
    try:
        _require_size("events", data, EVENTS_BYTES)
        events: tuple[EventItem, ...] = _events_decoder.decode(data)
        for event in events:
            _require_size("event", canonical.encode(event), V1.event_encoded)
            text.require_line(event.kind, "event", V1.metric_key)
            text.require(event.text, "event", V1.event_encoded)
    except (msgspec.MsgspecError, ValueError, ProtocolError) as exc:
        raise IntegrityFault(
            "The stored events do not parse.", DetailAvailability.CORRUPT
        ) from exc
    return events


def require_lines(nodes: tuple[NodeItem, ...]) -> None:
    """Raise ProtocolError where a text of a node is not one bounded, clean line."""
    for node in nodes:
        text.require_line(node.id, "node_id", V1.node_id)
        text.require_line(node.label, "label", V1.label)
        text.require_line(node.stage, "label", V1.label)


def _check_detail(detail: Detail) -> None:
    """Bound what the types cannot say: UTF-8 bytes, refused characters, metrics."""
    if isinstance(detail.message, str):
        text.require(detail.message, "message", V1.message)
    elif isinstance(detail.message, Omitted):
        text.require_line(detail.message.omitted, "omitted", V1.metric_key)
    if not isinstance(detail.error, UnsetType):
        _check_fault(detail.error)
    if not isinstance(detail.host, UnsetType):
        text.require_line(detail.host, "host", V1.host)
    if not isinstance(detail.metrics, UnsetType):
        values.require_metrics(detail.metrics)
    if not isinstance(detail.preview, UnsetType):
        values.require_preview(bytes(detail.preview))
    current = None if isinstance(detail.current, UnsetType) else detail.current
    total = None if isinstance(detail.total, UnsetType) else detail.total
    values.require_progress(current, total)


def _check_fault(fault: Fault) -> None:
    text.require_line(fault.kind, "error", V1.error_kind)
    text.require(fault.text, "error", V1.error - len(fault.kind.encode()))
    if isinstance(fault.omitted, str):
        text.require_line(fault.omitted, "omitted", V1.metric_key)


def _require_size(boundary: str, data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise LimitExceeded(boundary, limit, len(data))
