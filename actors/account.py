"""What became of each method of a compiled graph in one invocation.

The engine tells the end of an invocation and, where a method raised, the participant it
raised in: not when a method began or ended. So nothing more is said than follows from that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django_ray.lifecycle.vocabulary import Outcome
from django_ray.protocol.vocabulary import NodeState


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a graph; `after` are the places of the methods it depends on."""

    path: str
    name: str | None
    after: tuple[int, ...]


CANCELLED = (Outcome.CANCELLED_AFTER_SUBMISSION, Outcome.CANCELLED_PRE_SUBMISSION)

Settled = Mapping[int, tuple[int, ...]]
"""By settled slot the places of the methods that may have raised what came out of it; of
one that gave a value there are none."""


def ends(
    methods: Sequence[Method],
    slots: Sequence[int],
    settled: Settled,
    outcome: Outcome | None,
) -> tuple[NodeState, ...]:
    """Return the end of each method in an invocation whose input was submitted.

    What a value came through has succeeded; what depends on the one that raised was
    skipped. Of the rest nothing is proven: it was abandoned, and is told as cancelled,
    where another is known to have raised or the invocation was cancelled; else it is told
    as failed. Two methods of one participant cannot be told apart: if either may have
    raised, nothing is proven of both.
    """
    proven: set[int] = set()
    raised: set[int] = set()
    for slot, suspects in settled.items():
        leading = _before(methods, slots[slot]) | {slots[slot]}
        if not suspects:
            proven |= leading
        elif len(among := leading.intersection(suspects)) == 1:
            raised |= among
    abandoned = raised or outcome in CANCELLED
    found = [NodeState.CANCELLED if abandoned else NodeState.FAILED] * len(methods)
    for place in raised:
        proven |= _before(methods, place)
        for later in _behind(methods, place):
            found[later] = NodeState.SKIPPED
    for place in proven:
        found[place] = NodeState.SUCCEEDED
    for place in raised:
        found[place] = NodeState.FAILED
    return tuple(found)


def _before(methods: Sequence[Method], place: int) -> set[int]:
    found: set[int] = set()
    stack = [place]
    while stack:
        for source in methods[stack.pop()].after:
            if source not in found:
                found.add(source)
                stack.append(source)
    return found


def _behind(methods: Sequence[Method], place: int) -> set[int]:
    found: set[int] = set()
    for later in range(place + 1, len(methods)):
        if any(source == place or source in found for source in methods[later].after):
            found.add(later)
    return found
