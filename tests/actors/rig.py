"""A run in one process: producers, a collector, its publisher, storage; time by hand."""

from actors.collector import Collector
from actors.producer import Producer
from actors.publisher import Publisher
from django_ray.progress.pace import Pace, Share
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind, State
from django_ray.protocol.vocabulary import NodeState
from tests.fakes import RUN_ID, FakeClock, FakeHandle, FakeStore, run_settings

SILENCE_MS = 60_000


def node(ordinal, after=()):
    runs = tuple(part for source in after for part in (source, 1))
    return frames.Node(ordinal, f"1.n[{ordinal}]", "n", "stage", runs)


def state(ordinal, state=NodeState.SUBMITTED, at_ms=1_000, try_=1, error=None):
    return State(ordinal, 0, try_, state, at_ms, error=error)


def frame(number, *records, producer=b"p" * 16, epoch=1, **changes):
    fields = {
        "format": 1,
        "run_id": RUN_ID,
        "generation": 1,
        "producer": producer,
        "kind": ProducerKind.coordinator,
        "number": number,
        "writer_epoch": epoch,
        "records": records,
    }
    return frames.encode(frames.Frame(**{**fields, **changes}))


class Rig:
    """`turn` moves the time and lets producer and publisher do one step each.

    When the publisher has no more to do its collector is gone: calls fail from then on.
    """

    def __init__(
        self,
        settings=None,
        storage=None,
        clock=None,
        after_commit=None,
        observe=None,
        tell=None,
    ):
        self.clock = clock or FakeClock()
        self.settings = settings or run_settings()
        self.store = storage or FakeStore(self.clock)
        self.left = 0
        self.collector = Collector(self.settings, Pace(), self.clock())
        self.publisher = Publisher(
            self.collector,
            self.store,
            share=Share(0.1),
            clock=self.clock,
            silence_ms=SILENCE_MS,
            after_commit=after_commit,
            leave=self._leave,
            observe=observe,
        )
        self.handle = FakeHandle(self.ingest)
        self.producer = Producer(
            run_id=self.settings.identity.run_id,
            generation=self.settings.identity.execution_generation,
            kind=ProducerKind.coordinator,
            producer=b"p" * 16,
            handle=self.handle,
            limits=self.settings.limits,
            clock=self.clock,
            tell=tell,
        )

    def _leave(self):
        self.left += 1

    def ingest(self, data):
        return frames.encode(self.collector.ingest(data, self.clock()))

    def turn(self, times=1, milliseconds=50):
        rest = None
        for _ in range(times):
            self.clock.advance(milliseconds)
            self.producer.step(self.clock())
            rest = self.publisher.step()
            if rest is None:
                self.handle.away = True
        return rest

    def settle(self, turns=400):
        for _ in range(turns):
            self.turn()
            if self.producer.settle(0):
                return True
        return False

    def finish(self, steps=100):
        """Let the publisher go on by itself until it has no more to do."""
        for _ in range(steps):
            rest = self.publisher.step()
            if rest is None:
                self.publisher.run()
                return
            self.clock.advance(rest.ms)
        raise AssertionError("the publisher does not end")
