"""A run whose collector may be killed: real producers, coordinator, storage; time by hand.

The run follows a script with a clock of its own, so that what it reports is the same
however often its collector dies on the way.
"""

import random

import msgspec

from actors.collector import Collector
from actors.coordinator import Coordinator
from actors.leaf import TAG, Status
from actors.producer import Producer
from actors.publisher import Publisher
from django_ray.progress.pace import Pace, Share
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.vocabulary import NodeState
from tests.actors.rig import SILENCE_MS
from tests.fakes import START_MS, FakeClock, FakeHandle

WORKERS = 3
ANY = "any"
"""Stands for every step in a reaper's plan."""

DOWN_TURNS = 3
"""So long no collector is there after a death."""


class Killed(BaseException):
    """The collector's process ends here: nothing of it runs on."""


class Reaper:
    """Kills at planned moments: each a step, and which occurrence of it since the last."""

    def __init__(self, *plan):
        self.plan = list(plan)
        self.kills = []
        self.steps = []
        self._seen = 0

    def __call__(self, step):
        self.steps.append(step)
        if not self.plan or self.plan[0][0] not in (step, ANY):
            return
        self._seen += 1
        if self._seen == self.plan[0][1]:
            self._seen = 0
            self.plan.pop(0)
            self.kills.append(step)
            raise Killed


class Life:
    """`turn` moves the time and lets everybody do one step."""

    def __init__(self, settings, make_writer, reaper, after_commit):
        self.clock = FakeClock()
        self.script = FakeClock()
        self.settings = settings
        self.reaper = reaper
        self.collector = self.publisher = None
        self._make_writer = make_writer
        self.audits = after_commit
        self._down = 0
        self._handles = {}
        self.producer = self._make_producer(ProducerKind.coordinator, b"c" * 16)
        self.workers = [
            self._make_producer(ProducerKind.worker, bytes([number]) * 16)
            for number in range(WORKERS)
        ]
        self.coordinator = Coordinator(
            settings, self.producer, max_in_flight=4, clock=self.script
        )
        self.rise()

    def rise(self):
        """Start a collector: another process, so nothing of an earlier one is left."""
        self.collector = Collector(self.settings, Pace(), self.clock())
        self.writer = self._make_writer()
        self.publisher = Publisher(
            self.collector,
            self.writer,
            share=Share(0.5),
            clock=self.clock,
            silence_ms=SILENCE_MS,
            after_commit=self.audits,
            leave=lambda: None,
            observe=self.reaper,
        )
        self._be_away(False)

    def kill(self):
        """Let the collector's process end, and its connections with it."""
        self.writer.close()
        self.collector = None
        self._down = DOWN_TURNS
        self._be_away(True)

    def turn(self, times=1, milliseconds=250):
        for _ in range(times):
            self.clock.advance(milliseconds)
            for producer in (self.producer, *self.workers):
                producer.step(self.clock())
            if self.collector is None:
                self._down -= 1
                if not self._down:
                    self.rise()
                continue
            try:
                self.publisher.step()
            except Killed:
                self.kill()

    def settle(self, turns=200):
        """Let all that was reported be committed."""
        everybody = (self.producer, *self.workers)
        for _ in range(turns):
            self.turn()
            if all(each.settle(0) for each in everybody):
                return True
        return False

    def _ingest(self, data):
        return frames.encode(self.collector.ingest(data, self.clock()))

    def _be_away(self, away):
        for handle in self._handles.values():
            handle.away = away

    def lead(self, producer, collector):
        """Let a producer reach another collector than the one that there is."""
        to = self._ingest
        if collector is not None:

            def to(data):
                return frames.encode(collector.ingest(data, self.clock()))

        self._handles[producer].ingest = to

    def deafen(self, producer, *, deaf):
        """Let a producer reach the collector, and hear no answer."""
        self._handles[producer].deaf = deaf

    def _make_producer(self, kind, name):
        handle = FakeHandle(self._ingest)
        made = Producer(
            run_id=self.settings.identity.run_id,
            generation=self.settings.identity.execution_generation,
            kind=kind,
            producer=name,
            handle=handle,
            limits=self.settings.limits,
            clock=self.clock,
            resync=self._resync if kind is ProducerKind.coordinator else tuple,
        )
        self._handles[made] = handle
        return made

    def _resync(self):
        return self.coordinator.resync()


def host_of(ordinal):
    return f"host-{ordinal % 5}"


class Script:
    """What a run does, by a seed: every call of `do` is a moment of its life."""

    def __init__(self, life, seed):
        self.life = life
        self.chance = random.Random(seed)
        self.registered = 0
        self.open = []
        self.started = {}
        self.said = {}
        self.skipped = set()

    def register(self, number, after=lambda _: (), stage="stage"):
        for _ in range(number):
            ordinal = self.registered
            self.life.coordinator.register(
                f"1.n[{ordinal}]", "n", stage, after(ordinal)
            )
            self.registered += 1
            self.open.append(ordinal)

    def some(self, number):
        """Return `number` earlier nodes to depend on."""
        return lambda ordinal: self.chance.sample(range(ordinal), min(number, ordinal))

    def work(self, ordinal, *, reports=True):
        """Submit a node and let a worker say that it runs, and how far it is."""
        if self.chance.random() < 0.1:
            self.skipped.add(ordinal)
            return
        life = self.life
        life.coordinator.submitted(ordinal, None)
        self.started[ordinal] = started = self.now
        if not reports:
            return
        worker = life.workers[ordinal % WORKERS]
        worker.state(
            frames.State(
                ordinal, 0, 1, NodeState.RUNNING, started, started, host_of(ordinal)
            )
        )
        said = frames.Progress(ordinal, 0, 1, 1, self.now, 1, 2, f"half of {ordinal}")
        self.said[ordinal] = said
        worker.progress(said)

    def end(self, ordinal):
        """End a node in one of the ways there are."""
        self.open.remove(ordinal)
        coordinator = self.life.coordinator
        if ordinal in self.skipped:
            coordinator.skipped(ordinal)
            return
        # As a leaf does: what its process may not live to send comes with its end.
        held = self.life.workers[ordinal % WORKERS].holds_progress(ordinal)
        report = self.said.get(ordinal) if held else None
        status = Status(self.started[ordinal], self.now, 0, host_of(ordinal), report)
        if self.chance.random() < 0.9:
            coordinator.succeeded(ordinal, status)
            return
        error = ValueError(f"no such path: {ordinal}")
        setattr(error, TAG, msgspec.msgpack.encode(status))
        coordinator.failed(ordinal, error)

    @property
    def now(self):
        return self.life.script.advance(7)

    def finish(self):
        """End every node and the run; return once all is committed."""
        for ordinal in list(self.open):
            self.end(ordinal)
        self.life.turn(2)
        life = self.life
        life.coordinator.stop()
        life.producer.end(frames.End("SUCCEEDED", START_MS + 30_000))
        return life.settle()


def chain(script):
    """One node after another."""
    script.life.coordinator.declare(1, 12)
    script.register(12, lambda ordinal: (ordinal - 1,) if ordinal else ())
    for ordinal in range(12):
        script.work(ordinal)
        script.life.turn()
        script.end(ordinal)
        script.life.turn()


def fan_out(script):
    """Many at once; some stay without a word for long."""
    script.life.coordinator.declare(1, 60)
    script.register(1, stage="root")
    script.register(59, lambda _: (0,), stage="leaf")
    for ordinal in range(60):
        script.work(ordinal, reports=ordinal % 3 == 0)
        if ordinal % 4 == 0:
            script.life.turn()
        if ordinal > 20 and ordinal % 2:
            script.end(ordinal - 20)


def growing(script):
    """A graph that grows while its nodes end, in more and more stages."""
    for _ in growing_steps(script):
        pass


def growing_steps(script):
    for step in range(14):
        if step % 4 == 0:
            script.life.coordinator.declare(step // 4 + 1, 12)
        script.register(3, script.some(3), stage=f"stage-{step // 3}")
        for ordinal in script.open[-3:]:
            script.work(ordinal, reports=ordinal % 2 == 0)
        script.life.turn(1 + step % 3)
        if step > 3:
            for ordinal in script.open[:2]:
                script.end(ordinal)
        yield step


SHAPES = {shape.__name__: shape for shape in (chain, fan_out, growing)}
