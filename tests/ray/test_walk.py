"""What readers see of a graph."""

import itertools

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode
from ray.exceptions import WorkerCrashedError

from actors.values import leaves
from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.protocol.vocabulary import NodeState
from django_ray.workflow import fan_out, run
from tests.ray.leaves import (
    add,
    count_up,
    die,
    double,
    echo,
    fail_odd,
    succeed_at_last,
    work_inside,
)
from tests.ray.runs import observed

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

PATH = "tests.ray.leaves."


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


def test_the_references_of_a_stream_are_edges_of_what_takes_them():
    with observed() as seen:
        first, second = run(count_up.options(name="stream").bind(2))
        assert run(add.options(name="sum").bind(first, second)) == 1

    assert seen.edges == {("1.stream", "2.sum")}


def test_nested_outputs_and_parts_of_the_input_are_given_as_they_stand():
    with InputNode() as given:
        graph = MultiOutputNode([[double.bind(given["n"])], {"of": (given["n"],)}])

    with observed():
        assert run(graph, {"n": 4}) == [[8], {"of": (4,)}]


def test_a_repetition_of_rays_is_no_new_try(tmp_path):
    with observed() as seen:
        assert run(succeed_at_last.bind(str(tmp_path))) == 3

    (said,) = [said for said in seen.states if said.state is NodeState.SUCCEEDED]
    assert (said.try_, said.ray_attempt) == (1, 2)
    assert len(seen.states) == 2


def test_a_chain_runs_to_its_end_on_ray():
    node = double.bind(0)
    for _ in range(299):
        node = double.bind(node)

    with observed() as seen:
        assert run(node) == 0

    assert seen.count(NodeState.SUCCEEDED) == 300


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


def test_containers_that_hold_themselves_are_arguments_like_others():
    around = [1]
    around.append(around)
    with observed() as seen:
        alone = run(echo.bind(around))
        held = [double.bind(3)]
        held += [held, (held, {"x": held})]
        given = run(echo.bind(held))

    assert alone[1] is alone
    assert given[1] is given
    assert given[2][1]["x"] is given
    assert seen.edges == {(f"2.{PATH}double#0", f"2.{PATH}echo#0")}


def test_a_container_in_many_places_is_looked_through_once():
    shared = [double.bind(3)]
    for _ in range(40):
        shared = [shared, shared]
    held = list(leaves([shared]))

    assert len(held) == 1


@pytest.mark.parametrize("group", [5, ["g"]])
def test_the_group_of_a_graph_is_text_or_a_function(group):
    with pytest.raises(ConfigurationError, match="neither text nor a function"):
        run(double.bind(1), group=group)


def test_a_group_that_gives_no_text_refuses_the_graph():
    with observed() as seen, pytest.raises(GraphRefused, match="else than text"):
        run(double.bind(1), group=lambda _label: 5)

    assert seen.nodes == []


def test_the_stage_of_a_graph_may_be_one_group():
    with observed() as seen:
        run(add.bind(double.bind(1)), group="all")

    assert {node.stage for node in seen.nodes} == {"all"}


def test_names_of_nodes_make_no_function_of_their_own():
    with observed() as seen:
        run(add.bind(*(double.options(name=f"n{n}").bind(n) for n in range(20))))

    assert seen.count(NodeState.SUCCEEDED) == 21


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


def test_a_graph_of_a_thousand_nodes_is_exact():
    layer = [double.bind(n) for n in range(500)]
    layer = [add.bind(a, b) for a, b in itertools.pairwise(layer)]

    with observed() as seen:
        assert run(add.bind(*layer)) == sum(2 * (2 * n + 1) for n in range(499))

    assert seen.count(NodeState.SUCCEEDED) == 1_000
    assert len(seen.edges) == 2 * 499 + 499
