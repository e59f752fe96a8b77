"""What readers see of a fan-out, and how it takes its items."""

import itertools
import threading
import time

import pytest

from django_ray.errors import ConfigurationError
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NodeState
from django_ray.workflow import fan_out, run
from tests.ray.leaves import (
    add,
    collect,
    double,
    echo,
    fail_odd,
    wait_in_python,
)
from tests.ray.runs import observed

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

PATH = "tests.ray.leaves."


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


def test_a_container_that_holds_itself_is_looked_through_once():
    looped = [1]
    looped.append(looped)
    with observed() as seen:
        (ref,) = fan_out(double, [1], refs=True, group="a")
        (back,) = fan_out(echo, [[looped, ref]], group="b")

    assert back[0][1] is back[0]
    assert seen.edges == {("1.a[0]", "2.b[0]")}


class Unsized(list):
    """Has a length, and does not tell it."""

    def __len__(self):
        raise TypeError("this dataset has no length")


@pytest.mark.parametrize("items", [range(2**63), Unsized([0, 1, 2])])
def test_items_whose_length_cannot_be_told_are_taken_as_they_come(items):
    with observed() as seen:
        assert next(fan_out(double, items, max_in_flight=1)) == 0
        first = fan_out(double, items, max_in_flight=1)
        assert [next(first), next(first)] == [0, 2]
        assert seen.declared.keys() <= {1}
        first.close()


@pytest.mark.parametrize("group", [5, b"g", ["g"]])
def test_a_group_is_text(group):
    with pytest.raises(ConfigurationError, match="group is not text"):
        list(fan_out(double, [1], group=group))


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


def test_items_that_cannot_be_asked_open_nothing():
    class Closed(list):
        def __iter__(self):
            raise ValueError("closed")

    with observed() as seen, pytest.raises(ValueError, match="closed"):
        list(fan_out(double, Closed([1, 2])))

    assert seen.declared == {}


def test_keys_that_differ_in_their_secrets_alone_are_one():
    urls = ["https://ann:first@host/a", "https://ann:other@host/a", "https://host/a"]

    with observed() as seen:
        results = list(fan_out(echo, urls, key=str, group="g", errors="yield"))

    assert seen.ids == ["1.g[https://[redacted]@host/a]", "1.g[https://host/a]"]
    assert results[::2] == urls[::2]
    assert results[1].index == 1
    assert "other" not in results[1].message


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


def halves(number):
    """Items that come from another fan-out, whose own items raise in the end."""

    def numbers():
        yield from range(number)
        raise ValueError("no more numbers")

    for double_ in fan_out(double, numbers(), group="inner", max_in_flight=2):
        yield double_ // 2


def test_a_fan_out_within_the_items_of_another_ends_with_its_error():
    results = []

    with observed() as seen, pytest.raises(ValueError, match="no more numbers"):
        results.extend(fan_out(double, halves(5), group="outer", max_in_flight=2))

    assert results == [0, 2, 4, 6, 8]
    assert seen.declared == {1: 5, 2: 5}
    assert seen.count(NodeState.SUCCEEDED) == 10


def test_closing_a_fan_out_leaves_the_one_within_its_items_to_the_runs_end():
    with observed() as seen:
        inner = fan_out(wait_in_python, [0, 0, 60, 60], group="inner", max_in_flight=4)
        outer = fan_out(echo, inner, group="outer", max_in_flight=1)
        assert next(outer) == "waited"
        outer.close()

    states = [state for node, state in seen.latest.items() if ".inner" in node]
    assert states.count(NodeState.CANCELLED) == 2


def test_a_fan_out_made_by_a_thread_may_be_consumed_by_another():
    made = []

    with observed() as seen:
        thread = threading.Thread(
            target=lambda: made.append(fan_out(double, range(10)))
        )
        thread.start()
        thread.join()
        assert list(made[0]) == [2 * n for n in range(10)]

    assert seen.count(NodeState.SUCCEEDED) == 10


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
