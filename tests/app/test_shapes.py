import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.management.terminal import shapes
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import ExecutionState, NodeState
from tests.app import pictures

CELLS = {shape.state: shape.cell for shape in shapes.SHAPES}


def drawn(counts, width, total=None):
    parts = shapes.bar(counts, counts.total if total is None else total, width)
    return "".join(text for text, _ in parts)


def test_every_state_has_a_shape_of_its_own():
    assert set(CELLS) == set(NodeState)
    assert len(set(CELLS.values())) == 7


def test_every_execution_state_has_a_mark():
    assert set(shapes.EXECUTIONS) == set(ExecutionState)


def test_all_seven_states_are_seen_in_fixed_order():
    assert drawn(pictures.EVERY_STATE, 8) in {"█✗■⊘▸◌··", "██✗■⊘▸◌·"}


def test_one_failure_in_a_million_is_seen():
    bar = drawn(NodeCounts(succeeded=999_999, failed=1), 40)
    assert bar == "█" * 39 + "✗"


def test_what_is_not_discovered_yet_stays_blank():
    assert drawn(NodeCounts(succeeded=10), 20, total=20) == "█" * 10 + " " * 10


def test_an_unknown_total_draws_no_share():
    assert drawn(NodeCounts(), 10) == shapes.UNKNOWN * 10


@pytest.mark.parametrize("width", [-3, 0, 7])
def test_a_bar_too_narrow_for_the_states_draws_none(width):
    bar = drawn(pictures.EVERY_STATE, width)
    assert bar == shapes.UNKNOWN * max(width, 0)


@given(
    st.lists(st.integers(0, 1_000_000), min_size=7, max_size=7),
    st.integers(8, 120),
    st.integers(0, 500),
)
def test_a_bar_fills_its_width_and_hides_no_state(numbers, width, further):
    counts = NodeCounts(**dict(zip(map(str.lower, NodeState), numbers, strict=True)))
    if not counts.total:
        return
    bar = drawn(counts, width, total=counts.total + further)
    assert len(bar) == width
    for state in NodeState:
        assert (CELLS[state] in bar) == (counts.of(state) > 0)


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"failed": 1, "running": 1, "succeeded": 9}, NodeState.FAILED),
        ({"running": 1, "submitted": 1}, NodeState.RUNNING),
        ({"submitted": 1, "pending": 1}, NodeState.SUBMITTED),
        ({"cancelled": 1, "skipped": 1}, NodeState.CANCELLED),
        ({"skipped": 1, "succeeded": 1}, NodeState.SKIPPED),
        ({"succeeded": 3}, NodeState.SUCCEEDED),
        ({"succeeded": 1, "pending": 1}, NodeState.RUNNING),
        ({"pending": 1}, NodeState.PENDING),
        ({"cancelled": 1, "pending": 1}, NodeState.PENDING),
        ({}, NodeState.PENDING),
    ],
)
def test_one_state_stands_for_a_stage(counts, state):
    assert shapes.stage_state(NodeCounts(**counts)) is state
