"""A run by its stages: counts, times, the edges between them, at any size.

Exact also for nodes that are not retained. Where the detail is complete, the stages must
add up to the summary's counts, else they are CORRUPT. Architecture 6.
"""

import uuid
from collections.abc import Sequence

from django.db.models import Case, F, When

from django_ray.errors import IntegrityFault
from django_ray.models.progress import RunStages
from django_ray.progress import stages as stage_row
from django_ray.progress.series import Running
from django_ray.progress.stages import StageRow
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts, Part
from django_ray.protocol.vocabulary import NODE_STATES, DetailAvailability
from django_ray.readers import run
from django_ray.readers.access import Viewer
from django_ray.readers.context import Selected
from django_ray.readers.run import Detailed, Query, RunPart, Unavailable


class Stage(Part, frozen=True, kw_only=True):
    """One stage. Times in milliseconds, `kept` of its nodes with detail."""

    first_start_ms: int | None
    index: int
    kept: int
    label: str
    last_end_ms: int | None
    longest_ms: int | None
    node_counts: NodeCounts
    p50_ms: int | None
    p95_ms: int | None
    rank: int


class StageEdge(Part, frozen=True, kw_only=True):
    """How many edges lead from one stage's nodes to another's."""

    edges: int
    source: int
    target: int


class FirstFailure(Part, frozen=True, kw_only=True):
    """The run's first failure; its id is empty when the node is not retained."""

    id: str
    kind: str
    ordinal: int
    text: str


class Series(Part, frozen=True, kw_only=True):
    """Most nodes running at once, by interval."""

    buckets: tuple[int, ...]
    from_ms: int
    peak: int
    width_ms: int


class Stages(Part, frozen=True, kw_only=True):
    """The stages in order of their first node, the heaviest edges first.

    `folded` callables share the stage `other`; `edges_omitted` edges are not told.
    """

    edges: tuple[StageEdge, ...]
    edges_omitted: int
    first_failure: FirstFailure | None
    folded: int
    items: tuple[Stage, ...]
    run: RunPart
    running: Series | None


def stages(
    public_id: uuid.UUID, viewer: Viewer, query: Query
) -> Stages | Unavailable | None:
    """Return the run's stages, in one statement through a byte guard."""
    return run.of_detail(public_id, viewer, query, read)


def load(selected: Selected) -> StageRow:
    """Return the stored row; raise IntegrityFault, MISSING or CORRUPT."""
    fits = When(body__octets__lte=V1.stage_row, then=F("body"))
    stored = RunStages.objects.filter(run_id=selected.run_pk).values_list(
        Case(fits), flat=True
    )
    for body in stored:
        return stage_row.decode(bytes(body or b""))
    raise IntegrityFault("A run's stages are not there.", DetailAvailability.MISSING)


def counts(stage: stage_row.Stage) -> NodeCounts:
    """Return a stage's counts by name."""
    named = zip(NODE_STATES, stage.counts, strict=True)
    return NodeCounts(**{state.lower(): count for state, count in named})


def add_up(parts: Sequence[NodeCounts], whole: NodeCounts) -> bool:
    """Claim that the stages' counts are together the run's, state by state."""
    return all(
        sum(part.of(state) for part in parts) == whole.of(state)
        for state in NODE_STATES
    )


def read(detailed: Detailed) -> Stages:
    """Return the stages of a run whose detail can be read; raise IntegrityFault."""
    row = load(detailed.selected)
    items = tuple(_stage(stage) for stage in row.stages)
    whole, complete = detailed.summary.node_counts, detailed.summary.detail.complete
    if complete and not add_up([stage.node_counts for stage in items], whole):
        raise IntegrityFault(
            "The stages do not add up to the summary.", DetailAvailability.CORRUPT
        )
    failure = row.failure
    return Stages(
        edges=tuple(
            StageEdge(edges=edge.edges, source=edge.source, target=edge.target)
            for edge in row.edges
        ),
        edges_omitted=row.edges_omitted,
        first_failure=None
        if failure is None
        else FirstFailure(
            id=failure.node_id,
            kind=failure.kind,
            ordinal=failure.ordinal,
            text=failure.text,
        ),
        folded=row.folded,
        items=items,
        run=detailed.part,
        running=_series(row.running),
    )


def _stage(stored: stage_row.Stage) -> Stage:
    return Stage(
        first_start_ms=stored.started_ms,
        index=stored.index,
        kept=stored.kept,
        label=stored.label,
        last_end_ms=stored.ended_ms,
        longest_ms=stored.longest_ms,
        node_counts=counts(stored),
        p50_ms=stored.p50_ms,
        p95_ms=stored.p95_ms,
        rank=stored.rank,
    )


def _series(stored: Running | None) -> Series | None:
    if stored is None:
        return None
    return Series(
        buckets=stored.buckets,
        from_ms=stored.from_ms,
        peak=stored.peak,
        width_ms=stored.width_ms,
    )
