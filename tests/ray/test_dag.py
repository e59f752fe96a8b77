"""Plans of graphs; nothing is executed, so no Ray is needed."""

import pytest
import ray
from ray.dag import CollectiveOutputNode, InputNode, MultiOutputNode
from ray.dag.constants import COLLECTIVE_OPERATION_KEY
from ray.dag.input_node import DAGInputData

from actors import dag, ids, internals
from actors.leaf import STREAMING
from django_ray.errors import GraphRefused
from django_ray.protocol.limits import V1
from django_ray.protocol.redaction import Redactor
from tests.ray.leaves import (
    Box,
    add,
    collect,
    count_up,
    double,
    nothing,
    three,
)
from tests.ray.players import Counter, Later

PATH = "tests.ray.leaves."
PLAYERS = "tests.ray.players."


def order(plan):
    """The first argument of each call, which the tests use as its name."""
    return [call.node.get_args()[0] for call in plan.calls]


def after(plan):
    return [call.after for call in plan.calls]


def test_every_call_stands_behind_what_it_depends_on():
    first = double.bind("first")
    second = double.bind("second")
    third = add.bind("third", first, second)

    plan = dag.plan(add.bind("root", third, first), ())

    assert order(plan) == ["first", "second", "third", "root"]
    assert after(plan) == [(), (), (0, 1), (0, 2)]


def test_a_node_used_twice_is_one_call_also_inside_containers():
    shared = double.bind("shared")

    plan = dag.plan(
        collect.bind("root", more=[shared, {"a": (shared,), shared: 1}]), ()
    )

    assert order(plan) == ["shared", "root"]
    assert after(plan) == [(), (0,)]


LENGTHS = [3_000, pytest.param(100_000, marks=pytest.mark.deep)]
"""Far past the depth of Python's own stack."""


@pytest.mark.parametrize("length", LENGTHS)
def test_a_chain_needs_no_recursion(length):
    node = double.bind("end")
    for _ in range(length):
        node = double.bind(node)

    plan = dag.plan(node, ())

    assert len(plan.calls) == length + 1
    assert plan.calls[-1].after == (length - 1,)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_chain_of_calls_on_one_actor_needs_no_recursion(length):
    counter = Counter.bind()
    calls = [counter.add.bind(number) for number in range(length)]

    plan = dag.plan(calls[-1], ())

    assert len(plan.calls) == length
    assert plan.calls[-1].before == length - 2


@pytest.mark.parametrize("width", LENGTHS)
def test_a_join_is_as_wide_as_its_graph(width):
    nodes = [double.bind(number) for number in range(width)]

    plan = dag.plan(collect.bind(nodes), ())

    assert plan.calls[-1].after == tuple(range(width))


def test_a_cycle_made_by_force_is_refused():
    first = double.bind(1)
    second = double.bind(first)
    internals.upstream(first).append(second)

    with pytest.raises(GraphRefused, match="cycle"):
        dag.plan(second, ())


REFUSED = {
    "a collective": (lambda: collective(), "collective"),
    "behind a collective": (lambda: add.bind([collective()]), "collective"),
    "behind a method's stream": (
        lambda: add.bind(Counter.bind().count_up.bind(1)),
        "streaming",
    ),
    "a method behind a stream": (
        lambda: Counter.bind().add.bind(count_up.bind(1)),
        "streaming",
    ),
    "an actor made of a stream": (
        lambda: Counter.bind(count_up.bind(1)).add.bind(1),
        "streaming",
    ),
    "behind a stream": (lambda: add.bind(count_up.bind(1)), "streaming"),
    "with a stream inside": (lambda: add.bind([count_up.bind(1)]), "streaming"),
    "a dynamic generator": (
        lambda: count_up.options(num_returns="dynamic").bind(1),
        "dynamic",
    ),
    "a method's dynamic generator": (
        lambda: Counter.bind().count_up.options(num_returns="dynamic").bind(1),
        "dynamic",
    ),
    "a function": (lambda: add, "bind"),
    "nothing": (lambda: None, "bind"),
}


def collective():
    """A node of a kind that only compiled graphs run."""
    told = {COLLECTIVE_OPERATION_KEY: "an operation"}
    return CollectiveOutputNode("allreduce", (double.bind(1),), {}, {}, told)


@pytest.mark.filterwarnings("ignore:.*dynamic")
@pytest.mark.parametrize(("node", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_is_refused_by_name(node, reason):
    with pytest.raises(GraphRefused, match=reason):
        dag.plan(node(), ())


def test_a_streaming_generator_may_stand_at_the_root():
    assert len(dag.plan(count_up.bind(1), ()).calls) == 1
    assert (
        len(dag.plan(MultiOutputNode([count_up.bind(1), three.bind(1)]), ()).calls) == 2
    )


def test_arguments_are_filled_with_what_the_calls_gave():
    one, two = double.bind(1), double.bind(2)
    plan = dag.plan(collect.bind([one, ({"a": two}, 5)], more=one), ())
    plan.set(0, "one")
    plan.set(1, "two")

    assert plan.arguments(2) == ([["one", ({"a": "two"}, 5)]], {"more": "one"})


def test_a_node_hidden_in_an_object_is_found_and_replaced_in_a_copy():
    box = Box(double.bind(1))
    plan = dag.plan(collect.bind(box, more=7), ())
    plan.set(0, "one")

    args, kwargs = plan.arguments(1)

    assert after(plan) == [(), (0,)]
    assert args == [Box("one")]
    assert kwargs == {"more": 7}
    assert box.inside is not None
    assert box.inside != "one"


def test_an_argument_that_hides_nothing_is_passed_as_it_is():
    box = Box(3)
    plan = dag.plan(collect.bind(box, more=double.bind(1)), ())
    plan.set(0, "one")

    assert plan.arguments(1)[0][0] is box


def test_values_that_nothing_waits_for_are_forgotten():
    plan = dag.plan(add.bind(double.bind(1)), ())
    plan.set(0, "one")

    plan.forget(0)

    with pytest.raises(KeyError):
        plan.arguments(1)


def test_the_only_input_is_passed_as_it_is_and_several_by_place():
    with InputNode() as given:
        whole = collect.bind(given)
        parts = collect.bind(given[0], more=given[1])

    assert dag.plan(whole, ("all",)).arguments(0) == (["all"], {})
    assert dag.plan(parts, ("a", "b")).arguments(0) == (["a"], {"more": "b"})


def test_parts_of_one_input_are_taken_by_key_and_by_attribute():
    # Ray keeps one node for a key, however it is taken.
    with InputNode() as given:
        by_key = collect.bind(given["inside"])
    with InputNode() as given:
        by_attribute = collect.bind(given.inside)

    assert dag.plan(by_key, ({"inside": 1},)).arguments(0)[0] == [1]
    assert dag.plan(by_attribute, (Box(2),)).arguments(0)[0] == [2]


def test_several_inputs_have_places_and_names():
    with InputNode() as given:
        parts = collect.bind(given[0], more=[given["name"], given.other])
        whole = double.bind(given)
        both = add.bind(parts, whole)
    inputs = DAGInputData("a", name="b", other="c")

    made = dag.plan(both, (inputs,))

    assert made.arguments(0) == (["a"], {"more": ["b", "c"]})
    assert made.arguments(1)[0] == [inputs]


def test_an_input_that_lacks_a_part_says_so_as_python_does():
    with InputNode() as given:
        by_place, by_key = double.bind(given[2]), double.bind(given["absent"])
        by_name = double.bind(given.absent)

    with pytest.raises(IndexError):
        dag.plan(by_place, ("a", "b"))
    with pytest.raises(KeyError):
        dag.plan(by_key, ({},))
    with pytest.raises(KeyError):
        dag.plan(by_name, ({},))


def test_inputs_and_their_node_are_given_together():
    with InputNode() as given:
        needs = collect.bind(given)

    with pytest.raises(GraphRefused, match="InputNode"):
        dag.plan(needs, ())
    with pytest.raises(GraphRefused, match="InputNode"):
        dag.plan(collect.bind(1), (1,))


def test_the_result_of_several_outputs_is_a_list_and_is_kept():
    plan = dag.plan(MultiOutputNode([double.bind(1), double.bind(2)]), ())
    plan.set(0, "one")
    plan.set(1, "two")

    assert plan.result() == ["one", "two"]
    assert plan.kept == (0, 1)


def test_outputs_may_nest_and_hide_their_nodes():
    one, two = double.bind(1), double.bind(2)
    plan = dag.plan(MultiOutputNode([[one, (two,)], {"a": one}, Box(two), 3]), ())
    plan.set(0, "one")
    plan.set(1, "two")

    assert plan.result() == [["one", ("two",)], {"a": "one"}, Box("two"), 3]
    assert plan.kept == (0, 1)


def test_outputs_among_arguments_are_a_list():
    plan = dag.plan(collect.bind(MultiOutputNode([double.bind(1)])), ())
    plan.set(0, "one")

    assert plan.arguments(1)[0] == [["one"]]


def test_a_method_stands_behind_its_data_and_its_actors_and_after_the_call_before():
    counter = Counter.bind(double.bind("start"))
    first = counter.add.bind("first")
    plan = dag.plan(add.bind(counter.add.bind("second"), first), ())

    assert after(plan) == [(), (0,), (0,), (1, 2)]
    assert [call.before for call in plan.calls] == [None, None, 1, None]
    assert [call.path for call in plan.calls[1:3]] == [PLAYERS + "Counter.add"] * 2


def test_actors_order_their_own_calls_alone():
    one, other = Counter.bind(), Counter.bind()
    calls = [one.add.bind(1), other.add.bind(1), one.add.bind(2), other.add.bind(2)]

    plan = dag.plan(MultiOutputNode(calls), ())

    assert [call.before for call in plan.calls] == [None, None, 0, 1]


def test_the_call_before_is_a_dependency_where_it_is_an_argument_however_hidden():
    counter = Counter.bind()
    first = counter.add.bind("first")
    hidden = counter.give.bind(Box(first))
    visible = counter.give.bind(0, more=[hidden])

    plan = dag.plan(visible, ())
    plan.set(0, "one")
    plan.set(1, "two")

    assert after(plan) == [(), (0,), (1,)]
    assert [call.before for call in plan.calls] == [None, 0, 1]
    assert plan.arguments(1)[0] == [Box("one")]
    assert plan.arguments(2) == ([0], {"more": ["two"]})


METHODS = {
    "one value": (lambda: Counter.bind().add.bind(1), 1),
    "as its author says": (lambda: Counter.bind().both.bind(1), 2),
    "by its options": (
        lambda: Counter.bind().several.options(num_returns=3).bind(1),
        3,
    ),
    "none": (lambda: Counter.bind().nothing.options(num_returns=0).bind(), 0),
    "a generator": (lambda: Counter.bind().count_up.bind(1), STREAMING),
    "an async generator": (lambda: Later.bind().count_up.bind(1), STREAMING),
    "an async method": (lambda: Later.bind().add.bind(1), 1),
}


@pytest.mark.parametrize(("node", "returns"), METHODS.values(), ids=METHODS)
def test_a_method_returns_what_its_options_its_author_or_its_kind_say(node, returns):
    assert dag.plan(node(), ()).calls[-1].returns == returns


@pytest.mark.ray
def test_references_are_found_at_the_top_in_containers_and_in_inputs(ray_cluster):
    first, second, third = map(ray.put, range(3))
    with InputNode() as given:
        node = collect.bind(first, more=[{"a": (second,)}, given])

    (call,) = dag.plan(node, ([third],)).calls

    assert set(call.references) == {first, second, third}


def test_a_name_is_the_id_and_a_path_is_numbered_by_first_visit():
    first, second = double.bind(1), double.bind(2)
    named = double.options(name="last").bind(3)
    plan = dag.plan(add.bind(first, second, named), ())

    assert ids.identify(plan.calls, "7.", same) == [
        f"7.{PATH}double#0",
        f"7.{PATH}double#1",
        "7.last",
        f"7.{PATH}add#0",
    ]
    assert [call.label for call in plan.calls][1:3] == [f"{PATH}double", "last"]


def same(value):
    return value


def identify(name):
    plan = dag.plan(nothing.options(name=name).bind(), ())
    return ids.identify(plan.calls, "1.", same)


def test_the_longest_id_is_taken_and_one_byte_more_is_refused():
    room = V1.node_id - len("1.")

    assert identify("x" * (room - 1)) == ["1." + "x" * (room - 1)]
    assert identify("x" * room) == ["1." + "x" * room]
    with pytest.raises(GraphRefused, match="257 bytes; the limit is 256"):
        identify("x" * (room + 1))
    with pytest.raises(GraphRefused, match="the limit is 256"):
        identify("ü" * 128)


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800b", "a\x1b[31mb", "a\nb", "\x9b1m"])
def test_a_name_with_refused_characters_is_refused_and_not_quoted(name):
    with pytest.raises(GraphRefused, match="control characters") as caught:
        identify(name)

    assert name not in str(caught.value)


def test_a_repeated_name_is_refused():
    twice = double.options(name="twice")

    plan = dag.plan(add.bind(twice.bind(1), twice.bind(2)), ())

    with pytest.raises(GraphRefused, match="one id"):
        ids.identify(plan.calls, "1.", same)


def test_names_that_differ_in_their_secrets_alone_are_repeated():
    plan = dag.plan(
        add.bind(
            double.options(name="token=a").bind(1),
            double.options(name="token=b").bind(2),
        ),
        (),
    )

    assert len(ids.identify(plan.calls, "1.", same)) == 3
    with pytest.raises(GraphRefused, match="one id"):
        ids.identify(plan.calls, "1.", Redactor(()).text)


def test_a_path_too_long_for_an_id_is_shortened():
    def inner():
        pass

    inner.__qualname__ = "f" * 2_000
    plan = dag.plan(ray.remote(inner).bind(), ())

    (made,) = ids.identify(plan.calls, "1.", same)

    assert len(made.encode()) <= V1.node_id
    assert len(plan.calls[0].label.encode()) == V1.label
