"""What share of the events a bare actor could take does the collector apply and publish?

Closed load: four processes, each with two frames of 256 events unanswered, first to one
actor, then to the other, in alternating rounds. The bare actor returns a constant. The
collector reads, checks and applies every event, and its publisher writes to PostgreSQL all
the while. Every event is news of a retained node, so all nodes are dirty all the time.
"""

import time
from dataclasses import asdict, dataclass

import ray
from ray.actor import ActorHandle

from actors import remote
from cluster import live, runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.protocol import frames
from django_ray.protocol.frames import Frame, ProducerKind, Progress, Status

ANSWER_S = 60.0
COMMITTED_S = 60.0
ROWS = """
SELECT d.ordinal, convert_from(d.record, 'UTF8')::json ->> 'current'
FROM django_ray_node_detail AS d JOIN django_ray_run AS r ON r.id = d.run_id
WHERE r.run_id = %s ORDER BY d.ordinal
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Retained nodes; producers; frames of each in a round, and events of a frame."""

    nodes: int = 10_000
    producers: int = 4
    frames: int = 500
    events: int = 256
    window: int = 2
    rounds: int = 7


class Bare:
    """The least an actor can do with a frame."""

    def __init__(self) -> None:
        self._answer = frames.encode(frames.Acknowledgement(1, Status.OK, 1, 1, 1, 500))

    def ingest(self, _frame: object) -> bytes:
        """Answer, whatever it is."""
        return self._answer


class Source:
    """One process with events of its share of the nodes; made remote."""

    def __init__(self, place: int, identity: RunIdentity, given: Parameters) -> None:
        self.identity = identity
        self.given = given
        self.producer = bytes([place]) * 16
        self.ordinals = range(place, given.nodes, given.producers)
        self.number = self.sequence = 0
        self.frames: list[bytes] = []
        self.latest: dict[int, int] = {}
        self.collector = live.collector_of(identity)

    def prepare(self, count: int) -> None:
        """Encode the frames of a round, outside its clock."""
        self.frames = [self._frame() for _ in range(count)]

    def send(self, bare: "ActorHandle[remote.CollectorActor] | None") -> None:
        """Send what is prepared in the window, until all of it is answered."""
        handle = self.collector if bare is None else remote.RayCollectorHandle(bare)
        tickets: list[object] = []
        for frame in self.frames:
            if len(tickets) >= self.given.window:
                tickets = self._answered(handle, tickets)
            tickets.append(handle.send(frame))
        while tickets:
            tickets = self._answered(handle, tickets)

    def is_committed(self) -> bool:
        """Ask by an empty frame whether all that was sent is in PostgreSQL."""
        self.number += 1
        ticket = self.collector.send(self._encode(()))
        ((_, answer),) = self.collector.poll([ticket], ANSWER_S)
        told = frames.decode_acknowledgement(answer or b"")
        assert told.status is Status.OK, told
        return told.committed >= self.number - 1

    def told(self) -> dict[int, int]:
        """Return what was said last of each node."""
        return self.latest

    def _answered(
        self, handle: remote.RayCollectorHandle, tickets: list[object]
    ) -> list[object]:
        done = handle.poll(tickets, ANSWER_S)
        assert done, "no answer in time"
        for _, answer in done:
            told = frames.decode_acknowledgement(answer or b"")
            assert told.status is Status.OK, told
        ended = {id(ticket) for ticket, _ in done}
        return [ticket for ticket in tickets if id(ticket) not in ended]

    def _frame(self) -> bytes:
        self.number += 1
        return self._encode(tuple(self._event() for _ in range(self.given.events)))

    def _event(self) -> Progress:
        ordinal = self.ordinals[self.sequence % len(self.ordinals)]
        self.sequence += 1
        self.latest[ordinal] = self.sequence
        now = runs.now_ms()
        return Progress(
            ordinal, 0, 1, self.sequence, now, self.sequence, 10**9, host="host-1"
        )

    def _encode(self, records: tuple[Progress, ...]) -> bytes:
        identity = self.identity
        frame = Frame(
            format=1,
            run_id=identity.run_id,
            generation=identity.execution_generation,
            producer=self.producer,
            kind=ProducerKind.worker,
            number=self.number,
            writer_epoch=1,
            records=records,
        )
        return frames.encode(frame)


class Ingest:
    __doc__ = __doc__

    name = "ingest"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.rates: dict[str, list[float]] = {"collector": [], "bare": []}

    def setup(self, harness: Harness) -> None:
        """Publish the nodes, and start the bare actor and the four processes."""
        given = self.parameters
        self.conn = harness.connect()
        self.identity = runs.execution()
        told = runs.settings(self.identity)
        _, self.producer = live.coordinator(told, 1)
        live.await_writer(self.identity, self.conn)
        for node in runs.layered(given.nodes, 2 * given.nodes):
            self.producer.node(node)
        assert self.producer.settle(live.START_S)
        self.bare = live.process(Bare)
        self.sources = [
            live.process(Source, place, self.identity, given)
            for place in range(given.producers)
        ]

    def measure(self) -> None:
        """Alternate, and change who goes first; the first pair is the warm-up."""
        for pair in range(self.parameters.rounds + 1):
            sides = ("bare", "collector") if pair % 2 else ("collector", "bare")
            rates = {side: self._round(side) for side in sides}
            for side, rate in rates.items():
                if pair:
                    self.rates[side].append(rate)

    def _round(self, side: str) -> float:
        given = self.parameters
        ray.get([each.prepare.remote(given.frames) for each in self.sources])
        target = self.bare if side == "bare" else None
        start = time.perf_counter()
        ray.get([each.send.remote(target) for each in self.sources])
        wall = time.perf_counter() - start
        if side == "bare":
            # What the bare actor swallowed was never said: it is said again, unclocked.
            ray.get([each.send.remote(None) for each in self.sources])
        return given.producers * given.frames * given.events / wall

    def verify(self) -> None:
        """Audit the run; every node's row holds what was said of it last."""
        deadline = time.monotonic() + COMMITTED_S
        while not all(ray.get([each.is_committed.remote() for each in self.sources])):
            assert time.monotonic() < deadline, "not committed in time"
            time.sleep(live.PAUSE_S)
        assert runs.require_sound(self.identity.run_id) == self.parameters.nodes
        latest: dict[int, int] = {}
        for source in self.sources:
            latest |= ray.get(source.told.remote())
        rows = self.conn.execute(ROWS, (self.identity.run_id,)).fetchall()
        assert {row[0]: int(str(row[1])) for row in rows} == latest
        assert len(latest) == self.parameters.nodes
        self.producer.stop()

    def result(self) -> Result:
        """Return both rates and their ratio."""
        ratio = tuple(
            ours / bare
            for ours, bare in zip(
                self.rates["collector"], self.rates["bare"], strict=True
            )
        )
        figures = {
            f"{side}_rate": Figure(
                values=tuple(rates), unit="events/s", more_is_better=True
            )
            for side, rates in self.rates.items()
        }
        figures["ratio"] = Figure(
            values=ratio, unit="x bare", reach=0.5, beyond=0.8, more_is_better=True
        )
        return Result(figures=figures, parameters=asdict(self.parameters))

    def teardown(self) -> None:
        """End the collector; the other processes end with Ray."""
        live.end_collectors()


def scenario() -> Ingest:
    """Return the scenario with its default parameters."""
    return Ingest(Parameters())
