"""Every state by its shape, its word and, where there is colour, its colour.

The order is fixed: ended at the left, alive in the middle, to come at the right.
"""

from dataclasses import dataclass

from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import ExecutionState, NodeState

Part = tuple[str, str]
"""Text and the rich style it is printed in."""

QUIET = "bright_black"
ALERT = "yellow"


@dataclass(frozen=True, slots=True)
class Shape:
    """How one node state looks: in a bar, before a word, and in which style."""

    state: NodeState
    cell: str
    mark: str
    style: str


SHAPES = (
    Shape(NodeState.SUCCEEDED, "█", "✓", "green"),
    Shape(NodeState.FAILED, "✗", "✗", "red"),
    Shape(NodeState.CANCELLED, "■", "■", "magenta"),
    Shape(NodeState.SKIPPED, "⊘", "⊘", QUIET),
    Shape(NodeState.RUNNING, "▸", "▸", "blue"),
    Shape(NodeState.SUBMITTED, "◌", "◌", "blue"),
    Shape(NodeState.PENDING, "·", "·", QUIET),
)
OF = {shape.state: shape for shape in SHAPES}

EXECUTIONS: dict[ExecutionState, Part] = {
    ExecutionState.QUEUED: ("·", QUIET),
    ExecutionState.CLAIMED: ("◌", QUIET),
    ExecutionState.RUNNING: ("▸", "blue"),
    ExecutionState.RETRY_WAIT: ("…", QUIET),
    ExecutionState.RECONCILE: ("!", ALERT),
    ExecutionState.SUCCEEDED: ("✓", "green"),
    ExecutionState.FAILED: ("✗", "red"),
    ExecutionState.CANCELLED: ("■", "magenta"),
    ExecutionState.TIMED_OUT: ("✗", "red"),
    ExecutionState.LOST: ("!", "red"),
}

UNKNOWN = "╌"
"""An empty bar: nothing is known yet to draw a share of."""


def bar(counts: NodeCounts, total: int, width: int) -> list[Part]:
    """Return a bar of exactly `width` columns; what is not discovered yet stays blank.

    A state with one node has at least one cell, however many the others are.
    """
    if total < 1 or width < len(SHAPES) + 1:
        return [(UNKNOWN * max(width, 0), QUIET)]
    numbers = [counts.of(shape.state) for shape in SHAPES]
    cells = _share([*numbers, max(total - sum(numbers), 0)], width)
    parts = [
        (shape.cell * number, shape.style)
        for shape, number in zip(SHAPES, cells, strict=False)
        if number
    ]
    return [*parts, (" " * cells[-1], "")] if cells[-1] else parts


def _share(numbers: list[int], width: int) -> list[int]:
    total = sum(numbers)
    ideal = [width * number / total for number in numbers]
    cells = [
        max(1, int(part)) if number else 0
        for number, part in zip(numbers, ideal, strict=True)
    ]
    while sum(cells) != width:
        short = sum(cells) < width
        step = 1 if short else -1
        gaps = [
            (step * (part - cell), -index)
            for index, (part, cell) in enumerate(zip(ideal, cells, strict=True))
            if (cell if short else cell > 1)
        ]
        cells[-max(gaps)[1]] += step
    return cells


def stage_state(counts: NodeCounts) -> NodeState:
    """Return the one state that stands for a stage: the first that applies."""
    if counts.failed:
        return NodeState.FAILED
    if counts.running:
        return NodeState.RUNNING
    if counts.submitted:
        return NodeState.SUBMITTED
    if counts.pending or not counts.total:
        return NodeState.RUNNING if counts.succeeded else NodeState.PENDING
    if counts.cancelled:
        return NodeState.CANCELLED
    return NodeState.SKIPPED if counts.skipped else NodeState.SUCCEEDED
