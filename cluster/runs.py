"""A run's row in the middle of its life, and the collector's mind over it, without Ray."""

import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from django_ray.identity import RunIdentity
from django_ray.progress.delta import Published
from django_ray.progress.draft import Draft
from django_ray.progress.graph import Graph
from django_ray.progress.model import Model
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.vocabulary import (
    NodeState,
    ReportingPolicy,
    SelectionPolicy,
)
from django_ray.storage import load, publish, stage
from django_ray.storage.pool import Connection

if TYPE_CHECKING:
    from actors.producer import Producer


def now_ms() -> int:
    """Return the wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


def execution() -> RunIdentity:
    """Insert an execution in state RUNNING, by Django; return its run's identity."""
    from django.utils import timezone

    from django_ray.models.executions import RayTaskExecution

    row = RayTaskExecution.objects.create(
        task_path="cluster.scenario",
        backend="default",
        queue_name="default",
        enqueued_at=timezone.now(),
        state="RUNNING",
        attempt_number=1,
        execution_generation=1,
        run_id=uuid.uuid4(),
        started_at=timezone.now(),
    )
    return RunIdentity(
        task_execution_pk=row.pk,
        attempt_number=1,
        execution_generation=1,
        run_id=str(row.run_id),
    )


def public_id(identity: RunIdentity) -> uuid.UUID:
    """Return the id by which readers know a run's execution."""
    from django_ray.models.executions import RayTaskExecution

    return RayTaskExecution.objects.get(pk=identity.task_execution_pk).public_id


def require_sound(run_id: str) -> int:
    """Audit a run; return how many rows it retains, or fail with what was found."""
    from django_ray.maintenance.audit import audit

    found = audit(run_id)
    assert not found.findings, found.findings
    return found.rows


def settings(
    identity: RunIdentity,
    *,
    policy: ReportingPolicy = ReportingPolicy.full,
    limits: Limits = V1,
    strategy: SelectionPolicy = SelectionPolicy.dynamic,
) -> RunSettings:
    """Return what the run's processes would be told."""
    return RunSettings(
        identity=identity,
        policy=policy,
        strategy=strategy,
        plan_fingerprint="0" * 64,
        started_at_ms=now_ms(),
        retention_days=7,
        limits=limits,
    )


def coordinator_of(
    told: RunSettings, resync: Callable[[], Iterable[frames.Record]]
) -> "Producer":
    """Start a run's collector, and a producer for the coordinator in this process."""
    from actors import clock, remote
    from actors.producer import Producer

    producer = Producer(
        run_id=told.identity.run_id,
        generation=told.identity.execution_generation,
        kind=ProducerKind.coordinator,
        producer=uuid.uuid4().bytes,
        handle=remote.start_collector(told),
        limits=told.limits,
        clock=clock.steady(),
        resync=resync,
    )
    producer.start()
    return producer


class Mind:
    """Model and draft of one run over one connection: what the collector does, in line."""

    def __init__(self, conn: Connection, identity: RunIdentity) -> None:
        told = settings(identity)
        self.conn = conn
        self.identity = identity
        self.model = Model(told)
        self.draft = Draft(told)
        begun = load.begin(conn, identity, told.retention_days)
        assert isinstance(begun, load.Begun)
        self.begun = begun
        self.draft.opened(begun.revisions)

    def register(self, nodes: Iterable[frames.Node]) -> None:
        """Apply registrations as the coordinator would send them."""
        now = now_ms()
        for node in nodes:
            self.model.apply(node, now)

    def move(self, ordinals: Iterable[int], state: NodeState, try_: int) -> None:
        """Apply one state to many nodes."""
        now = now_ms()
        for ordinal in ordinals:
            self.model.apply(
                frames.State(ordinal, 0, try_, state, now, now - 5, "10.0.0.7", 0), now
            )

    def end(self) -> None:
        """Apply the run's own end: it succeeded."""
        now = now_ms()
        self.model.apply(frames.End("SUCCEEDED", now, None), now)

    def publish(self) -> Published:
        """Publish everything that changed, from the dirty set to the commit."""
        now = now_ms()
        delta = self.model.take(now)
        assert delta is not None
        candidate = self.draft.candidate(delta)
        manifest_id = None
        if candidate is not None:
            staged = stage.stage(
                self.conn,
                self.identity,
                self.begun.run_pk,
                self.begun.writer_epoch,
                candidate,
            )
            assert isinstance(staged, stage.Staged)
            manifest_id = staged.manifest_id
        publication = self.draft.publication(delta, manifest_id, now)
        outcome = publish.publish(
            self.conn,
            self.identity,
            self.begun.run_pk,
            self.begun.writer_epoch,
            publication,
        )
        assert isinstance(outcome, Published)
        self.draft.committed(publication)
        self.model.settle(delta)
        return outcome


def layered(nodes: int, edges: int) -> list[frames.Node]:
    """Return a graph in layers of 250: each node joins a few of the layer before.

    `edges` edges in all, spread evenly; ids and stages look like a real run's.
    """
    graph = Graph(V1)
    result: list[frames.Node] = []
    width = 250
    inner = max(nodes - width, 1)
    share, rest = divmod(edges, inner)
    for ordinal in range(nodes):
        layer, place = divmod(ordinal, width)
        count = 0 if not layer else share + (ordinal - width < rest)
        first = (layer - 1) * width
        step = max(width // max(count, 1), 1)
        dependencies = {first + (place + at * step) % width for at in range(count)}
        _, node = graph.register(
            f"1.layer{layer % 40}[part-{ordinal:06d}]",
            f"project.flows.layer{layer % 40}",
            f"project.flows.layer{layer % 40}",
            dependencies,
        )
        assert node is not None
        result.append(node)
    return result
