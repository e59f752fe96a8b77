"""What becomes of a run when a machine dies that carried its leaves and its collector?

A cluster of three nodes on this machine: a head without CPUs, whose driver is the run's
coordinator in this process, and two that carry the rest. The node of the collector is killed
with all its processes while leaves run on it, and another joins. In every other run Ray may
not repeat a leaf, so that some are lost for good.
"""

import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, LiteralString

import psutil
import ray

from actors import clock, coordinator, fan, internals, remote
from cluster import runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.protocol import records, summary
from django_ray.workflow import Failure, report

if TYPE_CHECKING:
    from ray._private.node import Node

    from actors.producer import Producer

RUN: LiteralString = """
SELECT r.writer_epoch, e.progress_summary
FROM django_ray_run AS r JOIN django_ray_execution AS e ON e.id = r.execution_id
WHERE r.run_id = %s
"""
ROWS: LiteralString = """
SELECT d.record FROM django_ray_node_detail AS d
JOIN django_ray_run AS r ON r.id = d.run_id WHERE r.run_id = %s
"""

COLLECTOR = "ray::CollectorActor"
"""How Ray titles the process of a collector."""

PATIENCE_S = 120.0
LOOK_S = 0.05
PLACINGS = 30
"""How often a collector is started anew until it does not lie on the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Kills, one a run of so many leaves; each comes after so many results."""

    kills: int = 4
    leaves: int = 60
    after: int = 12
    sleep_s: float = 0.4
    window: int = 12
    cpus: int = 2
    collector: bool = True
    """Whether the node that is killed carries the collector, or the other one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """One run, and what its leaves' results say of the kill."""

    identity: RunIdentity
    repeats: bool
    failed: int
    settled: bool
    ended_s: float
    seen_s: float


def _doze(seconds: float) -> None:
    report(0, 1)
    time.sleep(seconds)


class NodeKilled:
    __doc__ = __doc__

    name = "node_killed"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.killed: list[Killed] = []
        self.repeated = 0

    def setup(self, harness: Harness) -> None:
        """Start the three nodes and join them; every process has the same credentials."""
        from ray.cluster_utils import Cluster

        from actors.local import node_environment

        self.conn = harness.connect()
        settings = os.environ["DJANGO_SETTINGS_MODULE"]
        os.environ.update(
            node_environment(
                os.environ, database_url=harness.url, settings_module=settings
            ),
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),
        )
        internals.reread_credentials()
        # A socket's path is at most 107 bytes, and Ray's are long.
        self.folder = tempfile.TemporaryDirectory(
            prefix="drn-", dir="/tmp", ignore_cleanup_errors=True
        )
        head = {
            "num_cpus": 0,
            "include_dashboard": False,
            "temp_dir": self.folder.name,
        }
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self._join(), self._join()]
        remote.connect(
            self.cluster.address, settings_module=settings, log_to_driver=False
        )
        self._warm_up()

    def _join(self) -> "Node":
        joined: Node = self.cluster.add_node(num_cpus=self.parameters.cpus)
        return joined

    def _warm_up(self) -> None:
        """Bring the worker processes up."""
        number = len(self.nodes) * self.parameters.cpus * 2
        doze = ray.remote(num_cpus=0.5)(_doze)
        ray.get([doze.remote(0.5) for _ in range(number)])

    def measure(self) -> None:
        """Kill a node in each run."""
        for number in range(self.parameters.kills):
            self._run(repeats=not number % 2)
            self.nodes.append(self._join())
            self._warm_up()

    def _run(self, *, repeats: bool) -> None:
        given = self.parameters
        watched, producer, identity, victim = self._place()
        retries = 3 if repeats else 0
        doze = ray.remote(num_cpus=0.5, max_retries=retries)(_doze)
        killed_s: list[float] = []
        failed = 0
        with coordinator.activate(watched):
            results = fan.fan_out(
                watched,
                doze,
                [given.sleep_s] * given.leaves,
                max_in_flight=given.window,
                key=None,
                group=None,
                refs=False,
                fail=Failure,
            )
            for number, result in enumerate(results, 1):
                failed += isinstance(result, Failure)
                if number == given.after:
                    self._kill(victim)
                    killed_s.append(time.monotonic())
        ended = time.monotonic() - killed_s[0]
        self._await_all(identity)
        seen = time.monotonic() - killed_s[0]
        settled = watched.end("SUCCEEDED", None)
        producer.stop()
        self.killed.append(
            Killed(
                identity=identity,
                repeats=repeats,
                failed=failed,
                settled=settled,
                ended_s=ended,
                seen_s=seen,
            )
        )

    def _place(
        self,
    ) -> "tuple[coordinator.Coordinator, Producer, RunIdentity, Node]":
        """Start a run whose collector lies on one of the two nodes; return which to kill.

        Ray places an actor without resources anywhere.
        """
        for _ in range(PLACINGS):
            watched, producer, identity = self._begin()
            for node, other in (self.nodes, self.nodes[::-1]):
                if any(title.startswith(COLLECTOR) for title in _titles(node)):
                    victim = node if self.parameters.collector else other
                    return watched, producer, identity, victim
            watched.end("SUCCEEDED", None)
            producer.stop()
            self._await(lambda: not remote.list_detached())
        raise AssertionError("the collector never lay on another node than the head")

    def _begin(self) -> "tuple[coordinator.Coordinator, Producer, RunIdentity]":
        """Be the outer task of a run, once its collector has made its row."""
        identity = runs.execution()
        told = runs.settings(identity)
        producer = runs.coordinator_of(told, lambda: watched.resync())
        watched = coordinator.Coordinator(
            told,
            producer,
            max_in_flight=self.parameters.window,
            clock=clock.steady(),
        )
        self._await(lambda: self._row(identity) is not None)
        return watched, producer, identity

    def _kill(self, node: "Node") -> None:
        """End a node's processes all at once, as the loss of its machine does."""
        raylet = _raylet(node)
        doomed = [raylet, *raylet.children(recursive=True)]
        for process in doomed:
            process.kill()
        self.nodes.remove(node)
        # It waits until the cluster has noticed.
        threading.Thread(
            target=self.cluster.remove_node, args=(node, False), daemon=True
        ).start()

    def _await_all(self, identity: RunIdentity) -> None:
        """Wait until every leaf's end is committed."""

        def is_told() -> bool:
            standing = self._standing(identity)
            return standing is not None and _ended(standing[1]) == (
                self.parameters.leaves
            )

        self._await(is_told)

    def _await(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until, "it did not come"
            time.sleep(LOOK_S)

    def _standing(self, identity: RunIdentity) -> tuple[int, summary.Summary] | None:
        row = self._row(identity)
        if row is None or not isinstance(row[1], bytes):
            return None
        return int(str(row[0])), summary.decode(row[1])

    def _row(self, identity: RunIdentity) -> tuple[object, ...] | None:
        return self.conn.execute(RUN, (identity.run_id,)).fetchone()

    def verify(self) -> None:
        """Hold each run to its nodes by audit and by count; nothing may be left."""
        leaves = self.parameters.leaves
        for run in self.killed:
            assert run.settled, "the end was not committed"
            assert runs.require_sound(run.identity.run_id) == leaves
            standing = self._standing(run.identity)
            assert standing is not None
            epoch, said = standing
            killed = int(self.parameters.collector)
            assert epoch == 1 + killed, f"writer epoch {epoch}"
            counts = said.node_counts
            assert counts.failed == run.failed
            assert counts.succeeded + counts.failed == leaves
            assert said.detail.complete
            assert not (run.repeats and run.failed), "a leaf was not repeated"
            self.repeated += self._repeated(run.identity)
        lost = sum(run.failed for run in self.killed)
        assert lost or self.repeated, "no leaf ran on a node that was killed"
        self._await(lambda: not remote.list_detached())

    def _repeated(self, identity: RunIdentity) -> int:
        """Count the leaves that Ray ran again."""
        found = self.conn.execute(ROWS, (identity.run_id,)).fetchall()
        details = [
            records.decode_detail(record)
            for (record,) in found
            if isinstance(record, bytes)
        ]
        return sum(bool(detail.attempt) for detail in details)

    def result(self) -> Result:
        """Return how long each kill was felt."""
        return Result(
            figures={
                "last_result": Figure(
                    values=tuple(run.ended_s for run in self.killed), unit="s"
                ),
                "all_seen": Figure(
                    values=tuple(run.seen_s for run in self.killed), unit="s"
                ),
                "leaves_repeated": Figure(
                    values=(float(self.repeated),), unit="leaves"
                ),
                "leaves_failed": Figure(
                    values=(float(sum(run.failed for run in self.killed)),),
                    unit="leaves",
                ),
            },
            parameters=asdict(self.parameters),
        )

    def teardown(self) -> None:
        """End the cluster."""
        if ray.is_initialized():
            for name in remote.list_detached():
                remote.kill(name)
            remote.disconnect()
        self.cluster.shutdown()  # type: ignore[no-untyped-call]
        self.folder.cleanup()


def _ended(said: summary.Summary) -> int:
    counts = said.node_counts
    return counts.succeeded + counts.failed + counts.cancelled + counts.skipped


def _raylet(node: "Node") -> psutil.Process:
    (info,) = node.all_processes["raylet"]
    return psutil.Process(info.process.pid)


def _titles(node: "Node") -> list[str]:
    """Return how the processes of a node's raylet call themselves."""
    titles = []
    for process in _raylet(node).children():
        try:
            titles.append(" ".join(process.cmdline()))
        except psutil.NoSuchProcess:
            continue
    return titles


def scenario() -> NodeKilled:
    """Return the scenario with its default parameters."""
    return NodeKilled(Parameters())
