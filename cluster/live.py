"""A run's live half as a scenario needs it: its collector, producers, and what is committed.

The scenario's process, or one it starts, is the run's coordinator; the collector is the
real detached actor.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from typing import cast

import ray
from ray.actor import ActorHandle

from actors import clock, remote
from actors.coordinator import Coordinator
from actors.producer import Producer
from django_ray.identity import RunIdentity
from django_ray.protocol import frames, summary
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.plan import RunSettings
from django_ray.storage.pool import Connection

START_S = 60.0
PAUSE_S = 0.02

SUMMARY = "SELECT progress_summary FROM django_ray_execution WHERE id = %s"


def process[T](made: type[T], *arguments: object) -> "ActorHandle[T]":
    """Put an object into a Ray process of its own."""
    actor = ray.remote(num_cpus=0)(made).remote(*arguments)
    return cast("ActorHandle[T]", actor)


def producer(
    told: RunSettings,
    kind: ProducerKind,
    handle: remote.RayCollectorHandle,
    resync: Callable[[], Iterable[frames.Record]] = tuple,
) -> Producer:
    """Start a producer of a run, with a thread of its own."""
    made = Producer(
        run_id=told.identity.run_id,
        generation=told.identity.execution_generation,
        kind=kind,
        producer=uuid.uuid4().bytes,
        handle=handle,
        limits=told.limits,
        clock=clock.steady(),
        resync=resync,
    )
    made.start()
    return made


def coordinator(told: RunSettings, window: int) -> tuple[Coordinator, Producer]:
    """Start a run's collector, and be its coordinator."""
    made = producer(
        told,
        ProducerKind.coordinator,
        remote.start_collector(told),
        lambda: watched.resync(),
    )
    watched = Coordinator(told, made, max_in_flight=window, clock=clock.steady())
    return watched, made


def collector_of(identity: RunIdentity) -> remote.RayCollectorHandle:
    """Return the run's collector as another process would find it."""
    found = remote.find_collector(identity.run_id, identity.execution_generation)
    assert found is not None, "there is no collector"
    return found


def status_of(identity: RunIdentity) -> remote.Status:
    """Return what the run's collector says of itself."""
    told = collector_of(identity).status(START_S)
    assert told is not None, "the collector does not answer"
    return told


def await_writer(identity: RunIdentity, conn: Connection) -> None:
    """Wait until the collector has made its run's row."""
    statement = "SELECT 1 FROM django_ray_run WHERE run_id = %s"
    deadline = time.monotonic() + START_S
    while conn.execute(statement, (identity.run_id,)).fetchone() is None:
        assert time.monotonic() < deadline, "the collector did not start"
        time.sleep(PAUSE_S)


def committed(conn: Connection, identity: RunIdentity) -> summary.Summary | None:
    """Return the run's summary as it is committed."""
    row = conn.execute(SUMMARY, (identity.task_execution_pk,)).fetchone()
    return None if row is None or row[0] is None else summary.decode(bytes(row[0]))


def await_committed(
    conn: Connection,
    identity: RunIdentity,
    holds: Callable[[summary.Summary], bool],
    seconds: float,
) -> summary.Summary:
    """Wait until a committed summary holds what it must."""
    deadline = time.monotonic() + seconds
    while True:
        found = committed(conn, identity)
        if found is not None and holds(found):
            return found
        assert time.monotonic() < deadline, f"not committed in time: {found}"
        time.sleep(PAUSE_S)


def end_collectors() -> None:
    """End every collector that is left."""
    for name in remote.list_detached():
        remote.kill(name)
