"""The stored row of a run's stages: counts, times, durations, edges. Architecture 6.

Every node of a run belongs to one of 63 named stages, in order of first node, or to
`other`. One row of at most 64 KiB carries what the page draws at any size. Contract 2, 4.9
and 4.10.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from django_ray.errors import IntegrityFault, LimitExceeded, ProtocolError
from django_ray.progress.series import Running
from django_ray.protocol import canonical, text
from django_ray.protocol.frames import Milliseconds, Number
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored
from django_ray.protocol.vocabulary import DetailAvailability

SCHEMA: Final = 1
OTHER = "other"
OTHER_INDEX = 63
"""The index of `other`, also while fewer stages are known."""


class Stage(Stored, frozen=True, array_like=True):
    """One stage as stored; `counts` in the canonical order of states.

    `durations` counts ended nodes by `bounds`, trailing zeros left out. `kept` are the
    retained ones among its nodes.
    """

    index: Annotated[int, Meta(ge=0, le=OTHER_INDEX)]
    label: Annotated[str, Meta(max_length=V1.stage_label)]
    rank: Number
    kept: Number
    counts: tuple[Number, Number, Number, Number, Number, Number, Number]
    started_ms: Milliseconds | None
    ended_ms: Milliseconds | None
    p50_ms: Number | None
    p95_ms: Number | None
    longest_ms: Number | None
    durations: Annotated[tuple[Number, ...], Meta(max_length=V1.stage_buckets)]


class StageEdge(Stored, frozen=True, array_like=True):
    """How many edges lead from one stage's nodes to another's."""

    source: Annotated[int, Meta(ge=0, le=OTHER_INDEX)]
    target: Annotated[int, Meta(ge=0, le=OTHER_INDEX)]
    edges: Number


class FirstFailure(Stored, frozen=True):
    """The run's first failure, as far as the row has room for it."""

    kind: Annotated[str, Meta(max_length=V1.error_kind)]
    node_id: Annotated[str, Meta(max_length=V1.node_id)]
    ordinal: Number
    text: Annotated[str, Meta(max_length=V1.first_failure)]


class StageRow(Stored, frozen=True):
    """The stored row of a run; edges heaviest first, `edges_omitted` of them left out.

    `folded` counts the stages that share `other`.
    """

    edges: Annotated[tuple[StageEdge, ...], Meta(max_length=V1.stage_edges)]
    edges_omitted: Number
    failure: FirstFailure | None
    folded: Number
    running: Running | None
    schema: Literal[1]
    stages: Annotated[tuple[Stage, ...], Meta(max_length=V1.stages)]


_decoder = msgspec.json.Decoder(StageRow)


def decode(data: bytes) -> StageRow:
    """Parse a stored row, bounds included, or raise IntegrityFault(CORRUPT)."""
    try:
        if len(data) > V1.stage_row:
            raise LimitExceeded("stage_row", V1.stage_row, len(data))
        row = _decoder.decode(data)
        _check(row)
    except (msgspec.MsgspecError, ValueError, RecursionError, ProtocolError) as exc:
        raise IntegrityFault(
            "A stored stage row does not parse.", DetailAvailability.CORRUPT
        ) from exc
    return row


def retaining(data: bytes, indexes: bytes) -> bytes:
    """Return a row whose stages keep what `indexes` says: the stage of each kept node.

    For a topology that was cut by its size, which those who count nodes do not know.
    """
    row = decode(data)
    stages = [replace(stage, kept=indexes.count(stage.index)) for stage in row.stages]
    return canonical.encode(replace(row, stages=tuple(stages)))


def _check(row: StageRow) -> None:
    """Bound what the types cannot say: UTF-8 bytes, refused characters, one index each."""
    indexes = [stage.index for stage in row.stages]
    if indexes != sorted(set(indexes)):
        raise ProtocolError("unordered_stages")
    for stage in row.stages:
        text.require_line(stage.label, "stage_label", V1.stage_label)
    failure = row.failure
    if failure is not None:
        text.require_line(failure.kind, "error", V1.error_kind)
        text.require_line(failure.node_id, "node_id", V1.node_id)
        text.require(failure.text, "first_failure", V1.first_failure)
