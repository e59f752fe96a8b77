"""How long from report() in a leaf to its row committed, and to the revision's ring?

Open load: leaves report at random moments, at a mean rate that no interval coalesces, in a
run of 10,000 nodes of which a steady trickle changes state. One reader looks at the leaves'
rows all the time; another listens as a page does, and looks when it rings. Both processes
have one clock.
"""

import random
import threading
import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from statistics import quantiles

import ray

from actors import coordinator
from cluster import live, runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.storage.pool import Connection
from django_ray.workflow import fan_out, report

LOOK_S = 0.01
TICK_S = 0.1
LEAST_SEEN = 0.8
"""The share of reports that must not have been overtaken by the next one."""

ROWS = """
SELECT d.ordinal, convert_from(d.record, 'UTF8')::json ->> 'current'
FROM django_ray_node_detail AS d JOIN django_ray_run AS r ON r.id = d.run_id
WHERE r.run_id = %s AND d.ordinal >= %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Nodes in all, the leaves among them, and how they report for how long."""

    nodes: int = 10_000
    leaves: int = 4
    pause_s: float = 1.5
    reports: int = 40
    changes_a_second: int = 100
    seed: int = 11


@dataclass(slots=True)
class Seen:
    """When which value of which leaf was first seen, in seconds since the epoch."""

    at: dict[tuple[int, int], float] = field(default_factory=dict)

    def note(self, rows: list[tuple[object, ...]], at: float) -> None:
        """Note what is in the leaves' rows, as seen at a moment."""
        for ordinal, current in rows:
            if current is not None:
                key = int(str(ordinal)), int(float(str(current)))
                self.at.setdefault(key, at)


def _report(item: tuple[int, Parameters]) -> list[float]:
    """Report at random moments; return when."""
    seed, given = item
    draw = random.Random(seed)
    moments = []
    for place in range(given.reports):
        time.sleep(draw.uniform(0.5, 1.5) * given.pause_s)
        moments.append(time.time())
        report(place + 1, given.reports, message="at it")
    return moments


class Latency:
    __doc__ = __doc__

    name = "latency"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.rows, self.rings = Seen(), Seen()
        self.told: list[list[float]] = []
        self.stop = threading.Event()

    def setup(self, harness: Harness) -> None:
        """Publish the nodes, and start the leaves' processes."""
        given = self.parameters
        self.first = given.nodes - given.leaves
        self.looking, self.listening = harness.connect(), harness.connect()
        self.bell = harness.connect()
        self.identity = runs.execution()
        told = runs.settings(self.identity)
        self.watched, self.producer = live.coordinator(told, given.leaves)
        live.await_writer(self.identity, self.looking)
        for ordinal in range(self.first):
            name = f"flows.step{ordinal % 20}"
            self.watched.register(f"1.{name}[{ordinal}]", name, name, ())
        assert self.producer.settle(live.START_S)
        # As many processes as leaves, so that no report waits for one to start.
        started = ray.remote(num_cpus=0)(_started)
        ray.get([started.remote() for _ in range(given.leaves)])

    def measure(self) -> None:
        """Let the leaves report, the other nodes change, and both readers look."""
        given = self.parameters
        readers = (self._look, self._listen, self._trickle)
        threads = [threading.Thread(target=reader) for reader in readers]
        leaf = ray.remote(num_cpus=0)(_report)
        items = [(given.seed + place, given) for place in range(given.leaves)]
        for thread in threads:
            thread.start()
        try:
            with coordinator.activate(self.watched):
                self.told = list(fan_out(leaf, items))
            assert self.producer.settle(live.START_S)
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()

    def _look(self) -> None:
        """Look at the rows, again and again."""
        while not self.stop.wait(LOOK_S):
            self.rows.note(self._current(self.looking), time.time())

    def _listen(self) -> None:
        """Look at the rows when a revision rings."""
        self.bell.execute("LISTEN django_ray")
        while not self.stop.is_set():
            for _ in self.bell.notifies(timeout=0.2):
                at = time.time()
                self.rings.note(self._current(self.listening), at)

    def _current(self, conn: Connection) -> list[tuple[object, ...]]:
        return conn.execute(ROWS, (self.identity.run_id, self.first)).fetchall()

    def _trickle(self) -> None:
        """Submit and end the other nodes at a steady rate."""
        waiting: list[int] = []
        ordinals = iter(range(self.first))
        while not self.stop.wait(TICK_S):
            for ordinal in waiting:
                self.watched.succeeded(ordinal, None)
            waiting = list(
                islice(ordinals, round(TICK_S * self.parameters.changes_a_second))
            )
            for ordinal in waiting:
                self.watched.submitted(ordinal, None)

    def verify(self) -> None:
        """Audit the run; what each leaf said last is in its row, and nearly all was."""
        assert self.watched.end("SUCCEEDED", None)
        self.producer.stop()
        rows = runs.require_sound(self.identity.run_id)
        assert rows == self.parameters.nodes
        last = self.parameters.reports
        for place in range(self.parameters.leaves):
            assert (self.first + place, last) in self.rows.at
            assert (self.first + place, last) in self.rings.at
        for seen in (self.rows, self.rings):
            share = len(self._latencies(seen)) / (self.parameters.leaves * last)
            assert share >= LEAST_SEEN, f"only {share:.0%} of the reports were seen"

    def _latencies(self, seen: Seen) -> tuple[float, ...]:
        """Return how long after each report it was seen; not of those overtaken."""
        return tuple(
            at - self.told[ordinal - self.first][current - 1]
            for (ordinal, current), at in sorted(seen.at.items())
        )

    def result(self) -> Result:
        """Return the middle and the slow end of both ways."""
        figures = {}
        for key, seen in (("row", self.rows), ("revision", self.rings)):
            values = self._latencies(seen)
            figures[f"{key}_p50"] = Figure(
                values=values, unit="s", reach=0.7, beyond=0.3
            )
            figures[f"{key}_p95"] = Figure(
                values=(quantiles(values, n=20)[-1],), unit="s", reach=1.5, beyond=0.7
            )
        return Result(figures=figures, parameters=asdict(self.parameters))

    def teardown(self) -> None:
        """End the collector."""
        live.end_collectors()


def _started() -> None:
    time.sleep(1)


def scenario() -> Latency:
    """Return the scenario with its default parameters."""
    return Latency(Parameters())
