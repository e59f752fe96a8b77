"""What does a run leave behind, after many of them: actors, connections, files, memory?

Closed load: tasks enqueued and worked off by a worker in this process, one after another in
the first half, four at a time in the second. Memory is each process's own, of those that
live from the mark to the end; Ray's own services are told apart. `--full` gives the
hundred runs of a thousand nodes.
"""

import gc
import os
import time
from dataclasses import asdict, dataclass
from datetime import timedelta

import psutil
from ray.experimental import internal_kv

from actors import internals, remote
from cluster import runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result

MIB = 1024 * 1024
REACH_MIB = 2.0
AT_ONCE = 4
PATIENCE_S = 300.0
SETTLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Runs in all, of so many nodes; after `mark` of them memory is looked at first."""

    runs: int = 16
    mark: int = 8
    nodes: int = 100


FULL = Parameters(runs=100, mark=20, nodes=1_000)


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment, with the bytes of memory it shares with no other.

    Ours is what runs our code: this process, and Ray's worker processes.
    """

    name: str
    is_ours: bool
    memory: int
    files: int


class Soak:
    __doc__ = __doc__

    name = "soak"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.ended: list[str] = []
        self.marked: dict[int, Process] = {}
        self.last: dict[int, Process] = {}

    def setup(self, harness: Harness) -> None:
        """Make a worker; the first run brings up Ray's worker processes."""
        from django.utils import timezone

        from django_ray.tasks import service
        from django_ray.tasks.fleet import RayFleet
        from django_ray.tasks.worker import Terms, Worker

        assert harness.ray is not None
        self.address = harness.ray.ray
        self.conn = harness.connect()
        terms = Terms(
            owner=service.owner(),
            cluster="here",
            backends={"default"},
            queues={"default"},
            concurrency=AT_ONCE,
            lease=timedelta(seconds=60),
            redact=(),
        )
        self.worker = Worker(terms, RayFleet(), timezone.now)
        self._work(1)
        self.ended.clear()
        self._settle()
        self.connections = self._connections()

    def measure(self) -> None:
        """Work off the runs; look at all processes at the mark and at the end."""
        given = self.parameters
        half = given.runs // 2
        while len(self.ended) < given.runs:
            singly = len(self.ended) < half
            left = given.runs - len(self.ended)
            self._work(1 if singly else min(AT_ONCE, left))
            if len(self.ended) == given.mark:
                self._settle()
                self.marked = processes(self.address)
        self._settle()
        self.last = processes(self.address)

    def _work(self, together: int) -> None:
        from cluster.work import count

        results = [count.enqueue(self.parameters.nodes) for _ in range(together)]
        until = time.monotonic() + PATIENCE_S
        while not all(result.is_finished for result in results):
            assert time.monotonic() < until, "a run did not end"
            self.worker.step(claiming=True)
            time.sleep(0.01)
            for result in results:
                result.refresh()
        for result in results:
            assert result.return_value == self.parameters.nodes
            self.ended.append(result.id)

    def _settle(self) -> None:
        """Wait until the actors of ended runs are gone."""
        until = time.monotonic() + SETTLE_S
        while remote.list_detached():
            assert time.monotonic() < until, remote.list_detached()
            time.sleep(0.1)
        gc.collect()

    def verify(self) -> None:
        """Audit every run, and look for what is left."""
        from django_ray.models.executions import ExecutionLease, RayTaskExecution
        from django_ray.models.progress import NodeDetail, TopologyManifest, WorkflowRun

        rows = RayTaskExecution.objects.filter(public_id__in=self.ended)
        assert rows.count() == self.parameters.runs
        for row in rows:
            assert runs.require_sound(str(row.run_id)) == self.parameters.nodes
        assert WorkflowRun.objects.count() == RayTaskExecution.objects.count()
        details = NodeDetail.objects.count()
        assert details == (self.parameters.runs + 1) * self.parameters.nodes
        assert not TopologyManifest.objects.filter(published=False).exists()
        assert not ExecutionLease.objects.exists()
        assert not internal_kv._internal_kv_list(b"", namespace=internals.NAMESPACE)
        assert self._connections() <= self.connections, "connections are left"
        assert self.growths(ours=True), "no process lived from the mark to the end"
        for pid, process in self.last.items():
            before = self.marked.get(pid, process)
            assert process.files <= before.files + 2, f"{process.name} keeps files"

    def growths(self, *, ours: bool) -> dict[str, float]:
        """Return in MiB how much each process has grown from the mark to the end."""
        return {
            f"{process.name} {pid}": (process.memory - self.marked[pid].memory) / MIB
            for pid, process in self.last.items()
            if pid in self.marked and process.is_ours is ours
        }

    def result(self) -> Result:
        """Return the growth of memory of our processes and of Ray's services."""
        grown, services = self.growths(ours=True), self.growths(ours=False)
        figures = {
            "growth_of_the_largest": Figure(
                values=(max(grown.values()),), unit="MiB", reach=REACH_MIB
            ),
            "growth": Figure(values=tuple(grown.values()), unit="MiB"),
        }
        if services:
            figures["growth_of_services"] = Figure(
                values=tuple(services.values()), unit="MiB"
            )
        told = tuple(
            f"{name}: {number:+.1f} MiB" for name, number in (grown | services).items()
        )
        return Result(figures=figures, parameters=asdict(self.parameters), notes=told)

    def teardown(self) -> None:
        """End what a failed scenario has left."""
        for name in remote.list_detached():
            remote.kill(name)

    def _connections(self) -> int:
        """Count the connections to the database."""
        row = self.conn.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
        ).fetchone()
        assert row is not None
        return int(str(row[0]))


def processes(address: str) -> dict[int, Process]:
    """Return this process and those of the Ray at an address, as they are now."""
    raylet = next(
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "raylet"
        and any(address in word for word in process.info["cmdline"])
    )
    session = os.getsid(raylet.pid)
    found = {}
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or os.getsid(process.pid) == session:
                found[process.pid] = _look(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found


def _look(process: psutil.Process) -> Process:
    memory, title = process.memory_info(), " ".join(process.cmdline())
    mine = process.pid == os.getpid()
    return Process(
        name="worker command" if mine else process.name(),
        is_ours=mine or title.startswith("ray::"),
        memory=memory.rss - memory.shared,
        files=process.num_fds(),
    )


def scenario() -> Soak:
    """Return the scenario in a minute."""
    return Soak(Parameters())


def full() -> Soak:
    """Return the scenario of the record."""
    return Soak(FULL)
