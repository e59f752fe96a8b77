"""Do a million nodes and two million edges keep every count exact, in flat memory?

Closed load: a window of nodes in flight at one coordinator, which lives in a Ray worker
process as in life and is driven without Ray tasks; the collector is the real actor. Every
node is registered, most are submitted; one in fifty is said to be running by a worker's
producer; each ends in one of the four ways. Half way the run stands still, with nodes in
all seven states, and its counts are compared.
"""

import os
import time
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import cast

import ray

from actors import leaf
from actors.coordinator import Coordinator
from actors.producer import Producer
from cluster import live, memory, runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.protocol import plan
from django_ray.protocol.frames import ProducerKind, State
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import NodeState

LAYER = 250
"""Nodes that do not depend on each other."""

SKIPPED = LAYER - 1
"""The place in its layer of the node that is never submitted."""

STAGES = 40
RUNNING_ONE_IN = 50
HALF_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Nodes and edges; how many nodes are in flight, as in a run with `max_in_flight`."""

    nodes: int = 1_000_000
    edges: int = 2_000_000
    window: int = 256


class Drive:
    """Moves nodes through their states as a call in flight would, and counts them."""

    def __init__(
        self, watched: Coordinator, worker: Producer, parameters: Parameters
    ) -> None:
        self.watched = watched
        self.worker = worker
        self.window = parameters.window
        self.share, self.rest = divmod(parameters.edges, parameters.nodes - LAYER)
        self.flying: deque[int] = deque()
        self.open: dict[int, NodeState] = {}
        self.ended: Counter[NodeState] = Counter()

    def register(self, ordinal: int) -> None:
        """Register one node, which needs a few of the layer before."""
        layer, place = divmod(ordinal, LAYER)
        number = 0 if not layer else self.share + (ordinal - LAYER < self.rest)
        start = ordinal - place - LAYER
        needs = {start + (place + step) % LAYER for step in range(number)}
        name = f"flows.layer{layer % STAGES}"
        node_id = f"1.{name}[part-{ordinal:07d}]"
        assert self.watched.register(node_id, name, name, needs) == ordinal
        self.open[ordinal] = NodeState.PENDING

    def go_on(self, ordinal: int) -> None:
        """Submit a node unless it is to be skipped, and end the one that is due."""
        if ordinal % LAYER == SKIPPED:
            self.end(ordinal)
            return
        self.watched.submitted(ordinal, None)
        self.open[ordinal] = NodeState.SUBMITTED
        self.flying.append(ordinal)
        if ordinal % RUNNING_ONE_IN == 0:
            now = runs.now_ms()
            self.worker.state(State(ordinal, 0, 1, NodeState.RUNNING, now, now))
            self.open[ordinal] = NodeState.RUNNING
        if len(self.flying) >= self.window:
            self.end(self.flying.popleft())

    def end(self, ordinal: int) -> None:
        """Tell a node's end as the coordinator learns of it."""
        del self.open[ordinal]
        match ordinal % LAYER:
            case 249:
                state = NodeState.SKIPPED
                self.watched.skipped(ordinal)
            case 248:
                state = NodeState.FAILED
                error = ValueError(f"part {ordinal} is malformed")
                self.watched.failed(ordinal, error)
            case 247:
                state = NodeState.CANCELLED
                self.watched.cancelled(ordinal)
            case _:
                state = NodeState.SUCCEEDED
                now = runs.now_ms()
                self.watched.succeeded(ordinal, leaf.Status(now - 5, now, 0, "host-1"))
        self.ended[state] += 1

    def counts(self) -> NodeCounts:
        """Return the seven counts that the run has now."""
        counted = self.ended + Counter(self.open.values())
        return NodeCounts(**{state.lower(): n for state, n in counted.items()})


class Outer:
    """The process of the run's outer task, told step by step."""

    def __init__(self, settings: bytes, parameters: Parameters) -> None:
        told = plan.decode_settings(settings)
        self.nodes = parameters.nodes
        self.watched, self.producer = live.coordinator(told, parameters.window)
        handle = live.collector_of(told.identity)
        worker = live.producer(told, ProducerKind.worker, handle)
        self.drive = Drive(self.watched, worker, parameters)

    def process(self) -> int:
        """Return the number of this process."""
        return os.getpid()

    def first_half(self) -> NodeCounts:
        """Drive half of the nodes, and leave some of them in each state."""
        drive, half = self.drive, self.nodes // 2
        self.watched.declare(self.watched.begin(), self.nodes)
        for ordinal in range(half):
            drive.register(ordinal)
            drive.go_on(ordinal)
        for ordinal in range(half, half + drive.window):
            drive.register(ordinal)
        return drive.counts()

    def second_half(self) -> NodeCounts:
        """Drive the rest until every node has ended."""
        drive, half = self.drive, self.nodes // 2
        for ordinal in range(half, half + drive.window):
            drive.go_on(ordinal)
        for ordinal in range(half + drive.window, self.nodes):
            drive.register(ordinal)
            drive.go_on(ordinal)
        while drive.flying:
            drive.end(drive.flying.popleft())
        return drive.counts()

    def end(self) -> NodeCounts:
        """End the run, committed."""
        assert self.watched.end("SUCCEEDED", None), "the end was not committed"
        self.drive.worker.stop()
        self.producer.stop()
        return self.drive.counts()


class Million:
    __doc__ = __doc__

    name = "million"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.notes: list[str] = []
        self.counts = NodeCounts()

    def setup(self, harness: Harness) -> None:
        """Start the collector and the process of the coordinator."""
        self.conn = harness.connect()
        self.identity = runs.execution()
        told = plan.encode_settings(runs.settings(self.identity))
        self.outer = live.process(Outer, told, self.parameters)
        live.await_writer(self.identity, self.conn)

    def measure(self) -> None:
        """Drive the whole, and look at both processes' memory all the while."""
        processes = {
            "collector": int(live.status_of(self.identity)["process"]),
            "coordinator": cast("int", self._ask("process")),
        }
        with ExitStack() as stack:
            watches = {
                side: stack.enter_context(memory.Watch(pid))
                for side, pid in processes.items()
            }
            start = time.perf_counter()
            half = cast("NodeCounts", self._ask("first_half"))
            self._require(half)
            middle = {side: watch.sample() for side, watch in watches.items()}
            at_half = time.perf_counter() - start
            self._ask("second_half")
            self.counts = cast("NodeCounts", self._ask("end"))
            wall = time.perf_counter() - start
            for watch in watches.values():
                watch.sample()
        self._keep(wall, watches, middle)
        self.notes.append(f"the first half took {at_half:.1f} s: {half}")

    def _ask(self, step: str) -> object:
        told: object = ray.get(getattr(self.outer, step).remote())
        return told

    def _require(self, counts: NodeCounts) -> None:
        """Hold the run to its counts while it stands still, with nodes in every state."""
        assert all(counts.of(state) for state in NodeState), counts
        live.await_committed(
            self.conn, self.identity, lambda found: found.node_counts == counts, HALF_S
        )

    def _keep(
        self, wall: float, watches: dict[str, memory.Watch], middle: dict[str, float]
    ) -> None:
        self.figures["wall"] = Figure(values=(wall,), unit="s", reach=90, beyond=45)
        marks = {"collector": (256, 160), "coordinator": (384, 256)}
        for side, watch in watches.items():
            reach, beyond = marks[side]
            self.figures[f"{side}_peak"] = Figure(
                values=(watch.peak,), unit="MiB anonymous", reach=reach, beyond=beyond
            )
            self.figures[f"{side}_second_half"] = Figure(
                values=(watch.peak - middle[side],), unit="MiB more"
            )

    def verify(self) -> None:
        """Audit the run; every count is exact, and what is retained is at its bound."""
        found = live.committed(self.conn, self.identity)
        assert found is not None
        given = self.parameters
        assert found.node_counts == self.counts, found.node_counts
        assert found.node_counts.ended == found.discovered_nodes == given.nodes
        assert found.discovered_edges == given.edges, found.discovered_edges
        retained = min(given.nodes, V1.retained_nodes)
        assert found.retained_nodes == retained
        assert runs.require_sound(self.identity.run_id) == retained

    def result(self) -> Result:
        """Return the time and both processes' memory."""
        return Result(
            figures=self.figures,
            parameters=asdict(self.parameters),
            notes=tuple(self.notes),
        )

    def teardown(self) -> None:
        """End the collector; the coordinator's process ends with Ray."""
        live.end_collectors()


def scenario() -> Million:
    """Return the scenario with its default parameters."""
    return Million(Parameters())
