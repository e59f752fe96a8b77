"""The interval each producer is told, and the share of time publications may take.

The inbound rate is constant whatever the size of the cluster: intervals widen as producers
multiply. Contract 4.5.
"""

from dataclasses import dataclass

from django_ray.protocol.frames import ProducerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many frames a second reach one collector, and within which intervals."""

    frames_per_second: int = 200
    coordinator_ms: int = 50
    worker_ms: int = 500
    longest_ms: int = 30_000

    def interval_ms(self, kind: ProducerKind, producers: int) -> int:
        """Return after how long a producer among `producers` may report again.

        The coordinator keeps its pace, for it alone carries starts and ends; an owner
        speaks for a whole session as it does. Workers share what is left.
        """
        if kind is not ProducerKind.worker:
            return self.coordinator_ms
        left = max(1, self.frames_per_second - 1_000 // self.coordinator_ms)
        fair = -(-1_000 * producers // left)
        return min(self.longest_ms, max(self.worker_ms, fair))


class Share:
    """When the next publication may begin, so that all take at most a share of time.

    A publication owes its duration in rest, nine times over at 10 %. A small change need
    not wait for all of it: what readers see moves at least once a second below 5,000
    changed rows a second, also on a machine so busy that a publication takes long because
    others work. One that takes over half a second rests as long as it took.
    """

    SHORTEST_MS = 200
    SMALL_MS = 1_000
    SMALL_ROWS = 5_000

    def __init__(self, share: float) -> None:
        self._rest = (1 - share) / share
        self._ended_ms: int | None = None
        self._free_ms = 0.0
        self._last_ms = 0

    def finished(self, at_ms: int, duration_ms: int) -> None:
        """Note that a publication ended, committed or not."""
        # Time spent within a debt pays no part of it.
        self._free_ms = (
            max(self._free_ms + duration_ms, at_ms) + duration_ms * self._rest
        )
        self._ended_ms = at_ms
        self._last_ms = duration_ms

    def due_ms(self, changed: int) -> int:
        """Return the earliest time a publication of so many changed rows may begin."""
        if self._ended_ms is None:
            return 0
        due = self._free_ms
        if changed < self.SMALL_ROWS:
            # So that the commit itself comes within the second.
            rest = max(self.SMALL_MS - self._last_ms, self._last_ms)
            due = min(due, self._ended_ms + rest)
        return max(self._ended_ms + self.SHORTEST_MS, round(due))
