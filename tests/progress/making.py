"""Values for the tests of progress: settings, records, a store in memory."""

from dataclasses import dataclass, field, replace

from django_ray.identity import RunIdentity
from django_ray.progress.delta import (
    Delta,
    Moved,
    Outcome,
    Publication,
    Published,
    Revisions,
)
from django_ray.progress.draft import Draft
from django_ray.progress.model import Model
from django_ray.progress.pages import Candidate, Manifest, Page, check_pages, decode
from django_ray.protocol import frames
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.records import NodeItem
from django_ray.protocol.summary import Summary
from django_ray.protocol.summary import decode as decode_summary
from django_ray.protocol.vocabulary import (
    NodeState,
    ReportingPolicy,
    SelectionPolicy,
)

START = 1_785_403_200_000
"""A full minute, as the run's start."""


def settings(
    limits: Limits = V1, policy: ReportingPolicy = ReportingPolicy.full
) -> RunSettings:
    identity = RunIdentity(
        task_execution_pk=7,
        attempt_number=2,
        execution_generation=3,
        run_id="6f1c9e0a-6c1c-4a55-9d3b-0d4a3b6f7a10",
    )
    return RunSettings(
        identity=identity,
        policy=policy,
        strategy=SelectionPolicy.dynamic,
        plan_fingerprint="f" * 64,
        started_at_ms=START,
        retention_days=7,
        limits=limits,
    )


def limits(**changes: int) -> Limits:
    return replace(V1, profile="small", **changes)


def node(ordinal: int, *runs: int, **changes: object) -> frames.Node:
    values = {
        "id": f"1.step[{ordinal}]",
        "label": "app.step",
        "stage": "app.step",
        "dependencies": runs,
        **changes,
    }
    return frames.Node(ordinal, **values)


def item(ordinal: int, **changes: object) -> NodeItem:
    values = {"id": f"n{ordinal}", "label": "step", "stage": "step", "rank": 0}
    return NodeItem(ordinal, **{**values, **changes})


def state(
    ordinal: int, name: str, at_ms: int = START, *, try_: int = 1, **changes: object
) -> frames.State:
    invocation = changes.pop("invocation", 0)
    return frames.State(ordinal, invocation, try_, NodeState(name), at_ms, **changes)


def progress(
    target: int | bytes,
    sequence: int = 1,
    *,
    at_ms: int = START,
    try_: int = 1,
    **changes: object,
) -> frames.Progress:
    invocation = changes.pop("invocation", 0)
    return frames.Progress(target, invocation, try_, sequence, at_ms, **changes)


def preview(
    ordinal: int, value: bytes = b'{"rows":3}', *, try_: int = 1, invocation: int = 0
) -> frames.Preview:
    return frames.Preview(ordinal, invocation, try_, value)


def end(outcome: str = "SUCCEEDED", at_ms: int = START) -> frames.End:
    return frames.End(outcome, at_ms)


@dataclass
class Row:
    key: bytes
    node_id: str
    stage: int
    state: int
    revision: int
    record: bytes


@dataclass
class Store:
    """What storage keeps of one run: promises of the publication, checked as it writes."""

    revisions: Revisions = field(default_factory=Revisions)
    rows: dict[int, Row] = field(default_factory=dict)
    pages: dict[bytes, Page] = field(default_factory=dict)
    manifests: dict[int, Manifest] = field(default_factory=dict)
    staged: int | None = None
    promoted: int | None = None
    summary: bytes = b""
    stages: bytes | None = None
    events: bytes | None = None

    def stage(self, candidate: Candidate) -> int:
        if self.staged is not None and self.staged != self.promoted:
            self._drop(self.staged)
        versions = {manifest.version for manifest in self.manifests.values()}
        assert candidate.manifest.version not in versions
        manifest_id = max(self.manifests, default=100) + 1
        self.manifests[manifest_id] = candidate.manifest
        for page in candidate.pages:
            self.pages.setdefault(page.digest, page)
        self.staged = manifest_id
        return manifest_id

    def publish(self, publication: Publication) -> Outcome:
        if publication.base != self.revisions:
            return Moved(self.revisions)
        rows, revision = publication.rows, publication.after.detail
        if publication.candidate is not None:
            old, self.promoted = self.promoted, self.staged
            manifest = self.manifest()
            assert manifest == publication.candidate.manifest
            check_pages(manifest, [self.pages[digest] for digest in manifest.digests])
            if old is not None:
                self._drop(old)
        assert rows.ordinals == sorted(set(rows.ordinals))
        for place, ordinal in enumerate(rows.ordinals):
            self.rows[ordinal] = Row(
                rows.keys[place],
                rows.ids[place],
                rows.stages[place],
                rows.states[place],
                revision,
                rows.records[place],
            )
        self.revisions = publication.after
        self.summary = publication.summary
        self.stages = publication.stages or self.stages
        self.events = publication.events or self.events
        return Published(len(self.rows), sum(len(r.record) for r in self.rows.values()))

    def manifest(self) -> Manifest:
        return self.manifests[self.promoted]

    def nodes(self) -> list[NodeItem]:
        return [each for page in self._pages("nodes") for each in page]

    def edges(self) -> list[tuple[int, int]]:
        return [
            (each.target, each.source) for page in self._pages("edges") for each in page
        ]

    def read(self) -> Summary:
        return decode_summary(self.summary)

    def _pages(self, kind: str) -> list[tuple]:
        if self.promoted is None:
            return []
        pages = [self.pages[digest] for digest in self.manifest().digests]
        return [
            decode(page.body, page.encoding, page.digest, page.kind)
            for page in pages
            if page.kind == kind
        ]

    def _drop(self, manifest_id: int) -> None:
        gone = self.manifests.pop(manifest_id)
        named = {each for kept in self.manifests.values() for each in kept.digests}
        for digest in gone.digests:
            if digest not in named:
                self.pages.pop(digest, None)


class Run:
    """A model, its draft and a store, published as the publisher does it."""

    def __init__(
        self, limits: Limits = V1, policy: ReportingPolicy = ReportingPolicy.full
    ) -> None:
        given = settings(limits, policy)
        self.limits = limits
        self.model = Model(given)
        self.draft = Draft(given)
        self.store = Store()
        self.now = START

    def apply(self, *records: frames.Record) -> None:
        for record in records:
            self.model.apply(record, self.now)

    def take(self) -> Delta | None:
        return self.model.take(self.now)

    def compose(self, delta: Delta) -> Publication:
        candidate = self.draft.candidate(delta)
        manifest_id = None if candidate is None else self.store.stage(candidate)
        return self.draft.publication(delta, manifest_id, self.now)

    def publish(self) -> Publication | None:
        delta = self.take()
        if delta is None:
            return None
        publication = self.compose(delta)
        outcome = self.store.publish(publication)
        if isinstance(outcome, Moved):
            self.draft.moved(outcome.revisions)
            self.model.restore(delta)
            return self.publish()
        self.draft.committed(publication)
        self.model.settle(delta)
        return publication

    def fail(self) -> None:
        """Publish, but fail before anything is staged."""
        delta = self.take()
        if delta is not None:
            self.model.restore(delta)

    def refuse(self) -> None:
        """Stage and compose, and fail before the commit."""
        delta = self.take()
        if delta is not None:
            self.compose(delta)
            self.model.restore(delta)

    def lose(self) -> None:
        """Commit, and lose the answer."""
        delta = self.take()
        if delta is not None:
            self.store.publish(self.compose(delta))
            self.model.restore(delta)
