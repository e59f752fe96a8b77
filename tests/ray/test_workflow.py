"""What a task author calls, on a real Ray, with and without anybody watching."""

import _thread
import itertools
import subprocess
import sys
import threading
import time

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode
from ray.exceptions import TaskCancelledError, WorkerCrashedError

from actors.coordinator import activate
from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.protocol.limits import V1
from django_ray.protocol.text import size
from django_ray.protocol.vocabulary import NodeState
from django_ray.workflow import Failure, fan_out, report, run
from tests.ray.conftest import ROOT
from tests.ray.leaves import (
    SECRET,
    Actor,
    Box,
    add,
    collect,
    count_up,
    die,
    double,
    fail_long,
    fail_odd,
    fail_or_wait,
    fail_secret,
    hold,
    nothing,
    three,
    unpack,
    wait_in_python,
    wait_stubbornly,
    work_inside,
)
from tests.ray.runs import Recorder, coordinator, disabled, observed

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

PATH = "tests.ray.leaves."
RUNS = {"observed": observed, "disabled": disabled, "no run": threading.Lock}


@pytest.fixture(params=RUNS)
def any_run(request):
    """The work is the same under a run, under a disabled one, and outside of any."""
    with RUNS[request.param]() as seen:
        yield seen


# The same work, whoever watches.


def test_a_fan_out_yields_values_in_the_order_of_items(any_run):
    assert list(fan_out(double, range(20))) == [2 * n for n in range(20)]


def test_a_fan_out_over_nothing_yields_nothing(any_run):
    assert list(fan_out(double, [])) == []


def test_references_of_a_fan_out_are_arguments_of_a_graph(any_run):
    refs = list(fan_out(double, range(5), refs=True))

    assert ray.get(refs) == [0, 2, 4, 6, 8]
    assert run(add.bind(*refs, double.bind(10))) == 40


def test_a_fan_out_feeds_another(any_run):
    doubled = fan_out(double, range(4), refs=True)

    assert list(fan_out(double, doubled)) == [0, 4, 8, 12]


def test_values_stand_at_the_top_and_references_in_containers(any_run):
    one = double.bind(1)

    found = run(collect.bind(one, more=[one, {"a": (one,)}]))

    assert found == (2, [["ref", 2], {"a": [["ref", 2]]}])


def test_a_node_hidden_in_an_object_arrives_as_a_reference(any_run):
    assert run(unpack.bind(Box(double.bind(2)))) == 4


def test_functions_of_several_returns_give_lists(any_run):
    assert run(three.bind(1)) == [1, 2, 3]
    assert list(fan_out(three, [1, 5])) == [[1, 2, 3], [5, 6, 7]]
    (refs,) = fan_out(three, [1], refs=True)
    assert run(add.bind(*refs)) == 6


def test_a_function_that_returns_nothing_gives_none(any_run):
    assert run(nothing.bind()) is None
    assert list(fan_out(fail_odd.options(num_returns=0), [2])) == [None]


def test_several_outputs_give_a_list_and_inputs_are_passed(any_run):
    with InputNode() as given:
        graph = MultiOutputNode([double.bind(given[0]), add.bind(given[1], 1)])

    assert run(graph, 3, 4) == [6, 5]


def test_an_output_that_feeds_a_node_is_still_there_at_the_end(any_run):
    one = double.bind(1)

    assert run(MultiOutputNode([one, double.bind(one)])) == [2, 4]


def test_a_streaming_generator_gives_its_references(any_run):
    assert ray.get(list(run(count_up.bind(2)))) == [0, 1]
    assert [ray.get(list(refs)) for refs in fan_out(count_up, [1, 0])] == [[0], []]


def test_a_generator_that_raises_midway_fails_its_node(any_run):
    with pytest.raises(ValueError, match="midway"):
        run(count_up.bind(5))


def test_a_failure_is_raised_in_its_items_place(any_run):
    results = fan_out(fail_odd, [0, 2, 3, 4])

    assert [next(results), next(results)] == [0, 2]
    with pytest.raises(ValueError, match="odd: 3"):
        next(results)
    assert list(results) == []


def test_failures_are_yielded_if_so_wished_and_the_rest_goes_on(any_run):
    assert list(fan_out(fail_odd, range(4), errors="yield")) == [
        0,
        Failure(1, "ValueError: odd: 1"),
        2,
        Failure(3, "ValueError: odd: 3"),
    ]


def test_with_references_a_failure_means_the_same(any_run):
    first, second = fan_out(fail_odd, [0, 1], refs=True, errors="yield")

    assert ray.get(first) == 0
    assert second == Failure(1, "ValueError: odd: 1")


def test_items_that_raise_midway_do_so_after_what_came_before(any_run):
    def items():
        yield 1
        yield 2
        raise OSError("the directory is gone")

    results = fan_out(double, items())

    assert [next(results), next(results)] == [2, 4]
    with pytest.raises(OSError, match="gone"):
        next(results)


def test_an_item_that_cannot_be_sent_fails_alone(any_run):
    first, second, third = fan_out(double, [1, threading.Lock(), 3], errors="yield")

    assert (first, third) == (2, 6)
    assert second.index == 1
    assert "TypeError" in second.message


def test_the_first_failure_of_a_graph_is_raised_when_all_else_is_done(any_run):
    graph = add.bind(double.bind(fail_odd.bind(1)), fail_odd.bind(3), double.bind(5))

    with pytest.raises(ValueError, match="odd: 1"):
        run(graph)


@pytest.mark.parametrize("length", [10, 10_000_000])
def test_a_long_error_is_bounded_where_it_is_told(any_run, length):
    (failure,) = fan_out(fail_long, [length], errors="yield")

    assert failure.index == 0
    assert failure.message.startswith("ValueError: xxx")
    assert size(failure.message) <= V1.error + 2


def test_a_secret_in_an_error_is_not_told(any_run):
    (failure,) = fan_out(fail_secret, [1], errors="yield")

    assert SECRET not in failure.message
    assert failure.message.startswith("ValueError: cannot log in")


BAD_KEYS = {
    "NUL": "a\x00b",
    "surrogate": "a\ud800b",
    "escape": "a\x1b[31mb",
    "257 bytes": "x" * 500,
    "twice": "fine",
    "bytes": b"key",
    "none": None,
}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_bad_key_is_its_items_failure_and_nothing_else_is_lost(any_run, key):
    keys = ["fine", key, "good"]

    first, second, third = fan_out(
        double, range(3), key=lambda item: keys[item], errors="yield"
    )

    assert (first, third) == (0, 4)
    assert second.index == 1
    assert second.message.startswith("GraphRefused: ")
    assert len(second.message) < 200


def test_a_bad_key_is_raised_in_its_place(any_run):
    results = fan_out(double, range(3), key=lambda _: "same")

    assert next(results) == 0
    with pytest.raises(GraphRefused):
        next(results)


def test_a_key_that_raises_is_its_items_failure(any_run):
    def key(item):
        return {0: "a", 2: "c"}[item]

    first, second, third = fan_out(double, range(3), key=key, errors="yield")

    assert (first, third) == (0, 4)
    assert second == Failure(1, "KeyError: 1")


REFUSED = {
    "an actor": (lambda: run(Actor.bind()), "actors"),
    "a stream's dependent": (lambda: run(add.bind(count_up.bind(1))), "streaming"),
    "a repeated name": (
        lambda: run(add.bind(*(double.options(name="same").bind(n) for n in range(2)))),
        "one id",
    ),
    "a NUL": (lambda: run(double.options(name="a\x00").bind(1)), "control"),
    "no graph": (lambda: run(7), "bind"),
    "no function": (lambda: fan_out(len, []), "ray.remote"),
    "a class": (lambda: fan_out(Actor, []), "ray.remote"),
}


@pytest.mark.parametrize(("call", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_refused_before_anything_runs(any_run, call, reason):
    with pytest.raises(GraphRefused, match=reason):
        call()


@pytest.mark.parametrize("window", [0, -1, 1.5, True])
def test_a_window_that_cannot_work_is_refused(any_run, window):
    with pytest.raises(ConfigurationError):
        fan_out(double, [1], max_in_flight=window)
    with pytest.raises(ConfigurationError):
        run(double.bind(1), max_in_flight=window)


def test_an_unknown_wish_for_errors_is_refused(any_run):
    with pytest.raises(ConfigurationError):
        fan_out(double, [1], errors="ignore")


# What readers see of it.


def test_items_are_nodes_of_their_group_by_key_or_place():
    with observed() as seen:
        list(fan_out(double, range(2)))
        list(fan_out(double, ["a"], key=lambda item: f"key {item}", group="files"))
        list(fan_out(double.options(name="twice"), [1], key=lambda _: 7))

    assert seen.ids == [
        f"1.{PATH}double[0]",
        f"1.{PATH}double[1]",
        "2.files[key a]",
        f"3.{PATH}double[7]",
    ]
    assert [node.stage for node in seen.nodes[1:3]] == [f"{PATH}double", "files"]
    assert [node.label for node in seen.nodes[2:]] == [f"{PATH}double", "twice"]
    assert set(seen.latest.values()) == {NodeState.SUCCEEDED}


def test_the_longest_key_is_taken_and_one_byte_more_is_refused():
    room = V1.node_id - len("1.g[]")
    keys = ["x" * (room - 1), "y" * room, "z" * (room + 1)]

    with observed() as seen:
        results = list(
            fan_out(double, range(3), key=keys.__getitem__, group="g", errors="yield")
        )

    assert results[:2] == [0, 2]
    assert "257 bytes; the limit is 256" in results[2].message
    assert [len(node_id) for node_id in seen.ids] == [255, 256]


def test_a_success_tells_where_and_when_it_ran():
    with observed() as seen:
        list(fan_out(wait_in_python, [0.05]))

    said = seen.told(f"1.{PATH}wait_in_python[0]", NodeState.SUCCEEDED)

    assert said.at_ms - said.started_ms >= 50
    assert said.host
    assert said.ray_attempt == 0


def test_a_failure_tells_class_text_where_and_when():
    with observed() as seen:
        list(fan_out(fail_odd, [1], errors="yield"))

    said = seen.told(f"1.{PATH}fail_odd[0]", NodeState.FAILED)

    assert (said.error.kind, said.error.text) == ("ValueError", "odd: 1")
    assert said.host
    assert said.started_ms <= said.at_ms


def test_references_at_any_place_of_an_argument_are_edges():
    with observed() as seen:
        a, b, c = fan_out(double, range(3), refs=True, group="a")
        run(collect.bind(a, more=[{"x": (b,)}]))
        list(fan_out(collect, [[c]], group="z"))

    assert seen.edges == {
        ("1.a[0]", f"2.{PATH}collect#0"),
        ("1.a[1]", f"2.{PATH}collect#0"),
        ("1.a[2]", "3.z[0]"),
    }


def test_references_of_others_are_no_edges():
    with observed() as seen:
        run(add.bind(ray.put(1), double.remote(1)))

    assert seen.edges == set()


def test_references_given_as_input_are_edges():
    with InputNode() as given:
        graph = add.bind(given)

    with observed() as seen:
        (ref,) = fan_out(double, [1], refs=True, group="a")
        run(graph, ref)

    assert seen.edges == {("1.a[0]", f"2.{PATH}add#0")}


def test_a_graph_without_nodes_gives_its_input_and_adds_none():
    with InputNode() as given, observed() as seen:
        assert run(given, "as it is") == "as it is"

    assert seen.nodes == []
    assert seen.declared == {1: 0}


def test_what_depends_on_a_failure_is_skipped_and_the_rest_runs():
    names = {"bad": fail_odd.options(name="bad").bind(1)}
    names["behind"] = double.options(name="behind").bind(names["bad"])
    names["far"] = double.options(name="far").bind(names["behind"])
    names["good"] = double.options(name="good").bind(2)
    names["last"] = add.options(name="last").bind(names["far"], names["good"])

    with observed() as seen, pytest.raises(ValueError, match="odd: 1"):
        run(names["last"])

    assert seen.latest == {
        "1.bad": NodeState.FAILED,
        "1.behind": NodeState.SKIPPED,
        "1.far": NodeState.SKIPPED,
        "1.good": NodeState.SUCCEEDED,
        "1.last": NodeState.SKIPPED,
    }


def test_a_refused_graph_adds_no_node():
    with observed() as seen:
        with pytest.raises(GraphRefused):
            run(add.bind(double.bind(1), double.options(name="a\x00").bind(2)))
        assert run(double.bind(2)) == 4

    assert seen.ids == [f"2.{PATH}double#0"]


def test_graphs_with_their_own_ids_stand_without_a_prefix():
    one = double.options(name="blast_ID01").bind(1)
    two = add.options(name="cat_ID02").bind(one)

    with observed() as seen:
        run(two, prefix=False, group=lambda name: name.partition("_")[0])

    assert seen.ids == ["blast_ID01", "cat_ID02"]
    assert [node.stage for node in seen.nodes] == ["blast", "cat"]
    assert seen.edges == {("blast_ID01", "cat_ID02")}


def test_own_ids_that_an_earlier_graph_has_taken_are_refused_and_nothing_runs():
    def graph():
        taken = double.options(name="taken").bind(1)
        return add.options(name="new").bind(double.options(name="free").bind(2), taken)

    with observed() as seen:
        run(double.options(name="taken").bind(1), prefix=False)
        with pytest.raises(GraphRefused, match="id"):
            run(graph(), prefix=False)

    # The identical node is the earlier one; what was registered before it is ended.
    assert seen.latest == {"taken": NodeState.SUCCEEDED, "free": NodeState.CANCELLED}


def test_the_stage_of_a_graph_may_be_one_group():
    with observed() as seen:
        run(add.bind(double.bind(1)), group="all")

    assert {node.stage for node in seen.nodes} == {"all"}


def test_names_of_nodes_make_no_function_of_their_own():
    with observed() as seen:
        run(add.bind(*(double.options(name=f"n{n}").bind(n) for n in range(20))))

    assert seen.count(NodeState.SUCCEEDED) == 21


def test_what_has_a_length_is_declared_at_the_first_result():
    with observed() as seen:
        results = fan_out(double, [1, 2, 3])
        assert seen.declared == {}
        next(results)
        assert seen.declared == {1: 3}
        list(results)
        list(fan_out(double, iter([1])))
        run(add.bind(double.bind(1)))

    assert seen.declared == {1: 3, 3: 2}


def test_a_fan_out_left_early_declares_what_it_made():
    with observed() as seen:
        next(fan_out(fail_odd, [0, 2, 1, 4], max_in_flight=1))

    assert seen.declared[1] == len(seen.nodes)


def test_a_dead_worker_fails_its_node_and_skips_what_waits_for_it():
    with observed() as seen, pytest.raises(WorkerCrashedError):
        run(double.bind(die.bind()))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.SKIPPED]
    assert seen.told(f"1.{PATH}die#0", NodeState.FAILED).error.kind == (
        "WorkerCrashedError"
    )


def test_a_leaf_runs_graphs_of_its_own_which_add_no_nodes():
    with observed() as seen:
        assert run(work_inside.bind(3)) == ([0, 2, 4], 7)

    assert len(seen.nodes) == 1


def test_threads_of_the_outer_task_share_its_run():
    results = []

    def work(thread):
        results.extend(fan_out(double, range(20), group=f"thread {thread}"))

    with observed() as seen:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(results) == sorted([2 * n for n in range(20)] * 3)
    assert seen.count(NodeState.SUCCEEDED) == 60


def test_a_graph_of_a_thousand_nodes_is_exact():
    layer = [double.bind(n) for n in range(500)]
    layer = [add.bind(a, b) for a, b in itertools.pairwise(layer)]

    with observed() as seen:
        assert run(add.bind(*layer)) == sum(2 * (2 * n + 1) for n in range(499))

    assert seen.count(NodeState.SUCCEEDED) == 1_000
    assert len(seen.edges) == 2 * 499 + 499


# The window.


def in_flight_at_most(seen):
    flying, most = set(), 0
    for said in seen.states:
        flying ^= {said.ordinal}
        most = max(most, len(flying))
    return most


@pytest.mark.parametrize("window", [1, 2, 20])
def test_the_window_bounds_what_is_in_flight(window):
    with observed() as seen:
        list(fan_out(double, range(40), max_in_flight=window))
        run(add.bind(*(double.bind(n) for n in range(40))), max_in_flight=window)

    assert in_flight_at_most(seen) == window


def test_the_runs_own_window_holds_where_none_is_given():
    with observed(max_in_flight=3) as seen:
        list(fan_out(double, range(10)))

    assert in_flight_at_most(seen) == 3


def test_an_endless_fan_out_takes_items_as_there_is_room():
    taken = []

    def items():
        for number in itertools.count():
            taken.append(number)
            yield number

    with observed() as seen:
        results = fan_out(double, items(), max_in_flight=2)
        assert taken == []
        assert list(itertools.islice(results, 200)) == [2 * n for n in range(200)]
        results.close()

    assert len(taken) <= 200 + 64
    assert seen.count(NodeState.SUCCEEDED) >= 200


def test_a_slow_head_does_not_stall_the_window(tmp_path):
    # The first item waits for all the others, and two are in flight.
    items = [(str(tmp_path), str(n), 1 if n else 20) for n in range(20)]

    with observed():
        assert list(fan_out(hold, items, max_in_flight=2)) == [
            str(n) for n in range(20)
        ]


def test_a_result_is_there_while_a_slow_source_makes_the_next_items():
    first = threading.Event()

    def items():
        yield 0
        yield 1
        for number in range(2, 200):
            if first.is_set():
                return
            time.sleep(0.05)
            yield number

    with observed() as seen:
        results = fan_out(double, items(), max_in_flight=8)
        next(results)
        first.set()
        list(results)

    assert len(seen.nodes) < 150


# Cancelling.


def test_closing_a_fan_out_cancels_what_is_in_flight():
    with observed() as seen:
        results = fan_out(wait_in_python, [0, 60, 60, 60], max_in_flight=3)
        next(results)
        begun = time.monotonic()
        results.close()
        took = time.monotonic() - begun

    assert seen.count(NodeState.CANCELLED) == len(seen.nodes) - 1
    assert took < 30


def test_leaving_a_loop_cancels_what_is_in_flight():
    with observed() as seen:
        for _ in fan_out(wait_in_python, [0, 60], max_in_flight=2):
            break

    assert list(seen.latest.values()) == [NodeState.SUCCEEDED, NodeState.CANCELLED]


def test_a_failure_that_is_raised_cancels_what_is_in_flight():
    with observed() as seen, pytest.raises(ValueError, match="odd"):
        list(fan_out(fail_or_wait, [0, 60], max_in_flight=2))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.CANCELLED]


def test_a_leaf_that_ignores_its_cancellation_is_ended():
    with observed() as seen:
        results = fan_out(wait_stubbornly, [0, 60], max_in_flight=2)
        next(results)
        results.close()

    assert seen.count(NodeState.CANCELLED) == 1


def interrupt_when(condition):
    """Interrupt this thread, as `ray.cancel` does the outer task, when it has begun."""

    def wait():
        until = time.monotonic() + 60
        while not condition() and time.monotonic() < until:
            time.sleep(0.01)
        _thread.interrupt_main()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_interrupt_cancels_what_is_in_flight_and_what_waits_for_it():
    waiting = wait_in_python.bind(60)

    with observed() as seen:
        thread = interrupt_when(lambda: seen.states)
        with pytest.raises(KeyboardInterrupt):
            run(double.bind(waiting))
        thread.join()

    assert list(seen.latest.values()) == [NodeState.CANCELLED, NodeState.CANCELLED]


def test_the_end_of_a_run_cancels_what_its_threads_have_in_flight():
    recorder = Recorder()
    made = coordinator(recorder)
    raised = []

    def work():
        try:
            list(fan_out(wait_in_python, [60, 60, 60], max_in_flight=2))
        except KeyboardInterrupt as exc:
            raised.append(exc)

    with activate(made):
        thread = threading.Thread(target=work)
        thread.start()
        until = time.monotonic() + 60
        while len(recorder.states) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert made.end("CANCELLED", None)
    thread.join(60)

    assert len(raised) == 1
    recorder.require_exact()
    assert recorder.count(NodeState.CANCELLED) == len(recorder.nodes)


def test_an_iterator_that_outlives_its_run_gives_nothing_more():
    recorder = Recorder()
    made = coordinator(recorder)
    with activate(made):
        results = fan_out(double, range(100), max_in_flight=2)
        next(results)
    made.end("SUCCEEDED", None)

    with pytest.raises(KeyboardInterrupt):
        list(results)

    recorder.require_exact()


def test_a_task_that_its_author_cancels_is_cancelled():
    @ray.remote(num_cpus=0.5)
    def cancel_itself():
        raise KeyboardInterrupt

    with observed() as seen, pytest.raises(TaskCancelledError):
        run(cancel_itself.bind())

    assert list(seen.latest.values()) == [NodeState.CANCELLED]


# Without Ray.


def test_importing_and_reporting_load_neither_ray_nor_django():
    code = (
        "import sys; from django_ray.workflow import report; report(1, 2);"
        "sys.exit(any(name in sys.modules for name in ('ray', 'django', 'actors')))"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)

    assert done.returncode == 0


def test_a_report_outside_of_a_leaf_does_nothing():
    with observed() as seen:
        report(float("nan"), -1, message=3, metrics={"a": object()})

    assert seen.states == []
