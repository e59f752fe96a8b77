"""Snapshots of schemas 1 and 2, which older writers kept in `progress_data`: aggregates only.

A snapshot is one JSON object that holds a whole graph, written by anybody's old process. It
leaves PostgreSQL only within its cap; of its nodes nothing is built and nothing is shown;
what is read of it is a handful of small values, each checked by itself. For compatibility,
not for polling: a panel that polls shows such a run as not yet reported. Contract 7.
"""

from typing import Annotated, Literal

import msgspec
from django.db.models import (
    BinaryField,
    Case,
    Exists,
    F,
    Func,
    OuterRef,
    Value,
    When,
)
from msgspec import Meta, Raw

from django_ray.errors import IntegrityFault
from django_ray.identity import MAXIMUM_63
from django_ray.models.executions import Octets, RayTaskExecution, TaskAttempt
from django_ray.models.progress import WorkflowRun
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import context
from django_ray.readers.picture import Execution, Legacy, LegacyState, Oversized

SMALL = 64
"""So many bytes a value may take that is read: enough for any of them."""

IDENTITY = 1_024
PART = 1_048_576
"""Edges are counted in parts of this size, so their number costs no memory."""

CUTS = 8
"""So many places are tried to cut a part at: an id may hold what looks like the end."""

MOST_EDGES = V1.legacy_snapshot // len('{"source":"","target":""},')
"""No snapshot lists more: what does is not counted to its end."""

_END = ord("}")
_ABSENT = Raw(b"")
_FIRST_SCHEMA = Raw(b"1")


class _Snapshot(msgspec.Struct, gc=False):
    """The fields that are read, unparsed; any others are passed over."""

    schema_version: Raw = _FIRST_SCHEMA
    run_identity: Raw = _ABSENT
    revision: Raw = _ABSENT
    state: Raw = _ABSENT
    progress_percent: Raw = _ABSENT
    updated_at: Raw = _ABSENT
    total_nodes: Raw = _ABSENT
    completed_nodes: Raw = _ABSENT
    failed_nodes: Raw = _ABSENT
    running_nodes: Raw = _ABSENT
    pending_nodes: Raw = _ABSENT
    graph: Raw = _ABSENT


class _Graph(msgspec.Struct, gc=False):
    edges: Raw = _ABSENT


class _Edge(msgspec.Struct, gc=False, frozen=True):
    """Any object: an edge is only counted."""


class _Identity(msgspec.Struct, frozen=True):
    schema_version: Literal[1]
    run_id: str
    task_execution_pk: int
    attempt_number: int
    execution_generation: int


_snapshot = msgspec.json.Decoder(_Snapshot)
_schema: msgspec.json.Decoder[Literal[1, 2]] = msgspec.json.Decoder(Literal[1, 2])
_identity = msgspec.json.Decoder(_Identity)
_graph = msgspec.json.Decoder(_Graph)
_edges = msgspec.json.Decoder(list[_Edge])
_state: msgspec.json.Decoder[LegacyState] = msgspec.json.Decoder(LegacyState.__value__)
_count = msgspec.json.Decoder(Annotated[int, Meta(ge=0, le=MAXIMUM_63)])
_percent = msgspec.json.Decoder(Annotated[float, Meta(ge=0, le=100)])
_seconds = msgspec.json.Decoder(Annotated[float, Meta(ge=0, lt=253_402_300_800)])


class _Utf8(Func):
    """A text's UTF-8 bytes: as text, 64 MiB of it may take Python four times as much."""

    function = "convert_to"
    output_field = BinaryField()


def read(execution: Execution, *, superseded: bool) -> Legacy | Oversized | None:
    """Return what a legacy snapshot says of the execution's current run.

    `superseded`: a summary of schema 3 was published by an earlier run, so a snapshot that
    does not say which run it is of is older still. So it is where any run has left more than
    a snapshot: a retry takes the summary from the row. None where there is no snapshot of
    this run. Raises IntegrityFault(CORRUPT) for what is no snapshot at all.
    """
    if execution.run_id is None:
        return None
    data = F("progress_data")
    attempts = TaskAttempt.objects.filter(
        execution=OuterRef("pk"), terminal_summary__isnull=False
    )
    runs = WorkflowRun.objects.filter(execution=OuterRef("pk"))
    fits = When(size__lte=V1.legacy_snapshot, then=_Utf8(data, Value("UTF8")))
    rows = (
        RayTaskExecution.objects.filter(
            pk=execution.pk,
            run_id=execution.run_id,
            attempt_number=execution.attempt_number,
            execution_generation=execution.execution_generation,
            progress_data__isnull=False,
        )
        .annotate(size=Octets(data), known=Exists(attempts) | Exists(runs))
        .values_list("size", Case(fits), "known")
    )
    with context.answering():
        row = rows.first()
    if row is None:
        return None
    size, body, known = row
    if body is None:
        return Oversized(size=size)
    return decode(bytes(body), execution, superseded=superseded or known)


def decode(data: bytes, execution: Execution, *, superseded: bool) -> Legacy | None:
    """Return the aggregates of a snapshot; None when it is another run's.

    Memory stays within the snapshot's own size and a part of it, whatever it holds.
    """
    try:
        snapshot = _snapshot.decode(data)
        schema = _schema.decode(_within(snapshot.schema_version, SMALL))
        if not _is_of(snapshot, schema, execution, superseded=superseded):
            return None
        edges = _count_edges(snapshot.graph)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise IntegrityFault(
            "A legacy snapshot does not parse.", DetailAvailability.CORRUPT
        ) from exc
    seconds = _read(snapshot.updated_at, _seconds, None)
    return Legacy(
        schema=schema,
        state=_read(snapshot.state, _state, "RUNNING"),
        revision=_read(snapshot.revision, _count, 0),
        percent=int(_read(snapshot.progress_percent, _percent, 0.0)),
        observed_at_ms=None if seconds is None else int(seconds * 1_000),
        nodes=_read(snapshot.total_nodes, _count, 0),
        succeeded=_read(snapshot.completed_nodes, _count, 0),
        failed=_read(snapshot.failed_nodes, _count, 0),
        running=_read(snapshot.running_nodes, _count, 0),
        pending=_read(snapshot.pending_nodes, _count, 0),
        edges=edges,
    )


def _is_of(
    snapshot: _Snapshot,
    schema: Literal[1, 2],
    execution: Execution,
    *,
    superseded: bool,
) -> bool:
    """Claim that the snapshot is the current run's; schema 1 cannot say, and may be."""
    said = snapshot.run_identity
    if schema == 1 and not len(memoryview(said)):
        return not superseded
    return _identity.decode(_within(said, IDENTITY)) == _Identity(
        schema_version=1,
        run_id=str(execution.run_id),
        task_execution_pk=execution.pk,
        attempt_number=execution.attempt_number,
        execution_generation=execution.execution_generation,
    )


def _within(raw: Raw, limit: int) -> bytes:
    view = memoryview(raw)
    if len(view) > limit:
        raise ValueError("A small value is large.")
    return bytes(view)


def _read[T, D](raw: Raw, decoder: msgspec.json.Decoder[T], default: D) -> T | D:
    """Return one small value, or the default for whatever it is not."""
    try:
        return decoder.decode(_within(raw, SMALL))
    except (msgspec.MsgspecError, ValueError):
        return default


def _count_edges(graph: Raw) -> int | None:
    """Return how many edges the graph lists, None where that cannot be told."""
    try:
        view = memoryview(_graph.decode(graph).edges)
        if not len(view) or view[0] != ord("["):
            return None
        count, start = 0, 1
        while start < len(view):
            number, start = _count_part(view, start)
            count += number
            if count > MOST_EDGES:
                return None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return count


def _count_part(view: memoryview, start: int) -> tuple[int, int]:
    """Count the edges from `start`, where one begins; return where the next part does.

    What was cut inside a string or an object does not parse, so what parses was cut
    between two edges.
    """
    if len(view) - start <= PART:
        return len(_edges.decode(b"[" + view[start:])), len(view)
    part = bytes(view[start : start + PART])
    end = len(part)
    for _ in range(CUTS):
        end = part.rfind(_END, 0, end)
        rest = part[end + 1 :].lstrip()
        if end < 0 or rest[:1] != b",":
            continue
        try:
            number = len(_edges.decode(b"[%b]" % part[: end + 1]))
        except msgspec.MsgspecError:
            continue
        return number, start + part.index(b",", end) + 1
    raise ValueError("The edges cannot be cut between two of them.")
