"""What a run's stages are while it goes on: one bounded rollup each.

All of it stays exact when nodes are omitted. It goes out as the stage row. Contract 4.9 and
4.10.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Literal

import msgspec

from django_ray.errors import LimitExceeded
from django_ray.progress import bequest
from django_ray.progress.durations import bounds, quantiles, trimmed
from django_ray.progress.series import Running, Series
from django_ray.progress.stages import (
    OTHER,
    OTHER_INDEX,
    SCHEMA,
    FirstFailure,
    Stage,
    StageEdge,
    StageRow,
)
from django_ray.protocol import canonical, text
from django_ray.protocol.frames import Failure
from django_ray.protocol.limits import Limits
from django_ray.protocol.records import Stored
from django_ray.protocol.vocabulary import CODES, NODE_STATES, NodeState

_RUNNING = CODES[NodeState.RUNNING]


class _Row(Stored, frozen=True):
    """A `StageRow` on its way out: stages and edges are encoded already."""

    edges: msgspec.Raw
    edges_omitted: int
    failure: FirstFailure | None
    folded: int
    running: Running | None
    schema: Literal[1]
    stages: list[msgspec.Raw]


class _Rollup:
    """One stage while the run goes on."""

    __slots__ = (
        "counts",
        "durations",
        "ended_ms",
        "kept",
        "label",
        "longest_ms",
        "rank",
        "started_ms",
    )

    def __init__(self, label: str, rank: int, buckets: int) -> None:
        self.label = label
        self.rank = rank
        self.kept = 0
        self.counts = [0] * len(NODE_STATES)
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.longest_ms: int | None = None
        self.durations = [0] * buckets


class Stages:
    """The rollup of every stage of one run."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._named: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._folded: set[int] = set()
        self._folded_before = 0
        self._rollups: dict[int, _Rollup] = {}
        self._changed: set[int] = set()
        self._form: tuple[int, bool] | None = None
        self._encoded: dict[int, msgspec.Raw] = {}
        self._edges: dict[tuple[int, int], int] = {}
        self._edges_form: int | None = None
        self._edges_encoded = msgspec.Raw()
        self._bounds = bounds(limits.stage_buckets)
        self._failure: FirstFailure | None = None
        self._running = 0
        self._series = Series(limits.series_buckets)

    def index(self, stage: str) -> int:
        """Return the index of a stage, named now if there is room, else of `other`."""
        known = self._named.get(stage)
        if known is None:
            known = self._name(stage)
        if known is not None:
            return known
        # How many share `other` is worth a bounded set, not an unbounded one.
        if len(self._folded) < self._limits.retained_nodes:
            self._folded.add(hash(stage))
        return OTHER_INDEX

    def _name(self, stage: str) -> int | None:
        """Name a stage, or know it by its key; None where there is no room."""
        key = bequest.key(stage)
        known = self._keys.get(key)
        if known is None and len(self._keys) >= self._limits.stages - 1:
            return None
        if known is None:
            known = self._keys[key] = len(self._keys)
        elif known in self._rollups:
            # What was stored of the label may be cut.
            self._rollup(known, 0).label = stage
        self._named[stage] = known
        return known

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the named stages, by index."""
        return tuple(self._keys)

    def add(self, index: int, rank: int, *, retained: bool) -> None:
        """Count one more node, PENDING, at its place in the graph."""
        rollup = self._rollup(index, rank)
        rollup.rank = min(rollup.rank, rank)
        rollup.kept += retained
        rollup.counts[0] += 1

    def link(self, source: int, target: int, edges: int) -> None:
        """Count edges from nodes of one stage to a node of another, or of the same."""
        key = (source, target)
        self._edges[key] = self._edges.get(key, 0) + edges
        self._edges_form = None

    def move(
        self, index: int, before: NodeState | None, after: NodeState, now_ms: int
    ) -> None:
        """Count a node's change of state; `before` is None for one not counted yet.

        `now_ms` is the collector's clock: a leaf's may be anything.
        """
        counts = self._rollup(index, 0).counts
        if before is not None:
            counts[CODES[before]] -= 1
        counts[CODES[after]] += 1
        step = (after is NodeState.RUNNING) - (before is NodeState.RUNNING)
        if step:
            self._running += step
            self._series.observe(now_ms, self._running)

    def started(self, index: int, at_ms: int) -> None:
        """Note the start of one of a stage's nodes."""
        rollup = self._rollup(index, 0)
        if rollup.started_ms is None or at_ms < rollup.started_ms:
            rollup.started_ms = at_ms

    def ended(self, index: int, at_ms: int, started_ms: int | None) -> None:
        """Note the end of one of a stage's nodes, and its duration if it had started."""
        rollup = self._rollup(index, 0)
        if rollup.ended_ms is None or at_ms > rollup.ended_ms:
            rollup.ended_ms = at_ms
        if started_ms is not None:
            duration = max(0, at_ms - started_ms)
            rollup.durations[bisect_right(self._bounds, duration)] += 1
            rollup.longest_ms = max(rollup.longest_ms or 0, duration)

    def resume(
        self,
        stored: StageRow,
        keys: tuple[str, ...],
        links: Mapping[tuple[int, int], int],
    ) -> None:
        """Go on with a stored row, whose named stages have these keys by index.

        `links` stand for the edges it had no room for. Distributions or a series that it
        had no room for start anew.
        """
        self._keys = {key: index for index, key in enumerate(keys)}
        for stage in stored.stages:
            rollup = self._rollup(stage.index, stage.rank)
            rollup.label = stage.label
            rollup.kept = stage.kept
            rollup.counts = list(stage.counts)
            rollup.started_ms, rollup.ended_ms = stage.started_ms, stage.ended_ms
            rollup.longest_ms = stage.longest_ms
            rollup.durations[: len(stage.durations)] = stage.durations
        self._edges = dict(links)
        for each in stored.edges:
            self._edges[each.source, each.target] = each.edges
        self._folded_before = stored.folded
        self._failure = stored.failure
        self._running = sum(stage.counts[_RUNNING] for stage in stored.stages)
        self._series.resume(stored.running, self._running)

    def recount(self, counts: dict[int, list[int]], now_ms: int) -> None:
        """Set the states of all nodes anew, by stage and in canonical order."""
        for index in self._rollups:
            self._rollup(index, 0).counts = counts.get(index, [0] * len(NODE_STATES))
        running = sum(each[_RUNNING] for each in counts.values())
        if running != self._running:
            self._running = running
            self._series.observe(now_ms, running)

    def failed(self, ordinal: int, node_id: str, error: Failure | None) -> None:
        """Keep the failure that was applied first."""
        if self._failure is None:
            limit = self._limits.first_failure
            self._failure = FirstFailure(
                kind=error.kind if error else "",
                node_id=node_id,
                ordinal=ordinal,
                text=text.fit(error.text, limit) if error else "",
            )

    def encode(self) -> bytes:
        """Return the row's canonical bytes, always within its limit.

        What gives way, in this order: light edges, the distributions of durations (their
        quantiles stay), the series, the ends of labels.
        """
        edges = self._limits.stage_edges
        for series, durations, label in (
            (True, True, self._limits.stage_label),
            (True, False, self._limits.stage_label),
            (False, False, self._limits.stage_label // 4),
        ):
            while True:
                row = self._row(edges, label, series=series, durations=durations)
                data = canonical.encode(row)
                if len(data) <= self._limits.stage_row:
                    return data
                if not edges:
                    break
                edges //= 2
        raise LimitExceeded("stage_row", self._limits.stage_row, len(data))

    def _rollup(self, index: int, rank: int) -> _Rollup:
        """Return a stage to change it."""
        rollup = self._rollups.get(index)
        if rollup is None:
            label = next((n for n, at in self._named.items() if at == index), OTHER)
            rollup = _Rollup(label, rank, self._limits.stage_buckets)
            self._rollups[index] = rollup
        self._changed.add(index)
        return rollup

    def _row(self, edges: int, label: int, *, series: bool, durations: bool) -> _Row:
        number = min(edges, self._limits.stage_edges, len(self._edges))
        return _Row(
            edges=self._heaviest(number),
            edges_omitted=len(self._edges) - number,
            failure=self._failure,
            folded=max(len(self._folded), self._folded_before),
            running=self._series.value() if series else None,
            schema=SCHEMA,
            stages=self._pieces(label, durations=durations),
        )

    def _heaviest(self, number: int) -> msgspec.Raw:
        if self._edges_form != number:
            # Among equals the order of the graph, so the cut is the same whatever the
            # order of arrival.
            weighed = sorted(self._edges.items(), key=lambda item: (-item[1], item[0]))
            kept = [
                StageEdge(source=source, target=target, edges=count)
                for (source, target), count in weighed[:number]
            ]
            self._edges_encoded = msgspec.Raw(canonical.encode(kept))
            self._edges_form = number
        return self._edges_encoded

    def _pieces(self, label: int, *, durations: bool) -> list[msgspec.Raw]:
        # Most publications change a few stages: the others are encoded as they were.
        form, encoded = (label, durations), self._encoded
        for index in self._changed if form == self._form else self._rollups:
            stage = self._stage(index, label, durations=durations)
            encoded[index] = msgspec.Raw(canonical.encode(stage))
        self._changed.clear()
        self._form = form
        return [encoded[index] for index in sorted(encoded)]

    def _stage(self, index: int, label: int, *, durations: bool) -> Stage:
        rollup = self._rollups[index]
        spread = trimmed(rollup.durations)
        p50, p95 = quantiles(spread, (0.5, 0.95), rollup.longest_ms)
        c = rollup.counts
        return Stage(
            index=index,
            label=text.label(rollup.label, label),
            rank=rollup.rank,
            kept=rollup.kept,
            counts=(c[0], c[1], c[2], c[3], c[4], c[5], c[6]),
            started_ms=rollup.started_ms,
            ended_ms=rollup.ended_ms,
            p50_ms=p50,
            p95_ms=p95,
            longest_ms=rollup.longest_ms,
            durations=spread if durations else (),
        )
