"""Methods of actors in graphs and fan-outs, on a real Ray."""

import threading

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode
from ray.exceptions import RayActorError

from django_ray.errors import GraphRefused
from django_ray.protocol.vocabulary import NodeState
from django_ray.workflow import Failure, fan_out, run
from tests.ray.conftest import wait_until
from tests.ray.leaves import Box, add, collect, double, fail_odd, wait_in_python
from tests.ray.players import Broken, Counter, Later, call_id
from tests.ray.runs import disabled, observed

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

COUNTER = "tests.ray.players.Counter."
RUNS = {"observed": observed, "disabled": disabled, "no run": threading.Lock}


@pytest.fixture(params=RUNS)
def any_run(request):
    """The work is the same under a run, under a disabled one, and outside of any."""
    with RUNS[request.param]() as seen:
        yield seen


@pytest.fixture(scope="module")
def counter_of_the_module(ray_cluster):
    actor = Counter.remote()
    yield actor
    ray.kill(actor)


@pytest.fixture
def live(counter_of_the_module):
    """An actor that stands at 10 and was not called."""
    ray.get(counter_of_the_module.begin.remote(10))
    return counter_of_the_module


def is_gone(actor_id):
    state = ray._private.state.actors(actor_id)["State"]
    return state == "DEAD"


def test_an_actor_of_the_graph_takes_values_and_gives_values(any_run):
    counter = Counter.bind(double.bind(2))

    assert run(add.bind(counter.add.bind(double.bind(3)), 1)) == 11


def test_the_methods_of_a_live_actor_are_calls_of_the_graph(live):
    assert run(double.bind(live.add.bind(double.bind(1)))) == 24


def test_methods_are_nodes_by_class_and_name_with_edges_of_their_data(live):
    with observed() as seen:
        counter = Counter.bind(double.bind(1))
        first = counter.add.bind(1)
        second = counter.add.options(name="second").bind(double.bind(first))
        run(add.bind(second, live.add.bind(1)))

    assert seen.ids == [
        "1.tests.ray.leaves.double#0",
        f"1.{COUNTER}add#0",
        "1.tests.ray.leaves.double#1",
        "1.second",
        f"1.{COUNTER}add#1",
        "1.tests.ray.leaves.add#0",
    ]
    # The call before it on the same actor is no dependency of one.
    assert seen.edges == {
        (seen.ids[0], seen.ids[1]),
        (seen.ids[1], seen.ids[2]),
        (seen.ids[0], seen.ids[3]),
        (seen.ids[2], seen.ids[3]),
        (seen.ids[3], seen.ids[5]),
        (seen.ids[4], seen.ids[5]),
    }
    assert {node.stage for node in seen.nodes[3:5]} == {f"{COUNTER}add"}
    assert set(seen.latest.values()) == {NodeState.SUCCEEDED}


def test_a_method_is_told_with_its_ray_task_and_a_function_is_not(live):
    with observed() as seen:
        told = run(collect.bind(live.task.bind()))[0]

    assert {key: task.hex() for key, task in seen.tasks.items()} == {0: told}


def test_calls_on_one_actor_are_submitted_in_the_order_of_the_graph():
    counter = Counter.bind()
    slow = counter.add.bind(wait_then(0.3, 1))
    quick = [counter.add.bind(number) for number in (2, 3)]

    calls = run(MultiOutputNode([slow, *quick, counter.calls.bind()]))[-1]

    assert calls == [1, 2, 3]


def wait_then(seconds, number):
    return pick.bind(wait_in_python.bind(seconds), number)


@ray.remote(num_cpus=0.5)
def pick(_waited, number):
    return number


def test_calls_on_a_live_actor_are_submitted_in_the_order_of_the_graph(live):
    slow = live.add.bind(wait_then(0.3, 1))
    quick = live.add.bind(2)

    run(MultiOutputNode([slow, quick]))

    assert ray.get(live.calls.remote()) == [1, 2]


def test_a_call_runs_behind_one_that_failed_or_was_skipped_on_the_same_actor(live):
    counter = live
    names = {
        "failed": counter.fail.options(name="failed").bind("wrong"),
        "skipped": counter.add.options(name="skipped").bind(fail_odd.bind(1)),
        "last": counter.add.options(name="last").bind(5),
    }

    with observed() as seen, pytest.raises(ValueError, match="wrong"):
        run(MultiOutputNode(list(names.values())))

    assert seen.latest == {
        "1.failed": NodeState.FAILED,
        "1.tests.ray.leaves.fail_odd#0": NodeState.FAILED,
        "1.skipped": NodeState.SKIPPED,
        "1.last": NodeState.SUCCEEDED,
    }


def test_one_skipped_before_its_turn_does_not_let_the_next_overtake(live):
    first = live.add.bind(wait_then(0.5, 1))
    skipped = live.add.bind(fail_odd.bind(1))

    with observed(), pytest.raises(ValueError, match="odd"):
        run(MultiOutputNode([first, skipped, live.add.bind(2)]))

    assert ray.get(live.calls.remote()) == [1, 2]


def test_several_returns_of_a_live_actor_are_outputs_of_one_call(live):
    with observed() as seen:
        first, second = live.both.bind(3)
        assert run(add.bind(second, 1)) == -2
        assert run(MultiOutputNode([second, first])) == [-3, 3]
        three = live.several.options(num_returns=3).bind(5)
        assert run(add.bind(*three)) == 18

    assert seen.ids.count(f"2.{COUNTER}both#0") == 1
    assert len(seen.nodes) == 5


@pytest.mark.deep
def test_several_returns_of_a_graphs_actor_are_a_list():
    assert run(Counter.bind().both.bind(3)) == [3, -3]
    by_options = Counter.bind().several.options(num_returns=3)
    assert run(by_options.bind(1)) == [1, 2, 3]


def test_a_method_that_returns_nothing_ends_all_the_same(any_run, live):
    assert run(live.nothing.options(num_returns=0).bind()) is None
    assert run(double.bind(live.add.bind(1))) == 22


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_bytes_of_a_method_are_its_value_and_no_status(live, size):
    data = b"\x94\x01\x02\x03\xa1h" + b"x" * size

    with observed() as seen:
        assert run(live.raw.bind(data)) == data

    (said,) = [said for said in seen.states if said.state is NodeState.SUCCEEDED]
    assert (said.started_ms, said.host) == (None, None)


@pytest.mark.parametrize("size", [5, 100_000])
def test_a_failing_method_fails_its_node_whatever_the_size_of_its_error(live, size):
    with observed() as seen, pytest.raises(ValueError, match="xxx"):
        run(double.bind(live.fail.bind("x" * size)))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.SKIPPED]
    assert seen.told(seen.ids[0], NodeState.FAILED).error.kind == "ValueError"


def test_a_generator_method_may_stand_at_the_root():
    refs = run(Counter.bind().count_up.bind(2))

    assert isinstance(refs, tuple)
    assert ray.get(list(refs)) == [0, 1]


def test_a_generator_method_that_raises_midway_fails_its_node(live):
    with observed() as seen:
        (failure,) = fan_out(live.count_up, [5], errors="yield")

    assert failure.message == "ValueError: midway"
    assert seen.count(NodeState.FAILED) == 1


def test_what_depends_on_a_generator_method_is_refused_by_name():
    with observed() as seen:
        counter = Counter.bind()
        with pytest.raises(GraphRefused, match="streaming"):
            run(add.bind(counter.count_up.bind(2)))
        with pytest.raises(GraphRefused, match="streaming"):
            run(Counter.bind(counter.count_up.bind(2)).calls.bind())

    assert seen.nodes == []


def test_nodes_among_a_methods_arguments_are_resolved_like_a_functions(live):
    one = double.bind(1)

    assert run(live.give.bind(one, more=[0, {"a": 1}])) == (2, [0, {"a": 1}])
    assert run(live.follow.bind(Box(one))) == 2
    assert run(Counter.bind().follow.bind(Box(double.bind(4)))) == 8


def test_an_actor_is_a_value_for_functions_and_for_other_actors():
    counter = Counter.bind()

    first, second = run(MultiOutputNode([call_id.bind(counter), counter.id.bind()]))

    assert first == second


def test_the_call_before_may_also_be_an_argument(live):
    with observed() as seen:
        counter = Counter.bind()
        box = Box(counter.add.bind(2))
        assert run(counter.follow.bind(box)) == 2
        assert run(live.add.bind(live.add.bind(1))) == 22

    assert (seen.ids[0], seen.ids[1]) in seen.edges
    assert (seen.ids[2], seen.ids[3]) in seen.edges


def test_input_reaches_methods(live):
    with InputNode() as given:
        graph = live.give.bind(given[0], more=given[1])

    with observed():
        assert run(graph, 1, 2) == (1, 2)


def test_references_of_the_run_are_edges_of_methods_and_of_constructors(live):
    with observed() as seen:
        one, two = fan_out(double, [1, 2], refs=True, group="g")
        run(live.add.bind(one))
        run(Counter.bind(two).add.bind(1))

    assert seen.edges == {
        ("1.g[0]", f"2.{COUNTER}add#0"),
        ("1.g[1]", f"3.{COUNTER}add#0"),
    }


def test_async_and_threaded_actors_run_their_calls_side_by_side():
    later = Later.bind()
    threaded = Counter.options(max_concurrency=3).bind()

    assert run(MultiOutputNode([later.add.bind(n) for n in range(3)])) == [1, 2, 3]
    assert run(MultiOutputNode([threaded.sleep.bind(0.1)] * 3)) == [0.1] * 3


def test_a_report_in_an_actor_that_stems_from_no_run_does_nothing(live):
    with observed() as seen:
        assert run(live.say.bind(1)) == 1

    assert seen.reports == []


def test_an_actor_of_the_graph_ends_with_it():
    with observed():
        actor_id = run(Counter.bind().id.bind())
        wait_until(lambda: is_gone(actor_id))


def test_an_actor_that_the_graph_gives_ends_with_the_run():
    with observed():
        actor = run(Counter.bind())
        assert ray.get(actor.add.remote(1)) == 1
        actor_id = ray.get(actor.id.remote())

    wait_until(lambda: is_gone(actor_id))


def test_a_detached_actor_of_the_graph_stays():
    options = {"name": "stays", "lifetime": "detached", "namespace": "tests"}
    with observed():
        actor_id = run(Counter.options(**options).bind().id.bind())

    stays = ray.get_actor("stays", namespace="tests")
    assert ray.get(stays.id.remote()) == actor_id
    ray.kill(stays)


def test_an_actor_that_cannot_be_made_fails_its_methods():
    with observed() as seen, pytest.raises(RayActorError):
        run(double.bind(Broken.bind().method.bind()))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.SKIPPED]


def test_an_actor_with_impossible_arguments_fails_its_methods():
    with observed() as seen, pytest.raises(TypeError):
        run(double.bind(Counter.bind(1, 2, 3).add.bind(1)))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.SKIPPED]


def test_the_death_of_an_actor_fails_the_call_it_was_at():
    with observed() as seen, pytest.raises(RayActorError):
        run(double.bind(Counter.bind().exit.bind()))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.SKIPPED]


def test_a_fan_out_over_a_method_is_one_over_a_function(any_run, live):
    assert list(fan_out(live.add, [1, 2, 3])) == [11, 13, 16]
    assert list(fan_out(live.both, [4])) == [[4, -4]]
    refs = list(fan_out(live.add.options(name="named"), [1], refs=True))
    assert ray.get(refs) == [17]


def test_the_items_of_a_method_are_nodes_with_their_task(live):
    with observed() as seen:
        list(fan_out(live.add, [1], key=lambda _: "key"))
        list(fan_out(live.add.options(name="named"), [1], group="g"))
        said = list(fan_out(live.fail, ["wrong"], errors="yield"))
        items = list(fan_out(live.count_up, [2]))

    assert seen.ids == [
        f"1.{COUNTER}add[key]",
        "2.g[0]",
        f"3.{COUNTER}fail[0]",
        f"4.{COUNTER}count_up[0]",
    ]
    assert seen.nodes[1].label == "named"
    assert said == [Failure(0, "ValueError: wrong")]
    assert [ray.get(list(refs)) for refs in items] == [[0, 1]]
    assert set(seen.tasks) == {0, 1, 2, 3}


def test_a_method_that_is_not_bound_to_an_actor_is_refused():
    with pytest.raises(GraphRefused, match="method of an actor"):
        fan_out(Counter.bind().add, [1])


def test_a_method_that_does_not_end_is_abandoned_and_its_node_cancelled():
    with observed() as seen:
        counter = Counter.bind()
        results = fan_out(wait_in_python, [0, 60], max_in_flight=2)
        next(results)
        thread = threading.Thread(target=run_quietly, args=(counter.spin.bind(60),))
        thread.start()
        wait_until(lambda: f"2.{COUNTER}spin#0" in seen.latest and seen.tasks)

    thread.join(10)
    assert not thread.is_alive()
    assert list(seen.latest.values()) == [
        NodeState.SUCCEEDED,
        NodeState.CANCELLED,
        NodeState.CANCELLED,
    ]


def run_quietly(graph):
    try:
        run(graph)
    except KeyboardInterrupt:
        return


def test_an_async_method_is_cancelled():
    later = Later.remote()

    with observed() as seen:
        results = fan_out(later.sleep, [0, 60], max_in_flight=2)
        next(results)
        results.close()

    assert list(seen.latest.values()) == [NodeState.SUCCEEDED, NodeState.CANCELLED]
    ray.kill(later)
