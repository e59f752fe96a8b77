"""Seven exact counts over two bytes a node, whatever is retained. Contract 4.2.

One byte holds the state (3 bits) with the try (5 bits, saturating), the other the stage.
The coordinator keeps the same two arrays to answer a RESYNC.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from django_ray.protocol.frames import States
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import CODES, NODE_STATES, RANKS, NodeState

MAXIMUM_TRY = 32
"""The last try a byte can tell: a 32nd retry of an omitted node is refused."""

_FIELDS = tuple(state.lower() for state in NODE_STATES)
_STATE_BITS = 7
_TRY_SHIFT = 3
_CODES = bytes(value & _STATE_BITS for value in range(256))


class Change(NamedTuple):
    """One node's state before and after."""

    ordinal: int
    before: NodeState
    after: NodeState


class Counters:
    """The state, try and stage of every discovered node, and their counts."""

    def __init__(self) -> None:
        self._states = bytearray()
        self._stages = bytearray()
        self._counts = [0] * len(NODE_STATES)

    def __len__(self) -> int:
        return len(self._states)

    def add(self, stage: int) -> int:
        """Count one more node, PENDING in its first try; return its ordinal."""
        self._states.append(0)
        self._stages.append(stage)
        self._counts[0] += 1
        return len(self._states) - 1

    def state(self, ordinal: int) -> NodeState:
        """Return the state of a known node."""
        return NODE_STATES[self._states[ordinal] & _STATE_BITS]

    def try_(self, ordinal: int) -> int:
        """Return the try of a known node; `MAXIMUM_TRY` stands for that or more."""
        return try_of(self._states[ordinal])

    def stage(self, ordinal: int) -> int:
        """Return the stage index of a known node."""
        return self._stages[ordinal]

    def stages_of(self, runs: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Yield how many of the known nodes in `runs` are of each stage."""
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            after = min(first + count, len(self._stages))
            if after - first == 1:
                yield self._stages[first], 1
                continue
            # Counting bytes is far faster than looking at each, unless they are few.
            few = after - first < V1.stages
            for stage in (
                sorted(set(self._stages[first:after])) if few else range(V1.stages)
            ):
                found = self._stages.count(stage, first, after)
                if found:
                    yield stage, found

    def put(self, ordinal: int, state: NodeState, try_: int) -> NodeState:
        """Set what was judged elsewhere to be the latest; return the state before."""
        before = self._states[ordinal] & _STATE_BITS
        self._write(ordinal, CODES[state], min(try_, MAXIMUM_TRY))
        return NODE_STATES[before]

    def advance(self, ordinal: int, state: NodeState, try_: int) -> NodeState | None:
        """Apply a state of an omitted node in order; return the state before.

        None and nothing changed when it is not newer by (try, rank of state), or its try
        cannot be told.
        """
        value = self._states[ordinal]
        before = NODE_STATES[value & _STATE_BITS]
        held = ((value >> _TRY_SHIFT) + 1, RANKS[before])
        if try_ > MAXIMUM_TRY or (try_, RANKS[state]) <= held:
            return None
        self._write(ordinal, CODES[state], try_)
        return before

    def extend(self, states: bytes, stages: bytes) -> None:
        """Count more nodes, each with what its two bytes say."""
        codes = states.translate(_CODES)
        for code in range(len(NODE_STATES)):
            self._counts[code] += codes.count(code)
        self._states += states
        self._stages += stages

    def merge(self, states: bytes) -> Iterator[Change]:
        """Apply what an array says of the known nodes, from the first, where it is newer.

        Yield what changed; the iterator must be exhausted.
        """
        for ordinal, (value, held) in enumerate(
            zip(states, bytes(self._states), strict=False)
        ):
            if value == held:
                continue
            state = NODE_STATES[value & _STATE_BITS]
            before = self.advance(ordinal, state, (value >> _TRY_SHIFT) + 1)
            if before is not None:
                yield Change(ordinal, before, state)

    def by_stage(self) -> dict[int, list[int]]:
        """Count the nodes of each stage that has any, by state in canonical order."""
        pairs = Counter(zip(self._stages, self._states.translate(_CODES), strict=True))
        counts: dict[int, list[int]] = {}
        for (stage, code), count in pairs.items():
            counts.setdefault(stage, [0] * len(NODE_STATES))[code] = count
        return counts

    def counts(self) -> NodeCounts:
        """Return the seven counts."""
        return NodeCounts(**dict(zip(_FIELDS, self._counts, strict=True)))

    def count(self, state: NodeState) -> int:
        """Return the count of one state."""
        return self._counts[CODES[state]]

    def chunks(self, size: int) -> Iterator[States]:
        """Yield both arrays in records of at most `size` nodes, by ordinal."""
        for first in range(0, len(self._states), size):
            yield States(
                first=first,
                states=bytes(self._states[first : first + size]),
                stages=bytes(self._stages[first : first + size]),
            )

    def _write(self, ordinal: int, code: int, try_: int) -> None:
        self._counts[self._states[ordinal] & _STATE_BITS] -= 1
        self._counts[code] += 1
        self._states[ordinal] = code | (try_ - 1) << _TRY_SHIFT


def try_of(value: int) -> int:
    """Return the try that a node's one byte tells."""
    return (value >> _TRY_SHIFT) + 1


def byte(state: NodeState, try_: int) -> int:
    """Return a node's state and try as its one byte."""
    return CODES[state] | (min(try_, MAXIMUM_TRY) - 1) << _TRY_SHIFT
