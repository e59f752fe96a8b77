"""What does a run lose, and for how long is it unseen, when its collector is killed?

Closed load: `fan_out` with a window, in this process. Another thread kills the collector's
process by SIGKILL at random moments; a kill is made only while frames are uncommitted. Back
is the first publication under the next writer epoch.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import LiteralString

import ray

from actors import clock, coordinator, fan, remote
from actors.producer import Producer
from cluster import runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.protocol import records, summary
from django_ray.storage.pool import Connection

RUN: LiteralString = """
SELECT r.writer_epoch, r.summary_revision, e.progress_summary
FROM django_ray_run AS r JOIN django_ray_execution AS e ON e.id = r.execution_id
WHERE r.run_id = %s
"""
ROWS: LiteralString = """
SELECT d.record FROM django_ray_node_detail AS d
JOIN django_ray_run AS r ON r.id = d.run_id WHERE r.run_id = %s
"""

PATIENCE_S = 60.0
LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Kills in all, over runs of so many nodes that sleep a little each."""

    kills: int = 30
    nodes: int = 2_000
    sleep_s: float = 0.02
    window: int = 16
    pause_s: tuple[float, float] = (0.1, 3.0)
    seed: int = 1


def _doze(seconds: float) -> None:
    time.sleep(seconds)


class Killer:
    """Kills one run's collector again and again, and waits each time until it is back."""

    def __init__(
        self,
        identity: RunIdentity,
        producer: Producer,
        conn: Connection,
        chance: random.Random,
        most: int,
        pause_s: tuple[float, float],
    ) -> None:
        self.opened_s: list[float] = []
        self.back_s: list[float] = []
        self.error: BaseException | None = None
        self._identity = identity
        self._producer = producer
        self._conn = conn
        self._chance = chance
        self._most = most
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to kill."""
        self._thread.start()

    def stop(self) -> None:
        """End after the kill that is being waited for; raise what went wrong."""
        self._stopping.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while len(self.back_s) < self._most and not self._stopping.wait(
                self._chance.uniform(*self._pause_s)
            ):
                self._kill()
        except BaseException as exc:
            self.error = exc

    def _kill(self) -> None:
        pid = process_of(self._identity)
        epoch = self._standing()[0]
        if not epoch:
            # It has not begun: nothing would tell this kill.
            return
        while not self._producer.has_uncommitted:
            if self._stopping.wait(0.001):
                return
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        while self._standing()[0] == epoch:
            self._wait(killed)
        self.opened_s.append(time.monotonic() - killed)
        # What the dead collector had sent is committed by now, or never will be.
        revision = self._standing()[1]
        while self._standing()[1] == revision:
            self._wait(killed)
        self.back_s.append(time.monotonic() - killed)

    def _standing(self) -> tuple[int, int]:
        row = self._conn.execute(RUN, (self._identity.run_id,)).fetchone()
        return (0, 0) if row is None else (int(str(row[0])), int(str(row[1])))

    def _wait(self, since: float) -> None:
        assert time.monotonic() - since < PATIENCE_S, "the collector is not back"
        time.sleep(LOOK_S)


def process_of(identity: RunIdentity) -> int:
    """Return the process id of a run's collector, once it answers."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = remote.find_collector(identity.run_id, identity.execution_generation)
        status = None if found is None else found.status(PATIENCE_S)
        if status is not None:
            return int(status["process"])
        assert time.monotonic() < deadline, "the collector does not answer"
        time.sleep(LOOK_S)


class CollectorKilled:
    __doc__ = __doc__

    name = "collector_killed"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.fresh_s: list[float] = []
        self.opened_s: list[float] = []
        self.back_s: list[float] = []
        self.runs: list[tuple[RunIdentity, int, bool]] = []
        self.lost = 0

    def setup(self, harness: Harness) -> None:
        """Make the remote function; connect to look and to watch."""
        self.conn = harness.connect()
        self.watching = harness.connect()
        self.doze = ray.remote(_doze)
        self.chance = random.Random(self.parameters.seed)

    def measure(self) -> None:
        """Run after run, until all kills are made."""
        given = self.parameters
        while len(self.back_s) < given.kills:
            with self._run() as (watched, producer, identity):
                killer = Killer(
                    identity,
                    producer,
                    self.watching,
                    self.chance,
                    given.kills - len(self.back_s),
                    given.pause_s,
                )
                killer.start()
                self._work(watched)
                killer.stop()
            self.opened_s += killer.opened_s
            self.back_s += killer.back_s
            settled = watched.end("SUCCEEDED", None)
            producer.stop()
            self.runs.append((identity, len(killer.back_s), settled))

    def _work(self, watched: coordinator.Coordinator) -> None:
        given = self.parameters
        for _ in fan.fan_out(
            watched,
            self.doze,
            [given.sleep_s] * given.nodes,
            max_in_flight=given.window,
            key=None,
            group=None,
            refs=False,
            fail=None,
        ):
            pass

    @contextmanager
    def _run(
        self,
    ) -> Iterator[tuple[coordinator.Coordinator, Producer, RunIdentity]]:
        identity = runs.execution()
        told = runs.settings(identity)
        began = time.monotonic()
        producer = runs.coordinator_of(told, lambda: watched.resync())
        watched = coordinator.Coordinator(
            told,
            producer,
            max_in_flight=self.parameters.window,
            clock=clock.steady(),
        )
        with coordinator.activate(watched):
            process_of(identity)
            self.fresh_s.append(time.monotonic() - began)
            yield watched, producer, identity

    def verify(self) -> None:
        """Hold each run to its nodes, its times and its epochs, by audit and by count."""
        for identity, kills, settled in self.runs:
            assert settled, "the end was not committed"
            rows = runs.require_sound(identity.run_id)
            assert rows == self.parameters.nodes
            self.lost += self._lost(identity)
            row = self.conn.execute(RUN, (identity.run_id,)).fetchone()
            assert row is not None
            epoch, _, said_bytes = row
            assert epoch == 1 + kills, f"writer epoch {epoch} after {kills} kills"
            assert isinstance(said_bytes, bytes)
            said = summary.decode(said_bytes)
            assert said.node_counts.succeeded == self.parameters.nodes
            assert said.detail.complete
        assert self.lost == 0
        assert len(self.back_s) == self.parameters.kills

    def _lost(self, identity: RunIdentity) -> int:
        """Count the rows that lack what their node's end has told."""
        found = self.conn.execute(ROWS, (identity.run_id,)).fetchall()
        details = [
            records.decode_detail(record)
            for (record,) in found
            if isinstance(record, bytes)
        ]
        whole = sum(
            detail.state == "SUCCEEDED"
            and isinstance(detail.started_ms, int)
            and isinstance(detail.ended_ms, int)
            and isinstance(detail.host, str)
            for detail in details
        )
        return self.parameters.nodes - whole

    def result(self) -> Result:
        """Return how long each kill was felt, and what was lost."""
        return Result(
            figures={
                "back": Figure(values=tuple(self.back_s), unit="s", reach=5.0),
                # Of `back`, the time until Ray has made the process again and its epoch
                # stands; and what a first collector's first answer takes here.
                "opened": Figure(values=tuple(self.opened_s), unit="s"),
                "fresh": Figure(values=tuple(self.fresh_s), unit="s"),
                "longest_back": Figure(values=(max(self.back_s),), unit="s", reach=5.0),
                "kills": Figure(values=(float(len(self.back_s)),), unit="kills"),
                "lost": Figure(values=(float(self.lost),), unit="states", reach=0.0),
            },
            parameters=asdict(self.parameters),
        )

    def teardown(self) -> None:
        """End the collectors that are left."""
        for name in remote.list_detached():
            remote.kill(name)


def scenario() -> CollectorKilled:
    """Return the scenario with its default parameters."""
    return CollectorKilled(Parameters())
