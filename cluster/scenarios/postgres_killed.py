"""What does a run lose, and when has it caught up, when PostgreSQL is stopped at once?

Open load: nodes are registered, worked on and ended at a steady rate, also while the server
is away. Producer, collector, publisher and writer are the product's own, on their threads
in this process. What an answer called committed is looked for in the rows as soon as the
server is there again, before anything has caught up.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import LiteralString

import psycopg

from actors import clock
from actors.collector import Collector
from actors.producer import Producer
from actors.publisher import Publisher
from cluster import runs
from cluster.harness import Harness
from cluster.outage import Outage
from cluster.scenario import Figure, Result
from django_ray.progress.counters import Counters
from django_ray.progress.pace import Pace, Share
from django_ray.protocol import frames, summary
from django_ray.protocol.frames import ProducerKind, State, Status
from django_ray.protocol.vocabulary import NODE_STATES, RANKS, NodeState
from django_ray.storage.writer import Writer

ROWS: LiteralString = """
SELECT d.ordinal, d.state FROM django_ray_node_detail AS d
JOIN django_ray_run AS r ON r.id = d.run_id WHERE r.run_id = %s
"""
SUMMARY: LiteralString = """
SELECT progress_summary FROM django_ray_execution WHERE id = %s
"""
CAUGHT_UP_S = 10.0
PATIENCE_S = 60.0
LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Stops, for how long each is felt, and once a longer one; nodes a second."""

    stops: int = 10
    down_s: tuple[float, float] = (0.1, 1.0)
    away_s: float = 30.0
    between_s: tuple[float, float] = (0.5, 2.0)
    nodes_s: int = 200
    most: int = 20_000
    seed: int = 1


class Answered:
    """The ticket of a call that is done."""

    def __init__(self, answer: frames.Acknowledgement) -> None:
        self.answer = answer


class Direct:
    """A collector in this process, as a producer's handle: a call is done at once.

    Keeps what each frame told, until an answer says that it is committed: from then on it is
    promised.
    """

    def __init__(self, collector: Collector, now: Callable[[], int]) -> None:
        self.promised: dict[int, NodeState] = {}
        self._collector = collector
        self._now = now
        self._sent: dict[int, list[tuple[int, NodeState]]] = {}

    def send(self, frame: bytes) -> object:
        """Deliver a frame; the ticket is its answer."""
        told = frames.decode(frame)
        self._sent[told.number] = [
            (record.ordinal, getattr(record, "state", NodeState.PENDING))
            for record in told.records
            if isinstance(record, frames.Node | State)
        ]
        answer = self._collector.ingest(frame, self._now())
        assert answer.status is Status.OK, answer
        return Answered(answer)

    def poll(
        self, tickets: Sequence[object], timeout_s: float
    ) -> list[tuple[object, bytes | None]]:
        """Hand the answers out, and note what they promise; there is nothing to await."""
        del timeout_s
        done: list[tuple[object, bytes | None]] = []
        for ticket in tickets:
            assert isinstance(ticket, Answered)
            self._promise(ticket.answer.committed)
            done.append((ticket, frames.encode(ticket.answer)))
        return done

    def _promise(self, committed: int) -> None:
        for number in [each for each in self._sent if each <= committed]:
            for ordinal, state in self._sent.pop(number):
                held = self.promised.get(ordinal, NodeState.PENDING)
                if RANKS[state] >= RANKS[held]:
                    self.promised[ordinal] = state


class Load:
    """Registers, submits and ends nodes at a rate, on a thread of its own, until `stop`."""

    BEHIND = 50

    def __init__(
        self, producer: Producer, now: Callable[[], int], given: Parameters
    ) -> None:
        self.counters = Counters()
        self.ended = 0
        self._producer = producer
        self._now = now
        self._given = given
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """Report no more new nodes, and end all there are."""
        self._stopping.set()
        self._thread.join()
        while self.ended < len(self.counters):
            self._end()

    def _run(self) -> None:
        pause = 1 / self._given.nodes_s
        while not self._stopping.wait(pause) and len(self.counters) < self._given.most:
            ordinal = self.counters.add(0)
            before = (ordinal - 1, 1) if ordinal else ()
            self._producer.node(
                frames.Node(ordinal, f"1.n[{ordinal}]", "n", "n", before)
            )
            self._tell(ordinal, NodeState.SUBMITTED)
            if ordinal >= self.BEHIND:
                self._end()

    def _end(self) -> None:
        self._tell(self.ended, NodeState.SUCCEEDED)
        self.ended += 1

    def _tell(self, ordinal: int, state: NodeState) -> None:
        now = self._now()
        self.counters.put(ordinal, state, 1)
        self._producer.state(State(ordinal, 0, 1, state, now, now - 5, "here", 0))


class PostgresKilled:
    __doc__ = __doc__

    name = "postgres_killed"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.caught_up_s: list[float] = []
        self.lost: list[float] = []
        self.promises: list[float] = []

    def setup(self, harness: Harness) -> None:
        """Start a run's producer, collector and publisher over the harness's server."""
        self.url = harness.url
        self.outage = Outage(self.url)
        self.identity = runs.execution()
        told = runs.settings(self.identity)
        self.now = clock.steady()
        collector = Collector(told, Pace(), self.now())
        self.publisher = Publisher(
            collector,
            Writer(told, lambda: self.url),
            share=Share(0.1),
            clock=self.now,
            silence_ms=60_000,
            after_commit=None,
            leave=lambda: None,
            observe=None,
        )
        self.handle = Direct(collector, self.now)
        self.producer = Producer(
            run_id=self.identity.run_id,
            generation=self.identity.execution_generation,
            kind=ProducerKind.coordinator,
            producer=uuid.uuid4().bytes,
            handle=self.handle,
            limits=told.limits,
            clock=self.now,
        )
        self.load = Load(self.producer, self.now, self.parameters)
        self.publisher.start()
        self.producer.start()

    def measure(self) -> None:
        """Stop the server so many times, and once for longer; then let the run end."""
        given, chance = self.parameters, random.Random(self.parameters.seed)
        downs = [chance.uniform(*given.down_s) for _ in range(given.stops)]
        self.load.start()
        for down_s in (*downs, given.away_s):
            time.sleep(chance.uniform(*given.between_s))
            self._stop(down_s)
        self.load.stop()
        self.producer.end(frames.End("SUCCEEDED", self.now()))
        self.settled = self.producer.settle(PATIENCE_S)

    def _stop(self, down_s: float) -> None:
        self.outage.begin()
        promised = dict(self.handle.promised)
        time.sleep(down_s)
        self.outage.end()
        back = time.monotonic()
        ended = self.load.ended
        with psycopg.connect(self.url, autocommit=True) as conn:
            self.promises.append(len(promised))
            self.lost.append(self._missing(conn, promised))
            while (found := self._said(conn)) is None or (
                found.node_counts.succeeded < ended
            ):
                assert time.monotonic() - back < PATIENCE_S, "it does not catch up"
                time.sleep(LOOK_S)
        self.caught_up_s.append(time.monotonic() - back)

    def _missing(
        self,
        conn: psycopg.Connection[tuple[object, ...]],
        promised: dict[int, NodeState],
    ) -> int:
        """Count the promised states that no row holds."""
        found = conn.execute(ROWS, (self.identity.run_id,)).fetchall()
        stored = {
            int(str(ordinal)): NODE_STATES[int(str(code))] for ordinal, code in found
        }
        return sum(
            ordinal not in stored or RANKS[stored[ordinal]] < RANKS[state]
            for ordinal, state in promised.items()
        )

    def _said(
        self, conn: psycopg.Connection[tuple[object, ...]]
    ) -> summary.Summary | None:
        row = conn.execute(SUMMARY, (self.identity.task_execution_pk,)).fetchone()
        if row is None or not isinstance(row[0], bytes):
            return None
        return summary.decode(row[0])

    def verify(self) -> None:
        """Hold the run to every node it was told of, by audit and by count."""
        from django.db import connections

        assert self.settled, "the end was not committed"
        assert sum(self.lost) == 0, f"{sum(self.lost)} committed answers are lost"
        assert max(self.promises) > 0
        nodes = len(self.load.counters)
        # Django's own connection went with the first stop.
        connections.close_all()
        assert runs.require_sound(self.identity.run_id) == nodes
        with psycopg.connect(self.url) as conn:
            said = self._said(conn)
            promised = dict(self.handle.promised)
            assert len(promised) == nodes
            assert self._missing(conn, promised) == 0
        assert said is not None
        assert (said.node_counts.succeeded, said.discovered_edges) == (nodes, nodes - 1)
        assert said.detail.complete

    def result(self) -> Result:
        """Return when each stop was made good, and what was lost by it."""
        return Result(
            figures={
                "caught_up": Figure(
                    values=tuple(self.caught_up_s), unit="s", reach=CAUGHT_UP_S
                ),
                "longest": Figure(
                    values=(max(self.caught_up_s),), unit="s", reach=CAUGHT_UP_S
                ),
                "promised": Figure(values=tuple(self.promises), unit="states"),
                "lost": Figure(values=tuple(self.lost), unit="states", reach=0.0),
                "nodes": Figure(values=(float(len(self.load.counters)),), unit="nodes"),
            },
            parameters=asdict(self.parameters),
        )

    def teardown(self) -> None:
        """End the threads."""
        self.producer.stop()
        self.publisher.stop()


def scenario() -> PostgresKilled:
    """Return the scenario with its default parameters."""
    return PostgresKilled(Parameters())
