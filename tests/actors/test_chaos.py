"""A collector that dies, a network that fails: nothing a producer reported is lost."""

import random

import pytest

from actors.producer import Producer
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind, State
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from tests.fakes import RUN_ID, FakeClock, FakeCollector, FakeHandle

SEEDS = 60


class ForgetfulCollector(FakeCollector):
    """Keeps what it applied, in memory until a commit: a restart forgets the rest."""

    def __init__(self):
        super().__init__()
        self.stored = []

    def commit(self):
        super().commit()
        self.stored += self.applied
        self.applied.clear()

    def restart(self):
        super().restart()
        self.applied.clear()


class World:
    """One producer's life, by a seed; `truth` is the latest state of each node."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.clock = FakeClock()
        self.collector = ForgetfulCollector()
        self.handle = FakeHandle(self.collector.ingest)
        self.truth = {}
        self.failures = set()
        self.producer = Producer(
            run_id=RUN_ID,
            generation=1,
            kind=ProducerKind.coordinator,
            producer=b"p" * 16,
            handle=self.handle,
            limits=V1,
            clock=self.clock,
        )

    def report(self):
        if not self.truth or self.chance.random() < 0.3:
            ordinal = len(self.truth)
            self.producer.node(frames.Node(ordinal, f"n{ordinal}", "", ""))
            self.truth[ordinal] = (1, 0, NodeState.PENDING)
            return
        ordinal = self.chance.randrange(len(self.truth))
        try_, rank, _ = self.truth[ordinal]
        if rank == 3:
            try_, rank = try_ + 1, 0
        state = self.chance.choice(NODE_STATES[rank + 1 : 6])
        self.truth[ordinal] = (try_, min(NODE_STATES.index(state), 3), state)
        error = None
        if state is NodeState.FAILED:
            error = frames.Failure("E", f"{ordinal} {try_}")
            self.failures.add(error.text)
        self.producer.state(State(ordinal, 0, try_, state, 1, error=error))

    def trouble(self):
        handle, what = self.handle, self.chance.randrange(14)
        handle.late = None
        if what == 7 and handle.calls:
            handle.late = self.chance.choice(list(handle.calls))
        handle.away, handle.deaf = what == 0, what == 1
        handle.mute, handle.broken = what == 2, what == 3
        if what == 4:
            self.collector.restart()
        if what in (5, 6):
            self.collector.commit()

    def live(self, rounds):
        for _ in range(rounds):
            for _ in range(self.chance.randrange(30)):
                self.report()
            self.trouble()
            self.producer.step(self.clock.advance(self.chance.randrange(400)))
        handle = self.handle
        handle.away = handle.deaf = handle.mute = handle.broken = False
        handle.late = None
        for _ in range(200):
            self.producer.step(self.clock.advance(100))
            self.collector.commit()
            if self.producer.settle(0):
                return True
        return False


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_that_was_reported_is_stored_in_the_end(seed):
    world = World(seed)
    assert world.live(100)
    latest, failures = {}, set()
    for record in world.collector.stored:
        if isinstance(record, frames.States):
            continue
        ordinal = record.ordinal
        if isinstance(record, frames.Node):
            # As the model does: the next one, one it has, or one too far ahead.
            if ordinal == len(latest):
                latest[ordinal] = (1, 0, NodeState.PENDING)
        elif ordinal in latest:
            rank = min(NODE_STATES.index(record.state), 3)
            latest[ordinal] = max(latest[ordinal], (record.try_, rank, record.state))
            failures.update([record.error.text] if record.error else [])
    assert latest == world.truth
    assert failures == world.failures
    assert world.handle.most <= V1.coordinator_window
