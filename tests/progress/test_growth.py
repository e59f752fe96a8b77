import pytest

from django_ray.progress.growth import (
    CALLS,
    TOPOLOGY_MS,
    TOPOLOGY_NODES,
    Declared,
    Growth,
)
from django_ray.protocol.frames import MAXIMUM_ORDINAL
from django_ray.protocol.records import NodeItem
from tests.progress.making import START, node


def grown(number):
    growth = Growth()
    for ordinal in range(number):
        growth.add(node(ordinal), 5, 0)
    return growth


def test_the_first_node_is_due_at_once():
    assert not grown(0).is_due(START, ended=True)
    assert grown(1).is_due(START, ended=False)


@pytest.mark.parametrize(("ms", "due"), [(-1, False), (0, True), (1, True)])
def test_later_nodes_are_due_two_seconds_after_the_last(ms, due):
    growth = grown(1)
    growth.settle(START)

    assert growth.is_due(START + TOPOLOGY_MS + ms, ended=False) is due


@pytest.mark.parametrize(("more", "due"), [(-1, False), (0, True), (1, True)])
def test_256_waiting_nodes_are_due(more, due):
    growth = grown(TOPOLOGY_NODES + more)
    growth.settle(START)

    assert growth.is_due(START, ended=False) is due


def test_waiting_nodes_are_due_when_the_run_ends():
    growth = grown(1)
    growth.settle(START)

    assert growth.is_due(START, ended=True)


def test_nodes_are_handed_out_once_with_rank_stage_and_edges():
    growth = grown(1)
    assert growth.add(node(1, 0, 1), 6, 1) == 1

    batch = growth.take()

    assert batch.nodes[1] == NodeItem(1, "1.step[1]", "app.step", "app.step", 1)
    assert (batch.stages, batch.edges) == (bytes((5, 6)), [(1, 1, (0, 1))])
    assert growth.waiting == 0
    assert len(growth) == 2


def test_what_is_restored_waits_before_what_came_since():
    growth = grown(2)
    batch = growth.take()
    growth.add(node(2, 0, 2), 6, 2)

    growth.restore(batch)

    again = growth.take()
    assert [each.ordinal for each in again.nodes] == [0, 1, 2]
    assert (again.stages, again.edges) == (bytes((5, 5, 6)), [(2, 2, (0, 2))])


def test_an_id_is_known_of_retained_nodes_only():
    growth = grown(2)

    assert (growth.id(1), growth.id(2)) == ("1.step[1]", "")


def test_declarations_add_up_once_each():
    declared = Declared()

    assert declared.add(1, 10)
    assert declared.add(3, 5)
    assert not declared.add(1, 10)
    assert declared.add(2, 1)
    assert declared.total == 16


def test_what_is_remembered_of_forgotten_calls_fits_a_record():
    declared = Declared()
    for call in range(1, CALLS + 3):
        declared.add(call, MAXIMUM_ORDINAL)

    assert next(declared.calls()) == (0, MAXIMUM_ORDINAL)
    assert declared.total == (CALLS + 2) * MAXIMUM_ORDINAL


def test_a_corrected_declaration_takes_the_place_of_the_first():
    declared = Declared()
    declared.add(1, 10)
    declared.add(2, 5)

    assert declared.add(1, 4)
    assert declared.total == 9
    assert declared.add(2, 7)
    assert not declared.add(2, 7)
    assert declared.total == 11
    assert declared.add(1, 0)
    assert declared.total == 7


@pytest.mark.parametrize(
    ("calls", "total"), [(CALLS - 1, CALLS), (CALLS, CALLS + 1), (CALLS + 1, CALLS + 1)]
)
def test_a_declaration_is_corrected_as_long_as_it_is_remembered(calls, total):
    declared = Declared()
    for call in range(calls):
        declared.add(call, 1)

    assert declared.add(0, 2) is (calls <= CALLS)
    assert declared.total == total


@pytest.mark.parametrize("calls", [CALLS - 1, CALLS, CALLS + 1])
def test_declarations_are_remembered_in_bounded_memory(calls):
    declared = Declared()
    for call in range(calls):
        declared.add(call, 1)

    assert not any(declared.add(call, 1) for call in (0, 1, calls - 1))
    assert declared.total == calls
