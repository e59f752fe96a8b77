"""What a task author calls, on a real Ray, with and without anybody watching."""

import subprocess
import sys
import threading

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode

from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.protocol.limits import V1
from django_ray.protocol.text import size
from django_ray.workflow import Failure, fan_out, report, run
from tests.ray.conftest import ROOT
from tests.ray.leaves import (
    SECRET,
    Box,
    add,
    collect,
    count_up,
    double,
    fail_long,
    fail_odd,
    fail_secret,
    nothing,
    three,
    unpack,
)
from tests.ray.players import Counter
from tests.ray.runs import disabled, observed

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

PATH = "tests.ray.leaves."
RUNS = {"observed": observed, "disabled": disabled, "no run": threading.Lock}


@pytest.fixture(params=RUNS)
def any_run(request):
    """The work is the same under a run, under a disabled one, and outside of any."""
    with RUNS[request.param]() as seen:
        yield seen


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
    "a stream's dependent": (lambda: run(add.bind(count_up.bind(1))), "streaming"),
    "a repeated name": (
        lambda: run(add.bind(*(double.options(name="same").bind(n) for n in range(2)))),
        "one id",
    ),
    "a NUL": (lambda: run(double.options(name="a\x00").bind(1)), "control"),
    "no graph": (lambda: run(7), "bind"),
    "no function": (lambda: fan_out(len, []), "ray.remote"),
    "a class": (lambda: fan_out(Counter, []), "ray.remote"),
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
