"""From a delta to the publication that writes it. Contract 4.8, ADR-0004.

The publisher's side, and its thread alone: no method here takes the collector's lock. Each
attempt is `candidate` (and its staging), then `publication`, then one of `committed` and
`moved`, or neither when storage did not answer. Nothing counts until `committed`; a failed
attempt is made again from the restored delta, whatever grew meanwhile.

A commit whose answer was lost shows in the next attempt as a base that has moved. All of it
is in the restored delta and is written once more, the topology under a version of its own:
every candidate has one, for the version of a lost attempt may be taken.
"""

from bisect import bisect_left
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from django_ray.progress import bequest, session
from django_ray.progress import stages as stage_row
from django_ray.progress.budget import Budget
from django_ray.progress.delta import Delta, Publication, Revisions, Rows
from django_ray.progress.pages import Candidate, Manifest
from django_ray.progress.standing import Standing
from django_ray.progress.topology import Topology
from django_ray.protocol import canonical, summary
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.records import Detail, PageKind
from django_ray.protocol.vocabulary import (
    CODES,
    DetailAvailability,
    ExecutionStrategy,
    ReportingPolicy,
    TruncationReason,
    WorkflowState,
)

REPORTED = "reported"
"""The terminal reason of a run whose own producer ended it."""


@dataclass(frozen=True, slots=True)
class _Topology:
    """A manifest, and the id it was staged under."""

    manifest: Manifest
    manifest_id: int | None


class Draft:
    """What is published of one run, and what the next publication will be."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._full = settings.policy is ReportingPolicy.full
        self._base = Revisions()
        self._topology = Topology(settings.limits)
        self._budget = Budget(settings.limits)
        self._version = 0
        self._candidate: Candidate | None = None
        self._published: _Topology | None = None
        self._next: _Topology | None = None
        self._ids: list[str] = []
        self._keys: list[bytes] = []
        self._stages = bytearray()
        self._details: list[Detail] = []
        self._evicted: set[int] = set()
        self._standing: frozenset[TruncationReason] = frozenset()
        self._fault: DetailAvailability | None = None

    @property
    def base(self) -> Revisions:
        """Return the revisions the next publication stands on."""
        return self._base

    def opened(self, revisions: Revisions) -> None:
        """Continue from the run's row as `begin` read it, before the first attempt."""
        self._base = revisions
        self._version = max(self._version, revisions.topology)

    def resume(self, standing: Standing) -> None:
        """Go on with a stored run, after `opened`. Detail with a fault is left as it is."""
        kept, left, said = standing.detailed, standing.bequest, standing.summary
        self._fault = standing.fault
        if kept is None:
            return
        self._published = _Topology(kept.manifest, kept.manifest_id)
        if standing.fault is not None or left is None:
            return
        self._ids = [node.id for node in kept.nodes]
        self._keys = [canonical.node_key(node.id) for node in kept.nodes]
        self._stages = bytearray(kept.stages)
        self._details = list(kept.details)
        self._budget.resume(kept.sizes, kept.details)
        ended: dict[PageKind, TruncationReason] = {}
        if left.nodes_ended is not None:
            ended["nodes"] = left.nodes_ended
        if left.edges_ended is not None:
            ended["edges"] = left.edges_ended
        self._topology.resume(kept.pages, ended)
        # A row whose markers did not fit either has nothing that tells its reason.
        told = {*left.reasons, *ended.values(), *self._budget.reasons}
        self._standing = frozenset(said.detail.reasons if said else ()) - told

    def candidate(self, delta: Delta) -> Candidate | None:
        """Return the topology to stage for `delta`, None when the published one stays.

        To be called once an attempt, before `publication`. The staged manifest's id goes
        into `publication`.
        """
        self._candidate = None
        if not delta.nodes:
            return None
        self._absorb(delta)
        grown = (self._topology.node_count, self._topology.edge_count)
        # One without a node is published all the same, so that it says why it has none.
        empty = self._published is None and bool(self._topology.reasons)
        if grown == _counts(self._published) and not empty:
            return None
        self._version += 1
        self._candidate = self._topology.candidate(self._version)
        return self._candidate

    def publication(
        self, delta: Delta, manifest_id: int | None, now_ms: int
    ) -> Publication:
        """Encode `delta` into the publication that makes it visible.

        `manifest_id` is that of the staged candidate, None without one.
        """
        candidate, topology = self._candidate, self._published
        if candidate is not None:
            topology = _Topology(candidate.manifest, manifest_id)
        self._next = topology
        rows = self._rows(delta, topology)
        base = self._base
        after = Revisions(
            summary=base.summary + 1,
            detail=base.detail + (candidate is not None or bool(rows.ordinals)),
            topology=candidate.manifest.version if candidate else base.topology,
        )
        end = delta.end
        expires = None
        if end is not None:
            expires = summary.expiry(end.at_ms, self._settings.retention_days)
        composed = self._summary(delta, topology, after, expires, now_ms)
        return Publication(
            base=base,
            after=after,
            rows=rows,
            summary=summary.encode(composed),
            stages=self._retaining(delta.stages, topology),
            events=delta.events,
            session=delta.snapshot,
            bequest=self._bequest(delta) if delta.changed or delta.nodes else None,
            candidate=candidate,
            expires_at_ms=expires,
        )

    def committed(self, publication: Publication) -> None:
        """Note that `publication` is what readers see."""
        self._base = publication.after
        self._published = self._next
        if publication.candidate is not None:
            self._topology.promoted(publication.candidate.manifest)
        self._budget.commit()
        self._evicted.clear()

    def moved(self, revisions: Revisions) -> None:
        """Stand on what the run's row says, after storage found another base than ours.

        The delta has to be restored and published anew.
        """
        self._base = revisions
        self._version = max(self._version, revisions.topology)

    def _absorb(self, delta: Delta) -> None:
        # A delta that was restored brings its nodes again, before those that came since.
        known = max(len(self._ids) - delta.nodes[0].ordinal, 0)
        for node in delta.nodes[known:]:
            self._ids.append(node.id)
            self._keys.append(canonical.node_key(node.id))
        self._stages += delta.stage_indexes[known:]
        self._details += delta.details[len(delta.details) - len(delta.nodes) + known :]
        self._topology.extend(delta.nodes, delta.edges)

    def _rows(self, delta: Delta, topology: _Topology | None) -> Rows:
        retained = _counts(topology)[0]
        budget, details = self._budget, self._details
        ordinals = delta.ordinals[: bisect_left(delta.ordinals, retained)]
        for ordinal, detail in zip(ordinals, delta.details, strict=False):
            details[ordinal] = detail
        budget.begin(retained, self._topology.detail_room)
        for ordinal in budget.evict():
            budget.shrink(ordinal, details[ordinal])
            self._evicted.add(ordinal)
        if self._evicted:
            ordinals = sorted({*ordinals, *self._evicted})
        changed = [details[ordinal] for ordinal in ordinals]
        published = _counts(self._published)[0]
        return Rows(
            ordinals=ordinals,
            keys=[self._keys[ordinal] for ordinal in ordinals],
            ids=[self._ids[ordinal] for ordinal in ordinals],
            stages=[self._stages[ordinal] for ordinal in ordinals],
            states=[CODES[detail.state] for detail in changed],
            records=budget.fit_all(ordinals, changed),
            fresh=len(ordinals) - bisect_left(ordinals, published),
        )

    def _retaining(
        self, stages: bytes | None, topology: _Topology | None
    ) -> bytes | None:
        retained = _counts(topology)[0]
        if stages is None or retained == len(self._ids):
            return stages
        return stage_row.retaining(stages, bytes(self._stages[:retained]))

    def _summary(
        self,
        delta: Delta,
        topology: _Topology | None,
        after: Revisions,
        expires_at_ms: int | None,
        now_ms: int,
    ) -> summary.Summary:
        settings, counts, end = self._settings, delta.counts, delta.end
        nodes, edges = _counts(topology)
        told = delta.session
        state = WorkflowState.RUNNING if end is None else WorkflowState(end.outcome)
        terminal = None
        if end is not None:
            terminal = summary.Terminal(derived=False, outcome=state, reason=REPORTED)
        return summary.Summary(
            changed_at_ms=delta.changed_ms,
            declared_nodes=delta.declared,
            detail=self._detail(delta, topology),
            detail_revision=(after.detail or None) if self._full else None,
            discovered_edges=delta.discovered_edges,
            discovered_nodes=counts.total,
            ended_at_ms=end.at_ms if end else None,
            ended_by_minute=delta.ended_by_minute,
            expires_at_ms=expires_at_ms,
            hosts=delta.hosts,
            limits_profile=self._limits.profile,
            manifest_id=topology.manifest_id if topology else None,
            node_counts=counts,
            observed_at_ms=now_ms,
            percent=summary.percent(state, counts, delta.declared, counts.total),
            plan_fingerprint=settings.plan_fingerprint,
            policy=settings.policy,
            retained_edges=edges,
            retained_nodes=nodes,
            retention_days=settings.retention_days,
            revision=after.summary,
            run=summary.run_of(settings.identity),
            schema=summary.SCHEMA,
            session=None if told is None else msgspec.Raw(told),
            started_at_ms=settings.started_at_ms,
            state=state,
            storage="database",
            storage_protocol=summary.STORAGE_PROTOCOL,
            strategy=_strategy(told),
            terminal=terminal,
            topology_version=(after.topology or None) if self._full else None,
        )

    def _bequest(self, delta: Delta) -> bytes:
        ended = self._topology.ended
        return bequest.encode(
            replace(
                delta.bequest,
                edges_ended=ended.get("edges"),
                nodes_ended=ended.get("nodes"),
            )
        )

    def _detail(self, delta: Delta, topology: _Topology | None) -> summary.Detail:
        """Say what the detail is; complete only when every discovered node is in it."""
        availability = DetailAvailability.OMITTED_BY_POLICY
        reasons: tuple[TruncationReason, ...] = ()
        if self._full and self._fault is not None:
            availability = self._fault
        elif self._full and topology is None:
            availability = DetailAvailability.NOT_REPORTED
        elif self._full:
            found = delta.reasons | self._topology.reasons | self._budget.reasons
            found |= self._standing
            reasons = tuple(reason for reason in TruncationReason if reason in found)
            availability = (
                DetailAvailability.TRUNCATED
                if reasons
                else DetailAvailability.AVAILABLE
            )
        complete = availability is DetailAvailability.AVAILABLE and not delta.waiting
        return summary.Detail(
            availability=availability, complete=complete, reasons=reasons
        )


def _strategy(told: bytes | None) -> ExecutionStrategy:
    """Say how the run's graph is executed, not how it was asked for."""
    if told is not None and session.was_prepared(told):
        return ExecutionStrategy.compiled_graph
    return ExecutionStrategy.dynamic


def _counts(topology: _Topology | None) -> tuple[int, int]:
    if topology is None:
        return 0, 0
    return topology.manifest.node_count, topology.manifest.edge_count
