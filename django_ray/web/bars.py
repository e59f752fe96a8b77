"""A run's counts as the segments of one bar, in percent of its length.

A strict policy lets no style attribute carry a length; the attributes of an SVG may. The
script draws the same bars from the same rule, knowing the true width.
"""

from dataclasses import dataclass

from django_ray.management.terminal.words import count
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import NodeState

ORDER = (
    NodeState.SUCCEEDED,
    NodeState.FAILED,
    NodeState.CANCELLED,
    NodeState.SKIPPED,
    NodeState.RUNNING,
    NodeState.SUBMITTED,
    NodeState.PENDING,
)
"""Ended at the left, alive in the middle, to come at the right."""

LEAST, LEAST_FAILED = 3.0, 4.0
"""So many pixels has a state with one node, however many the others are."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long a bar is taken to be where nobody can measure it, and its gaps."""

    width: float
    gap: float


HEAD = Size(1_200, 2)
ROW = Size(150, 1)


@dataclass(frozen=True, slots=True)
class Segment:
    """One state's part of a bar."""

    state: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Segments from left to right, and the same in words. None: the total is unknown."""

    segments: tuple[Segment, ...]
    words: str


def draw(counts: NodeCounts | None, total: int, size: Size) -> Bar:
    """Return the bar of `total` nodes; what is not discovered yet is still to come."""
    if counts is None or total < 1:
        return Bar((), "No node is known yet")
    numbers = {state: counts.of(state) for state in ORDER}
    numbers[NodeState.PENDING] += max(total - counts.total, 0)
    shown = {state: number for state, number in numbers.items() if number}
    lengths = _lengths(shown, size)
    segments: list[Segment] = []
    x = 0.0
    for state, length in lengths.items():
        segments.append(
            Segment(state.lower(), _percent(x, size), _percent(length, size))
        )
        x += length + size.gap
    said = ", ".join(
        f"{count(number)} {state.lower()}" for state, number in shown.items()
    )
    return Bar(tuple(segments), said)


def _lengths(shown: dict[NodeState, int], size: Size) -> dict[NodeState, float]:
    """Share the length out: nobody below the least, the others in proportion."""
    free = size.width - size.gap * (len(shown) - 1)
    fixed: dict[NodeState, float] = {}
    while True:
        rest = {state: n for state, n in shown.items() if state not in fixed}
        room, total = free - sum(fixed.values()), sum(rest.values())
        small = {
            state: _least(state)
            for state, n in rest.items()
            if room * n < _least(state) * total
        }
        if not small or len(small) == len(rest):
            break
        fixed |= small
    return {
        state: fixed[state] if state in fixed else room * n / total
        for state, n in shown.items()
    }


def _least(state: NodeState) -> float:
    return LEAST_FAILED if state is NodeState.FAILED else LEAST


def _percent(length: float, size: Size) -> str:
    return f"{100 * length / size.width:.3f}%"
