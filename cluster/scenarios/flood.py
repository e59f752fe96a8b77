"""Does the collector's memory hold while 64 processes ignore their window?

Open load: each process sends as fast as Ray takes it, once frames of 96 KiB, of which a
third are the run's own, a third another run's and a third no frames, once frames of 10 MB.
PostgreSQL is held still for 20 s meanwhile, and a fan-out goes on in the same run. Pages
of the object store are counted apart from anonymous memory.
"""

import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import cast

import ray
from msgspec import structs

from actors import coordinator
from cluster import live, memory, runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.protocol import frames
from django_ray.protocol.frames import Frame, ProducerKind, Progress
from django_ray.protocol.limits import V1
from django_ray.workflow import fan_out, report

LARGE = 10 * 1000 * 1000
PAUSE_S = 0.005
ANSWER_S = 120.0
WITHHELD = "withheld"
"""What Ray did not take of a process, since it has eight calls unanswered."""

FOREIGN = "0b8f1d3e-6f0a-4c8e-9a51-3f4f5d2c7b11"
HOLD = "LOCK TABLE django_ray_execution, django_ray_run IN ACCESS EXCLUSIVE MODE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Processes, how long they send and PostgreSQL stands, and the user's tasks."""

    processes: int = 64
    flood_s: float = 30.0
    held_s: float = 20.0
    nodes: int = 1_000
    tasks: int = 200


class Source:
    """One process that sends without regard to answers; made remote."""

    def __init__(self, place: int, identity: RunIdentity, nodes: int) -> None:
        self.place = place
        self.collector = live.collector_of(identity)
        self.number = 1
        other = replace(identity, run_id=FOREIGN)
        self.frame = _frame(identity if place % 3 else other, place, nodes)

    def send(self, large: bool, seconds: float) -> Counter[str]:
        """Send for so long; return how many frames were answered how."""
        told: Counter[str] = Counter()
        tickets: list[object] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            tickets.append(self.collector.send(self._next(large)))
            withheld = told[WITHHELD]
            tickets = self._answered(tickets, told, 0)
            if told[WITHHELD] > withheld:
                time.sleep(PAUSE_S)
            else:
                self.number += 1
        while tickets:
            tickets = self._answered(tickets, told, ANSWER_S)
        return told

    def _next(self, large: bool) -> bytes:
        if large:
            return bytes(LARGE)
        if self.place % 3 == 2:
            return b"\xc1" * V1.frame_cut
        return frames.encode(structs.replace(self.frame, number=self.number))

    def _answered(
        self, tickets: list[object], told: Counter[str], timeout_s: float
    ) -> list[object]:
        done = self.collector.poll(tickets, timeout_s)
        assert done or not timeout_s, "no answer in time"
        for _, answer in done:
            if answer is None:
                told[WITHHELD] += 1
            else:
                said = frames.decode_acknowledgement(answer)
                told[said.reason or said.status] += 1
        ended = {id(ticket) for ticket, _ in done}
        return [ticket for ticket in tickets if id(ticket) not in ended]


def _frame(identity: RunIdentity, place: int, nodes: int) -> Frame:
    """Return a frame of 96 KiB, full of news of retained nodes."""
    return Frame(
        format=1,
        run_id=identity.run_id,
        generation=identity.execution_generation,
        producer=place.to_bytes(16),
        kind=ProducerKind.owner,
        number=1,
        writer_epoch=1,
        records=tuple(
            Progress(at % nodes, 0, 1, 1 + at, 1, at, message="m" * 64)
            for at in range(V1.frame_records)
        ),
    )


def _work(item: int) -> int:
    report(1, 2, message="at it")
    time.sleep(0.05)
    return item * item


class Flood:
    __doc__ = __doc__

    name = "flood"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.notes: list[str] = []
        self.told: Counter[str] = Counter()
        self.results: list[list[object]] = []

    def setup(self, harness: Harness) -> None:
        """Publish the nodes, and start the processes."""
        given = self.parameters
        self.conn, self.holding = harness.connect(), harness.connect()
        self.identity = runs.execution()
        told = runs.settings(self.identity)
        self.watched, self.producer = live.coordinator(told, 8)
        live.await_writer(self.identity, self.conn)
        for ordinal in range(given.nodes):
            self.watched.register(f"1.n[{ordinal}]", "n", "n", ())
        assert self.producer.settle(live.START_S)
        self.sources = [
            live.process(Source, place, self.identity, given.nodes)
            for place in range(given.processes)
        ]
        # A short flood first: what the process needs for its work is no growth of it.
        self._flood(large=False, seconds=1.0)

    def measure(self) -> None:
        """Flood with either size, PostgreSQL held still, the user's tasks running."""
        given = self.parameters
        pid = int(live.status_of(self.identity)["process"])
        for key, large in (("96_kib", False), ("10_mb", True)):
            with memory.Watch(pid) as watch:
                holder = threading.Thread(target=self._hold)
                worker = threading.Thread(target=self._work)
                for thread in (holder, worker):
                    thread.start()
                told = self._flood(large=large, seconds=given.flood_s)
                for thread in (holder, worker):
                    thread.join()
            self.figures[f"growth_{key}"] = Figure(
                values=(watch.growth,), unit="MiB anonymous", reach=96, beyond=64
            )
            self.figures[f"object_store_{key}"] = Figure(
                values=(watch.peak_shared - watch.first_shared,), unit="MiB"
            )
            self.notes.append(f"{key}: {dict(sorted(told.items()))}")

    def _flood(self, *, large: bool, seconds: float) -> Counter[str]:
        told: Counter[str] = Counter()
        sent = [source.send.remote(large, seconds) for source in self.sources]
        for answered in cast("list[Counter[str]]", ray.get(sent)):
            told += answered
        self.told += told
        return told

    def _hold(self) -> None:
        """Let nobody read or write the run's rows for a while."""
        with self.holding.transaction():
            self.holding.execute(HOLD)
            time.sleep(self.parameters.held_s)

    def _work(self) -> None:
        """Be the user, whom nothing of this concerns."""
        work = ray.remote(num_cpus=0.25)(_work)
        items = range(self.parameters.tasks)
        with coordinator.activate(self.watched):
            self.results.append(list(fan_out(work, items)))

    def verify(self) -> None:
        """Every refusal is counted, every result right, and the run sound."""
        told = live.status_of(self.identity)
        for reason in ("malformed_frame", "foreign_run", "frame"):
            assert told[reason] == self.told[reason] > 0, (reason, told, self.told)
        assert told["refused"] == sum(
            self.told[reason] for reason in ("malformed_frame", "foreign_run", "frame")
        )
        right = [item * item for item in range(self.parameters.tasks)]
        assert self.results == [right, right]
        assert self.watched.end("SUCCEEDED", None), "the end was not committed"
        self.producer.stop()
        found = live.committed(self.conn, self.identity)
        assert found is not None
        assert found.node_counts.succeeded == 2 * self.parameters.tasks
        runs.require_sound(self.identity.run_id)

    def result(self) -> Result:
        """Return by how much the collector grew."""
        return Result(
            figures=self.figures,
            parameters=asdict(self.parameters),
            notes=tuple(self.notes),
        )

    def teardown(self) -> None:
        """End the collector; the other processes end with Ray."""
        live.end_collectors()


def scenario() -> Flood:
    """Return the scenario with its default parameters."""
    return Flood(Parameters())
