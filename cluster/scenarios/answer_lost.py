"""What becomes of a run when one commit in ten is done but reported as failed?

A proxy before PostgreSQL waits until the server has committed, keeps that answer and cuts
the connection. Collector, publisher and writer are the product's own, over a clock that
moves by what the publisher says it rests. What was committed is told by PostgreSQL itself:
every publication sends one notification with its revision.
"""

import logging
import random
import time
from dataclasses import asdict, dataclass
from typing import LiteralString

from actors.collector import Collector
from actors.publisher import Publisher
from cluster import runs
from cluster.harness import Harness
from cluster.proxy import Proxy
from cluster.scenario import Figure, Result
from django_ray.progress.pace import Pace, Share
from django_ray.protocol import frames, records, summary
from django_ray.protocol.frames import ProducerKind, Status
from django_ray.protocol.records import Detail
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    TERMINAL_NODE_STATES,
    NodeState,
)
from django_ray.storage.pool import Connection
from django_ray.storage.writer import Writer

DETAILS: LiteralString = (
    "SELECT ordinal, record FROM django_ray_node_detail WHERE run_id = %s"
)
RUN: LiteralString = """
SELECT r.id, r.summary_revision, e.progress_summary
FROM django_ray_run AS r JOIN django_ray_execution AS e ON e.id = r.execution_id
WHERE r.run_id = %s
"""

DELIVERY_S = 10.0
"""A notification comes after its commit, and here at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Publications to commit, and the share of commits whose answer is lost.

    In each publication up to `grown` nodes are new and `moved` change their state; one in a
    hundred brings `burst` nodes at once.
    """

    publications: int = 2_000
    lost: float = 0.1
    grown: int = 3
    moved: int = 20
    burst: int = 300
    seed: int = 7


class Story:
    """What is reported of a run, by a seed, and what must be stored of it in the end."""

    def __init__(self, parameters: Parameters) -> None:
        self._given = parameters
        self._random = random.Random(parameters.seed)
        self.nodes: list[tuple[int, NodeState]] = []
        self.edges = 0

    def reports(self, now_ms: int) -> list[frames.Record]:
        """Return what happened next."""
        given, choose = self._given, self._random
        grown = (
            given.burst if choose.random() < 0.01 else choose.randint(0, given.grown)
        )
        reports: list[frames.Record] = [self._node() for _ in range(grown)]
        moved = min(len(self.nodes), choose.randint(0, given.moved))
        ordinals = choose.sample(range(len(self.nodes)), moved)
        return reports + [self._move(ordinal, now_ms) for ordinal in ordinals]

    def lost(self, stored: dict[int, Detail]) -> int:
        """Count the nodes that are not stored in their latest state."""
        return sum(
            ordinal not in stored
            or (stored[ordinal].try_, stored[ordinal].state) != latest
            for ordinal, latest in enumerate(self.nodes)
        )

    def _node(self) -> frames.Node:
        ordinal = len(self.nodes)
        sources = sorted(self._random.sample(range(ordinal), min(ordinal, 2)))
        self.edges += len(sources)
        self.nodes.append((1, NodeState.PENDING))
        dependencies = tuple(part for source in sources for part in (source, 1))
        return frames.Node(
            ordinal, f"1.n[{ordinal}]", "n", f"stage {ordinal % 5}", dependencies
        )

    def _move(self, ordinal: int, now_ms: int) -> frames.State:
        try_, state = self.nodes[ordinal]
        if state in TERMINAL_NODE_STATES:
            try_, state = try_ + 1, NodeState.SUBMITTED
        else:
            later = NODE_STATES.index(state) + 1
            state = self._random.choice(NODE_STATES[later:])
        self.nodes[ordinal] = (try_, state)
        return frames.State(ordinal, 0, try_, state, now_ms)


class AnswerLost:
    __doc__ = __doc__

    name = "answer_lost"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.story = Story(parameters)
        self.now_ms = runs.now_ms()
        self.sent = 0
        self.told: list[int] = []
        self.elapsed_s = 0.0
        self.lost = 0

    def setup(self, harness: Harness) -> None:
        """Open the proxy and a run behind it, and listen to what is committed."""
        # It says so of every connection that is cut.
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        self.watch: Connection = harness.connect()
        self.watch.execute("LISTEN django_ray")
        self.identity = runs.execution()
        chance = random.Random(self.parameters.seed)
        self.proxy = Proxy(harness.url, lambda: chance.random() < self.parameters.lost)
        told = runs.settings(self.identity)
        self.writer = Writer(told, lambda: self.proxy.dsn)
        self.collector = Collector(told, Pace(), self.now_ms)
        self.publisher = Publisher(
            self.collector,
            self.writer,
            share=Share(0.1),
            clock=lambda: self.now_ms,
            silence_ms=60_000,
            after_commit=None,
            leave=lambda: None,
            observe=None,
        )

    def measure(self) -> None:
        """Report and publish until there are enough publications; then end the run."""
        while len(self.told) < self.parameters.publications:
            self._send(self.story.reports(self.now_ms))
            self._step()
        self._send([frames.End("SUCCEEDED", self.now_ms)])
        while not self.collector.is_over:
            self._step()
        self.answer = self._send([])

    def _step(self) -> None:
        """Let the publisher do one thing; whatever became of it, the run is sound."""
        failures = self.publisher.tallies["unavailable"]
        start = time.perf_counter()
        rest = self.publisher.step()
        self.elapsed_s += time.perf_counter() - start
        assert rest is not None, "the publisher has left the run"
        self.now_ms += max(rest.ms, 1)
        self._listen(0)
        if self.publisher.tallies["unavailable"] > failures and self.told:
            runs.require_sound(self.identity.run_id)

    def _listen(self, timeout_s: float) -> None:
        for each in self.watch.notifies(timeout=timeout_s, stop_after=1):
            self.told.append(int(each.payload.rpartition(" ")[2]))

    def _send(self, reports: list[frames.Record]) -> frames.Acknowledgement:
        self.sent += 1
        frame = frames.Frame(
            1,
            self.identity.run_id,
            self.identity.execution_generation,
            b"p" * 16,
            ProducerKind.coordinator,
            self.sent,
            0,
            tuple(reports),
        )
        answer = self.collector.ingest(frames.encode(frame), self.now_ms)
        assert answer.status is Status.OK, answer
        return answer

    def verify(self) -> None:
        """Compare what is stored with what was reported, and count every commit once."""
        row = self.watch.execute(RUN, (self.identity.run_id,)).fetchone()
        assert row is not None
        run, revision, body = row
        while self.told[-1:] != [revision]:
            told = len(self.told)
            self._listen(DELIVERY_S)
            assert len(self.told) > told, "a publication without its notification"
        tallies = self.publisher.tallies
        assert self.told == list(range(1, revision + 1)), "a revision twice, or missing"
        assert revision == tallies["published"] + tallies["moved"]
        assert tallies["integrity"] == tallies["fault"] == 0, tallies
        assert self.proxy.lost >= tallies["moved"] > 0
        nodes, said = self.story.nodes, summary.decode(body)
        assert said.revision == revision
        assert said.detail.complete
        assert said.discovered_nodes == said.retained_nodes == len(nodes)
        assert said.discovered_edges == said.retained_edges == self.story.edges
        for state in NODE_STATES:
            count = sum(latest is state for _, latest in nodes)
            assert said.node_counts.of(state) == count, f"{state} is miscounted"
        stored = {
            ordinal: records.decode_detail(record)
            for ordinal, record in self.watch.execute(DETAILS, (run,))
        }
        self.lost = self.story.lost(stored)
        assert not self.lost, f"{self.lost} nodes are not in their latest state"
        assert self.answer.committed == self.sent - 1, "a frame is not committed"
        assert runs.require_sound(self.identity.run_id) == len(nodes)

    def result(self) -> Result:
        """Return how many commits were lost, and what that cost."""
        tallies = self.publisher.tallies
        return Result(
            figures={
                "publications": _count(len(self.told)),
                "answers_lost": _count(self.proxy.lost),
                "publications_made_again": _count(tallies["moved"]),
                "other_failures": _count(tallies["unavailable"]),
                "nodes": _count(len(self.story.nodes)),
                "twice": _count(len(self.told) - len(set(self.told)), reach=0),
                "lost": _count(self.lost, reach=0),
                "publication": Figure(
                    values=(1_000 * self.elapsed_s / len(self.told),), unit="ms"
                ),
            },
            parameters=asdict(self.parameters),
        )

    def teardown(self) -> None:
        """Close what the run has open; the database goes with the harness."""
        logging.getLogger("psycopg.pool").setLevel(logging.NOTSET)
        self.writer.close()
        self.proxy.close()


def _count(number: int, reach: float | None = None) -> Figure:
    return Figure(values=(float(number),), unit="", reach=reach)


def scenario() -> AnswerLost:
    """Return the scenario with its default parameters."""
    return AnswerLost(Parameters())
