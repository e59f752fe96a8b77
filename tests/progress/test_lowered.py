"""What a profile lowers is what a run applies, and a run bears the lowest of each."""

from dataclasses import fields
from typing import ClassVar

import pytest

from actors.producer import Producer
from django_ray.progress.graph import Graph
from django_ray.progress.ledger import Ledger
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.limits import LOWERABLE, V1, Limits
from tests.fakes import RUN_ID, FakeClock, FakeCollector, FakeHandle
from tests.progress.making import START, Run, end, limits, node, progress, state

LONG = "m" * 300


class Watched(Limits):
    """Limits that know which of them were asked for."""

    __slots__ = ()

    asked: ClassVar[set[str]] = set()

    def __getattribute__(self, name):
        if not name.startswith("_") and name != "asked":
            type(self).asked.add(name)
        return super().__getattribute__(name)


def live(given):
    """Let a run of a few nodes register, report, publish and end."""
    graph = Graph(given)
    Ledger(given)
    made = Run(given)
    made.apply(frames.Declare(1, 9))
    for ordinal in range(9):
        record = graph.register(
            str(ordinal), "label", f"s{ordinal % 3}", range(ordinal)
        )
        made.apply(record[1])
        made.now += 5_000
        made.apply(state(ordinal, "RUNNING", made.now, host="host"))
        made.publish()
        made.apply(progress(ordinal, 1, message=LONG))
    failure = frames.Failure("ValueError", LONG)
    made.apply(state(1, "FAILED", made.now + 900, error=failure))
    made.apply(frames.Event(START, "note", None, LONG), end())
    made.publish()
    return made


def coordinate(given):
    handle = FakeHandle(FakeCollector().ingest)
    clock = FakeClock()
    producer = Producer(
        run_id=RUN_ID,
        generation=1,
        kind=ProducerKind.coordinator,
        producer=b"p" * 16,
        handle=handle,
        limits=given,
        clock=clock,
    )
    for ordinal in range(9):
        producer.node(node(ordinal))
        producer.event(frames.Event(START, "note", ordinal, "x"))
        producer.step(clock.advance(1_000))
    return handle


def test_every_limit_that_a_profile_lowers_is_asked_for_by_a_run():
    watched = Watched()
    Watched.asked.clear()

    live(watched)
    coordinate(watched)

    assert set(LOWERABLE) <= Watched.asked


def test_the_names_are_those_of_limits_once_each():
    assert len(set(LOWERABLE)) == len(LOWERABLE)
    assert set(LOWERABLE) < {each.name for each in fields(Limits)}


@pytest.mark.parametrize("name", LOWERABLE)
def test_a_run_bears_the_lowest_of_each_limit(name):
    given = limits(**{name: 1})

    made = live(given)
    handle = coordinate(given)

    read = made.store.read()
    assert made.model.is_over
    assert read.node_counts.total == read.discovered_nodes == 9
    assert (read.node_counts.failed, read.discovered_edges) == (1, 36)
    assert read.retained_nodes == len(made.store.rows)
    assert len(made.store.stages) <= V1.stage_row
    assert 1 <= handle.most <= given.coordinator_window
