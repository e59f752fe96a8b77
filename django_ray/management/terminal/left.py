"""How long a run may still take, as a range of minutes, or why none is said.

It is no promise: the slower and the faster quarter of the last minutes go on as they were.
"""

from dataclasses import dataclass

from django_ray.protocol.summary import Summary

MINUTE_MS = 60_000
LEAST_ENDED = 20
LEAST_MINUTES = 3
STEPS = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1_440)
"""Minutes that an estimate is rounded to."""


@dataclass(frozen=True, slots=True)
class Left:
    """So many minutes at least and at most, from so many full minutes."""

    low: int
    high: int
    minutes: int

    def __str__(self) -> str:
        return (
            f"{self.low} to {self.high}"
            if self.low < self.high
            else f"about {self.low}"
        )


def estimate(summary: Summary | None) -> Left | str:
    """Return the range, or the reason in words where it would be a guess."""
    if summary is None or not summary.declared_nodes:
        return "needs a known total"
    if summary.discovered_nodes > summary.declared_nodes:
        return "still growing"
    minutes = full_minutes(summary)
    if len(minutes) < LEAST_MINUTES or minutes[-1] < LEAST_ENDED:
        return "too early"
    ordered = sorted(minutes)
    slow, fast = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
    if slow < 1:
        return "waits for long nodes"
    rest = summary.declared_nodes - summary.node_counts.ended
    return Left(_rounded(rest / fast), _rounded(rest / slow), len(minutes))


def full_minutes(summary: Summary | None) -> tuple[int, ...]:
    """Return how many nodes ended in each minute that the run lived through whole."""
    if summary is None:
        return ()
    first = summary.started_at_ms // MINUTE_MS + 1
    latest = summary.observed_at_ms // MINUTE_MS
    known = summary.ended_by_minute[:-1]
    lived = max(latest - first, 0)
    return known[max(len(known) - lived, 0) :]


def _rounded(minutes: float) -> int:
    return next((step for step in STEPS if minutes <= step), STEPS[-1])
