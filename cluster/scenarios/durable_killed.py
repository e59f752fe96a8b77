"""What becomes of executions when all that they run on is killed, again and again?

Workers, host and outer processes, collectors, a node of the cluster and PostgreSQL are
killed at random moments of a seeded schedule, and replaced at once, until every execution
has ended. Each node leaves a row of its own behind, by a leaf that Ray may not repeat.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import LiteralString

import psutil
import psycopg

from actors import remote
from cluster import runs
from cluster.harness import Harness
from cluster.machines import Machines, processes
from cluster.outage import Outage
from cluster.scenario import Figure, Result

TABLE: LiteralString = """
CREATE TABLE cluster_effect (execution uuid, attempt int, node int)
"""
OPEN: LiteralString = """
SELECT count(*) FROM django_ray_execution
WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'LOST')
"""
TWICE: LiteralString = """
SELECT execution, attempt, node FROM cluster_effect
GROUP BY execution, attempt, node HAVING count(*) > 1
"""
SHORT: LiteralString = """
SELECT e.public_id FROM django_ray_execution AS e
LEFT JOIN cluster_effect AS f ON f.execution = e.public_id
WHERE e.state = 'SUCCEEDED' GROUP BY e.public_id HAVING count(DISTINCT f.node) < %s
"""
ATTEMPTS: LiteralString = """
SELECT count(*) FROM django_ray_attempt AS a JOIN django_ray_execution AS e
    ON e.id = a.execution_id
WHERE a.state NOT IN ('SUCCEEDED', 'FAILED', 'LOST', 'TIMED_OUT', 'CANCELLED')
    OR (a.attempt_number = e.attempt_number) <> (a.run_id = e.run_id)
    OR (a.attempt_number = e.attempt_number AND a.state <> e.state)
"""
CONNECTIONS: LiteralString = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid <> pg_backend_pid()
"""

TITLES = {
    "outer": "ray::django_ray.outer",
    "host": "ray::HostActor",
    "collector": "ray::CollectorActor",
}
PATIENCE_S = 1_200.0
LEFT_S = 90.0
LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Executions of so many nodes, the workers that share them, and the pauses of a kill."""

    executions: int = 4
    nodes: int = 50
    workers: int = 3
    concurrency: int = 2
    cpus: int = 2
    lease_s: int = 5
    pause_s: tuple[float, float] = (0.5, 2.5)
    down_s: tuple[float, float] = (0.1, 1.0)
    seed: int = 1
    kinds: tuple[tuple[str, int], ...] = (
        ("worker", 4),
        ("outer", 2),
        ("host", 2),
        ("collector", 3),
        ("postgresql", 2),
        ("machine", 1),
    )


class Workers:
    """Worker commands in processes of their own; what they say is kept in a file."""

    def __init__(self, address: str, given: Parameters, log: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "django", "ray_worker"),
            *("--address", address, "--concurrency", str(given.concurrency)),
        ]
        self._log = log.open("ab")
        self.log = log
        self.running = [self._start() for _ in range(given.workers)]

    def kill(self, place: int) -> None:
        """Kill one at once, and start another."""
        self.running[place].kill()
        self.running[place].wait()
        self.running[place] = self._start()

    def close(self) -> None:
        """Ask all to leave, and wait until they have."""
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(LEFT_S)
        self._log.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdout=self._log, stderr=self._log)


class DurableKilled:
    __doc__ = __doc__

    name = "durable_killed"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.random = random.Random(parameters.seed)
        self.kills: Counter[str] = Counter()
        self.spent = 0.0
        self.adopted = 0
        self.workers: Workers | None = None
        self.stack = ExitStack()

    def setup(self, harness: Harness) -> None:
        """Start the machines and the workers; let one execution go through."""
        given = self.parameters
        self.url = harness.url
        os.environ["LEASE_SECONDS"] = str(given.lease_s)
        self._ask(TABLE)
        self.machines = Machines(harness.url, nodes=2, cpus=given.cpus)
        self.stack.callback(self.machines.close)
        self.outage = Outage(harness.url)
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="drk-"))
        log = Path(folder) / "workers"
        self.workers = Workers(self.machines.address, given, log)
        self._enqueue(1)
        self._until(lambda: not self._open(), PATIENCE_S)

    def _enqueue(self, number: int) -> None:
        from cluster.work import effects

        for _ in range(number):
            effects.enqueue(self.parameters.nodes)

    def measure(self) -> None:
        """Kill until all have ended."""
        given = self.parameters
        began = time.monotonic()
        self._enqueue(given.executions)
        while self._open():
            assert time.monotonic() - began < PATIENCE_S, "some did not end"
            time.sleep(self.random.uniform(*given.pause_s))
            names, weights = zip(*given.kinds, strict=True)
            (kind,) = self.random.choices(names, weights)
            self.kills[kind] += self._kill(kind)
        self.spent = time.monotonic() - began

    def _kill(self, kind: str) -> bool:
        """Kill one of a kind, if there is one now."""
        assert self.workers is not None
        if kind == "worker":
            self.workers.kill(self.random.randrange(self.parameters.workers))
        elif kind == "postgresql":
            self.outage.begin()
            time.sleep(self.random.uniform(*self.parameters.down_s))
            self.outage.end()
        elif kind == "machine":
            self.machines.kill(self.random.choice(self.machines.nodes))
            self.machines.join()
        else:
            found = [
                process
                for node in self.machines.nodes
                for process in processes(node, TITLES[kind])
            ]
            if not found:
                return False
            try:
                self.random.choice(found).kill()
            except psutil.NoSuchProcess:
                return False
        return True

    def verify(self) -> None:
        """Hold every row to its attempts and its effects; nothing may be left."""
        from django.db import connection

        from django_ray.models.executions import ExecutionLease, RayTaskExecution

        assert self.workers is not None
        # Connections of before an outage are broken.
        connection.close()
        self._until(lambda: not remote.list_detached(), LEFT_S)
        self.workers.close()
        self.adopted = self.workers.log.read_text().count("Adopted execution")
        assert not ExecutionLease.objects.exists(), "a lease is left"
        assert self._ask(ATTEMPTS) == [(0,)], "an attempt disagrees with its execution"
        assert self._ask(TWICE) == [], "a node had its effect twice in an attempt"
        assert self._ask(SHORT, self.parameters.nodes) == [], "an effect is missing"
        for row in RayTaskExecution.objects.only("run_id"):
            runs.require_sound(str(row.run_id))
        connection.close()
        self._until(lambda: self._ask(CONNECTIONS) == [(0,)], LEFT_S)

    def result(self) -> Result:
        """Return what was killed, what was adopted, and how it all ended."""
        ends = self._ask(
            "SELECT state, count(*), max(attempt_number) FROM django_ray_execution"
            " GROUP BY state ORDER BY state"
        )
        figures = {
            f"kills_{kind}": Figure(values=(float(number),), unit="kills")
            for kind, number in self.kills.items()
        }
        figures["adopted"] = Figure(
            values=(float(self.adopted),), unit="runs", reach=10.0, more_is_better=True
        )
        figures["all_ended"] = Figure(values=(self.spent,), unit="s")
        return Result(
            figures=figures,
            parameters=asdict(self.parameters),
            notes=tuple(
                f"{number} {state}, of at most {most} attempts"
                for state, number, most in ends
            ),
        )

    def teardown(self) -> None:
        """End workers and machines."""
        if self.workers is not None:
            for process in self.workers.running:
                process.kill()
                process.wait()
        self.stack.close()

    def _open(self) -> int:
        ((number,),) = self._ask(OPEN)
        return int(str(number))

    def _ask(
        self, statement: LiteralString, *values: object
    ) -> list[tuple[object, ...]]:
        """Ask over a connection of its own: any other may have been broken meanwhile."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            found = conn.execute(statement, values)
            return found.fetchall() if found.description else []

    def _until(self, condition: Callable[[], object], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "it did not come"
            time.sleep(LOOK_S)


def scenario() -> DurableKilled:
    """Return the scenario in some minutes."""
    return DurableKilled(Parameters())


def full() -> DurableKilled:
    """Return the scenario of the record."""
    return DurableKilled(Parameters(executions=200))
