"""Graphs of any depth and width, walked without Ray: a window of this file ends the tasks."""

import random

import pytest
from ray.dag import MultiOutputNode

from actors import dag, ids, walk
from django_ray.protocol.vocabulary import NodeState
from tests.ray.leaves import double, fail_odd
from tests.ray.players import Counter
from tests.ray.runs import Recorder, coordinator


class Ended:
    """Takes tasks as a window does, and ends them in an order of chance."""

    has_room = True

    def __init__(self, made, fails=()):
        self.submitted = []
        self._made = made
        self._fails = fails
        self._flying = []
        self._chance = random.Random(0)

    @property
    def in_flight(self):
        return len(self._flying)

    def submit(self, flight, function, args, kwargs):
        self.submitted.append(flight.ordinal)
        self._made.submitted(flight.ordinal, None)
        flight.value = f"value of {flight.ordinal}"
        self._flying.append(flight)

    def settle(self):
        self._chance.shuffle(self._flying)
        half = len(self._flying) // 2
        ended, self._flying = self._flying[half:], self._flying[:half]
        for flight in ended:
            flight.ended = True
            if flight.ordinal in self._fails:
                flight.error = ValueError(flight.ordinal)
                self._made.failed(flight.ordinal, flight.error)
            else:
                self._made.succeeded(flight.ordinal, None)
        return ended


class Handle:
    """A live actor, as far as a walk asks of one."""

    def __getattr__(self, name):
        return self

    def options(self, **options):
        return self


class Walked:
    """One graph, walked to its end."""

    def __init__(self, root, fails=(), actors=()):
        self.recorder = Recorder()
        made = coordinator(self.recorder)
        plan = dag.plan(root, ())
        for node in actors:
            plan.values.set(node, Handle())
        named = ids.identify(plan.calls, "", lambda value: value)
        self.window = Ended(made, fails)
        self.walk = walk.Walk(made, self.window, plan, named, None)
        self.walk.finish()
        assert made.end("SUCCEEDED", None)
        self.states = list(self.recorder.latest.values())


LENGTHS = [2_000, pytest.param(100_000, marks=pytest.mark.deep)]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_chain_runs_in_its_order(length):
    node = double.bind(1)
    for _ in range(length - 1):
        node = double.bind(node)

    done = Walked(node)

    assert done.window.submitted == list(range(length))
    assert set(done.states) == {NodeState.SUCCEEDED}


@pytest.mark.parametrize("length", LENGTHS)
def test_a_failure_at_the_head_of_a_chain_skips_all_of_it(length):
    node = fail_odd.bind(1)
    for _ in range(length - 1):
        node = double.bind(node)

    done = Walked(node, fails={0})

    assert done.window.submitted == [0]
    assert done.states == [NodeState.FAILED] + [NodeState.SKIPPED] * (length - 1)


@pytest.mark.parametrize("width", LENGTHS)
def test_a_join_waits_for_all_of_its_width(width):
    layer = [double.bind(number) for number in range(width)]

    done = Walked(double.bind(layer))

    assert done.window.submitted[-1] == width
    assert set(done.states) == {NodeState.SUCCEEDED}
    assert done.recorder.nodes[-1].dependencies == (0, width)


def test_every_node_of_a_layered_graph_runs_behind_what_it_needs():
    chance = random.Random(1)
    layers = [[double.bind(number) for number in range(30)]]
    for _ in range(20):
        layers.append([double.bind(chance.sample(layers[-1], 5)) for _ in range(30)])

    done = Walked(MultiOutputNode(layers[-1]))

    place = {ordinal: at for at, ordinal in enumerate(done.window.submitted)}
    for node in done.recorder.nodes:
        runs = zip(node.dependencies[::2], node.dependencies[1::2], strict=True)
        for first, count in runs:
            assert all(place[first + at] < place[node.ordinal] for at in range(count))
    assert len(place) == len(done.recorder.nodes)


@pytest.mark.parametrize("seed", range(20))
def test_calls_on_one_actor_keep_their_order_whatever_is_skipped(seed):
    chance = random.Random(seed)
    actors = [Counter.bind() for _ in range(3)]
    calls, nodes = [], [fail_odd.bind(0)]
    for _ in range(60):
        at = chance.randrange(len(actors))
        arguments = chance.sample(nodes, min(len(nodes), chance.randrange(3)))
        nodes.append(actors[at].add.bind(arguments))
        calls.append((at, nodes[-1]))
        nodes.append(double.bind(chance.sample(nodes, 2)))
    root = MultiOutputNode(nodes)
    plan = dag.plan(root, ())
    places = {id(call.node): place for place, call in enumerate(plan.calls)}
    fails = {place for place in range(len(plan.calls)) if chance.random() < 0.05}

    done = Walked(root, fails, actors)

    order = {ordinal: at for at, ordinal in enumerate(done.window.submitted)}
    for actor in range(len(actors)):
        mine = sorted(places[id(node)] for at, node in calls if at == actor)
        ran = [order[place] for place in mine if place in order]
        assert ran == sorted(ran)
    done.recorder.require_exact()
    # Skipped is exactly what stands behind a failure.
    lost = set()
    for place, call in enumerate(plan.calls):
        if lost.intersection(call.after):
            lost.add(place)
            assert done.states[place] is NodeState.SKIPPED
        elif place in fails:
            lost.add(place)
            assert done.states[place] is NodeState.FAILED
        else:
            assert done.states[place] is NodeState.SUCCEEDED
