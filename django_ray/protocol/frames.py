"""The wire between producers and the collector: format 1. Contract 6.

A frame is msgpack, a tagged array all the way down, decoded once and then trusted. The
decoder bounds the bytes before it parses, the number of records while it parses, and every
record after (text in UTF-8 bytes, canonical metrics), so the decoded size is bounded
without a second encoding. Decoders check constraints, constructors do not: producers build
records through `text` and `values`.

Dependencies travel as runs of consecutive ordinals, `(first, count, first, count, …)`,
ascending: a node that joins a million others is one short record. `further` counts
dependencies past `Limits.dependency_runs` runs: they are counted edges, never retained.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.identity import MAXIMUM_63
from django_ray.protocol import text, values
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NODE_STATES, NodeState

FORMAT: Final = 1

MAXIMUM_ORDINAL = 2**31 - 1
MAXIMUM_MILLISECONDS = 253_402_300_799_999
"""The last millisecond of the year 9999, so that every time is a valid date."""

FIRST_TRY = 1
"""The try of every node that nobody has retried: what Ray repeats is none. Contract 4.3."""

Ordinal = Annotated[int, Meta(ge=0, le=MAXIMUM_ORDINAL)]
Count = Annotated[int, Meta(ge=0, le=MAXIMUM_ORDINAL)]
Positive = Annotated[int, Meta(ge=1, le=MAXIMUM_63)]
Try = Annotated[int, Meta(ge=1, le=MAXIMUM_ORDINAL)]
Milliseconds = Annotated[int, Meta(ge=0, le=MAXIMUM_MILLISECONDS)]
Number = Annotated[int, Meta(ge=0, le=MAXIMUM_63)]
NodeId = Annotated[str, Meta(min_length=1, max_length=V1.node_id)]
Label = Annotated[str, Meta(max_length=V1.label)]
Host = Annotated[str, Meta(max_length=V1.host)]
TaskId = Annotated[bytes, Meta(min_length=1, max_length=64)]
MetricValue = bool | int | float | str
Metrics = Annotated[dict[str, MetricValue], Meta(max_length=V1.metrics_keys)]
Runs = Annotated[tuple[Ordinal, ...], Meta(max_length=2 * V1.dependency_runs)]
StateBytes = Annotated[bytes, Meta(max_length=V1.frame_cut)]


class ProducerKind(StrEnum):
    """Who reports."""

    coordinator = "coordinator"
    worker = "worker"
    owner = "owner"


class Status(StrEnum):
    """What the collector made of a frame."""

    OK = "OK"
    RESYNC = "RESYNC"
    FENCED = "FENCED"
    REFUSED = "REFUSED"
    NOT_ADMITTED = "NOT_ADMITTED"


class Wire(
    msgspec.Struct,
    frozen=True,
    array_like=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """The policy of every wire struct: a frozen array without unknown elements."""


class Failure(Wire, frozen=True):
    """A classified error: its class, and text already redacted. Together ≤ 2 KiB."""

    kind: Annotated[str, Meta(min_length=1, max_length=V1.error_kind)]
    text: Annotated[str, Meta(max_length=V1.error)]


class Declare(Wire, frozen=True, tag="declare"):
    """How many nodes a call of `run` or `fan_out` will register. Contract 4.10."""

    call: Ordinal
    number: Count


class Node(Wire, frozen=True, tag="node"):
    """One registered node; every dependency's ordinal is smaller than its own."""

    ordinal: Ordinal
    id: NodeId
    label: Label
    stage: Label
    dependencies: Runs = ()
    further: Count = 0


class Task(Wire, frozen=True, tag="task"):
    """The Ray task that runs a node, for leaves that know only their task id."""

    ordinal: Ordinal
    task_id: TaskId


class State(Wire, frozen=True, tag="state"):
    """A node's state at `at_ms`, ordered by (invocation, try, rank of state)."""

    ordinal: Ordinal
    invocation: Number
    try_: Try
    state: NodeState
    at_ms: Milliseconds
    started_ms: Milliseconds | None = None
    host: Host | None = None
    ray_attempt: Count | None = None
    error: Failure | None = None


class Progress(Wire, frozen=True, tag="progress"):
    """A leaf's own report, ordered by (invocation, try, sequence of its process)."""

    target: Ordinal | TaskId
    invocation: Number
    try_: Try
    sequence: Positive
    at_ms: Milliseconds
    current: float | int | None = None
    total: float | int | None = None
    message: Annotated[str, Meta(max_length=V1.message)] | None = None
    metrics: Metrics | None = None
    host: Host | None = None


class States(Wire, frozen=True, tag="states"):
    """State with try, and stage, of consecutive ordinals: one byte each. Contract 4.2.

    An empty one is a mark of a resync: `NEWS` or `RESENT`.
    """

    first: Ordinal
    states: StateBytes
    stages: StateBytes


NEWS = States(0, b"", b"")
"""Before it stands what the collector, or the one before it, has applied already: the
arrays, and records that are not known committed. Behind it what none has applied."""

RESENT = States(1, b"", b"")
"""The resync is complete: all that the coordinator holds has been sent."""


class Preview(Wire, frozen=True, tag="preview"):
    """An opt-in output preview: canonical JSON within the preview's bounds."""

    ordinal: Ordinal
    invocation: Number
    try_: Try
    value: Annotated[bytes, Meta(max_length=V1.preview_encoded)]


class Event(Wire, frozen=True, tag="event"):
    """Something worth telling, of one node or of the run."""

    at_ms: Milliseconds
    kind: Annotated[str, Meta(min_length=1, max_length=V1.metric_key)]
    ordinal: Ordinal | None
    text: Annotated[str, Meta(max_length=V1.event_encoded)]


class Session(Wire, frozen=True, tag="session"):
    """The bounded snapshot of a compiled session: canonical JSON."""

    snapshot: Annotated[bytes, Meta(max_length=V1.session_snapshot)]


class End(Wire, frozen=True, tag="end"):
    """The producer-authored end of the run."""

    outcome: Literal["SUCCEEDED", "FAILED", "CANCELLED"]
    at_ms: Milliseconds
    error: Failure | None = None


Record = (
    Declare | Node | Task | State | Progress | States | Preview | Event | Session | End
)


class Frame(Wire, frozen=True):
    """One message of a producer; numbers rise by one from 1 within a producer."""

    format: Literal[1]
    run_id: Annotated[str, Meta(min_length=36, max_length=36)]
    generation: Positive
    producer: Annotated[bytes, Meta(min_length=16, max_length=16)]
    kind: ProducerKind
    number: Positive
    writer_epoch: Number
    records: Annotated[tuple[Record, ...], Meta(max_length=V1.frame_records)]


class Acknowledgement(Wire, frozen=True):
    """The collector's answer: applied now, committed for good, when to report again."""

    format: Literal[1]
    status: Status
    writer_epoch: Number
    applied: Number
    committed: Number
    interval_ms: Annotated[int, Meta(ge=0, le=3_600_000)]
    reason: Annotated[str, Meta(max_length=V1.metric_key)] = ""
    unknown: Annotated[tuple[TaskId, ...], Meta(max_length=V1.frame_records)] = ()


_STATE_BYTES = bytes(byte for byte in range(256) if byte & 7 < len(NODE_STATES))
_STAGE_BYTES = bytes(range(V1.stages))

_encoder = msgspec.msgpack.Encoder()
_frame_decoder = msgspec.msgpack.Decoder(Frame)
_acknowledgement_decoder = msgspec.msgpack.Decoder(Acknowledgement)


def encode(message: Frame | Acknowledgement | Record) -> bytes:
    """Encode a frame, one of its records (to know its size), or an answer."""
    return _encoder.encode(message)


def decode(data: bytes) -> Frame:
    """Parse and bound one frame; raise ProtocolError with a fixed reason otherwise."""
    if len(data) > V1.frame:
        raise LimitExceeded("frame", V1.frame, len(data))
    try:
        frame = _frame_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise ProtocolError("malformed_frame") from exc
    if frame.kind is ProducerKind.worker:
        _check_worker(frame.records, len(data))
    for record in frame.records:
        require(record)
    return frame


def decode_acknowledgement(data: bytes) -> Acknowledgement:
    """Parse the answer to a frame; raise ProtocolError otherwise."""
    try:
        return _acknowledgement_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise ProtocolError("malformed_acknowledgement") from exc


_WORKERS: Final[frozenset[type]] = frozenset((State, Progress, Preview, Event))


def _check_worker(records: tuple[Record, ...], size: int) -> None:
    """Refuse what only the coordinator says: the graph, its ends, and the run's end."""
    if size > V1.worker_frame:
        raise LimitExceeded("worker_frame", V1.worker_frame, size)
    kinds = set(map(type, records))
    if not kinds <= _WORKERS:
        raise ProtocolError("foreign_record")
    if State in kinds and any(
        isinstance(record, State) and record.state is not NodeState.RUNNING
        for record in records
    ):
        raise ProtocolError("foreign_record")


def require(record: Record) -> None:
    """Raise ProtocolError for what types cannot say: UTF-8 bytes, characters, pairs."""
    check = _CHECKS.get(type(record))
    if check is not None:
        check(record)


def _check_state(record: State) -> None:
    if record.error is not None:
        _check_failure(record.error)
    if record.host is not None:
        text.require_line(record.host, "host", V1.host)


def _check_event(record: Event) -> None:
    text.require_line(record.kind, "event", V1.metric_key)
    text.require(record.text, "event", V1.event_encoded)


def _check_end(record: End) -> None:
    if record.error is not None:
        _check_failure(record.error)


def _check_preview(record: Preview) -> None:
    values.require_preview(record.value)


def _check_session(record: Session) -> None:
    values.require_canonical(record.snapshot)


def _check_states(record: States) -> None:
    if len(record.states) != len(record.stages):
        raise ProtocolError("unpaired_states")
    if record.states.translate(None, _STATE_BYTES):
        raise ProtocolError("unknown_state")
    if record.stages.translate(None, _STAGE_BYTES):
        raise ProtocolError("unknown_stage")


def _check_failure(failure: Failure) -> None:
    text.require_line(failure.kind, "error", V1.error_kind)
    text.require(failure.text, "error", V1.error - len(failure.kind.encode()))


def _check_progress(record: Progress) -> None:
    current, total = record.current, record.total
    # Most reports are whole numbers in order: seen at one look.
    if not (
        type(current) is type(total) is int
        and 0 <= current <= total <= values.MAXIMUM_INTEGER
    ):
        values.require_progress(current, total)
    if record.message is not None:
        text.require(record.message, "message", V1.message)
    if record.metrics is not None:
        values.require_metrics(record.metrics)
    if record.host is not None:
        text.require_line(record.host, "host", V1.host)


def _check_node(node: Node) -> None:
    text.require_line(node.id, "node_id", V1.node_id)
    text.require_line(node.label, "label", V1.label)
    text.require_line(node.stage, "label", V1.label)
    runs = node.dependencies
    if len(runs) % 2:
        raise ProtocolError("malformed_dependencies")
    after = 0
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        if first < after or count < 1 or first + count > node.ordinal:
            raise ProtocolError("malformed_dependencies")
        after = first + count


_CHECKS: Final[dict[type, Callable[..., None]]] = {
    State: _check_state,
    Progress: _check_progress,
    Node: _check_node,
    Event: _check_event,
    End: _check_end,
    States: _check_states,
    Preview: _check_preview,
    Session: _check_session,
}
"""By type, as frames are many; what its types say in full is not in it."""
