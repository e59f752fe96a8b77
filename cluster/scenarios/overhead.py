"""What does watching cost a run: fan_out under each policy, against a plain Ray loop?

Closed load: the same window of tasks in flight on both sides, in alternating pairs. The
process of the scenario is the run's coordinator; collector, PostgreSQL and Ray share the
machine with the tasks, as in life. The collector stands before the clock starts.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import ray

from actors import clock, coordinator, fan, remote
from cluster import runs
from cluster.harness import Harness
from cluster.measure import processor_seconds
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.protocol import summary
from django_ray.protocol.vocabulary import DetailAvailability, ReportingPolicy
from django_ray.storage.pool import Connection

REACH = {"full": 1.20, "summary": 1.20, "disabled": 1.05}
BEYOND = {"full": 1.10, "summary": 1.10, "disabled": 1.01}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Pairs of each kind; tasks, and how long a task of the second kind sleeps."""

    pairs: int = 15
    no_ops: int = 3_000
    sleepers: int = 300
    sleep_s: float = 0.02
    window: int = 64
    committed_within_s: float = 2.0
    publications: int = 3


def _nothing(_item: int) -> None:
    return None


def _doze(seconds: float) -> None:
    time.sleep(seconds)


class Overhead:
    __doc__ = __doc__

    name = "overhead"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.observed: list[RunIdentity] = []

    def setup(self, harness: Harness) -> None:
        """Make the remote functions, and warm the worker processes up."""
        self.conn = harness.connect()
        self.nothing = ray.remote(_nothing)
        self.doze = ray.remote(_doze)
        self._plain(self.nothing, [0] * self.parameters.no_ops)

    def measure(self) -> None:
        """Alternate, and change who goes first from pair to pair."""
        given = self.parameters
        for policy in ("full", "summary", "disabled"):
            self._compare(f"no_ops_{policy}", policy, self.nothing, [0] * given.no_ops)
        self._compare(
            "sleepers_full", "full", self.doze, [given.sleep_s] * given.sleepers
        )

    def _compare(
        self, key: str, policy: str, function: object, items: list[float]
    ) -> None:
        wall: list[float] = []
        processor: list[float] = []
        for pair in range(self.parameters.pairs + 1):
            with self._run(ReportingPolicy(policy)) as watched:
                costs = {}
                for side in (0, 1) if pair % 2 else (1, 0):
                    costs[side] = self._clocked(side, watched, function, items)
                    if side == 0 and policy == "full":
                        self._require_committed(len(items))
            if pair:
                wall.append(costs[0][0] / costs[1][0])
                processor.append(costs[0][1] / costs[1][1])
        sleeping = key.startswith("sleepers")
        self.figures[f"wall_{key}"] = Figure(
            values=tuple(wall),
            unit="x plain loop",
            reach=1.03 if sleeping else REACH[policy],
            beyond=1.02 if sleeping else BEYOND[policy],
        )
        self.figures[f"processor_{key}"] = Figure(
            values=tuple(processor), unit="x plain loop"
        )

    def _clocked(
        self,
        side: int,
        watched: coordinator.Coordinator,
        function: object,
        items: list[float],
    ) -> tuple[float, float]:
        processor = processor_seconds()
        start = time.perf_counter()
        if side == 0:
            self._watched(watched, function, items)
        else:
            self._plain(function, items)
        wall = time.perf_counter() - start
        return wall, processor_seconds() - processor

    def _plain(self, function: object, items: list[float]) -> None:
        """Submit in the window, wait for any, take the results in order at the end."""
        submit = function.remote  # type: ignore[attr-defined]
        refs: list[ray.ObjectRef[None]] = []
        pending: list[ray.ObjectRef[None]] = []
        for item in items:
            if len(pending) >= self.parameters.window:
                _, pending = ray.wait(pending, num_returns=1, fetch_local=False)
            pending.append(submit(item))
            refs.append(pending[-1])
        for ref in refs:
            ray.get(ref)

    def _watched(
        self,
        watched: coordinator.Coordinator,
        function: object,
        items: list[float],
    ) -> None:
        for _ in fan.fan_out(
            watched,
            function,
            items,
            max_in_flight=self.parameters.window,
            key=None,
            group=None,
            refs=False,
            fail=None,
        ):
            pass

    @contextmanager
    def _run(self, policy: ReportingPolicy) -> Iterator[coordinator.Coordinator]:
        """Be the outer task of one run under a policy."""
        identity = runs.execution()
        told = runs.settings(identity, policy=policy)
        producer = None
        if policy is not ReportingPolicy.disabled:
            producer = runs.coordinator_of(told, lambda: watched.resync())
            _await_writer(identity, self.conn)
            self.identity = identity
        watched = coordinator.Coordinator(
            told,
            producer,
            max_in_flight=self.parameters.window,
            clock=clock.steady(),
        )
        with coordinator.activate(watched):
            yield watched
        watched.end("SUCCEEDED", None)
        if producer is not None:
            producer.stop()
        if policy is ReportingPolicy.full:
            self.observed.append(identity)

    def _require_committed(self, number: int) -> None:
        """Hold the product to its word before the run's end is told."""
        deadline = time.monotonic() + self.parameters.committed_within_s
        while True:
            found = _summary(self.conn, self.identity)
            if found is not None and found.node_counts.succeeded == number:
                break
            assert time.monotonic() < deadline, "not committed in time"
            time.sleep(0.02)
        assert found.detail.availability is DetailAvailability.AVAILABLE
        assert found.revision >= self.parameters.publications

    def verify(self) -> None:
        """Audit every run under `full`."""
        assert len(self.observed) == 2 * (self.parameters.pairs + 1)
        for identity in self.observed:
            rows = runs.require_sound(identity.run_id)
            assert rows in (self.parameters.no_ops, self.parameters.sleepers)

    def result(self) -> Result:
        """Return the ratios of wall time and of all processes' processor time."""
        return Result(figures=self.figures, parameters=asdict(self.parameters))

    def teardown(self) -> None:
        """End the collectors that are left."""
        for name in remote.list_detached():
            remote.kill(name)


def _await_writer(identity: RunIdentity, conn: Connection) -> None:
    """Wait until the collector has made its run's row."""
    statement = "SELECT 1 FROM django_ray_run WHERE run_id = %s"
    deadline = time.monotonic() + 30
    while conn.execute(statement, (identity.run_id,)).fetchone() is None:
        assert time.monotonic() < deadline, "the collector did not start"
        time.sleep(0.02)


def _summary(conn: Connection, identity: RunIdentity) -> summary.Summary | None:
    row = conn.execute(
        "SELECT progress_summary FROM django_ray_execution WHERE id = %s",
        (identity.task_execution_pk,),
    ).fetchone()
    return None if row is None or row[0] is None else summary.decode(bytes(row[0]))


def scenario() -> Overhead:
    """Return the scenario with its default parameters."""
    return Overhead(Parameters())
