"""Durations counted in logarithmic buckets, and what a share of them stays below."""

import functools
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

FIRST_BUCKET_MS = 4


@functools.cache
def bounds(buckets: int) -> tuple[int, ...]:
    """Return the upper bounds of all buckets but the last, in milliseconds.

    Each is √2 times the one below: 48 reach from 4 ms to 9 hours, and a quantile is off by a
    fifth at the most.
    """
    return tuple(
        round(FIRST_BUCKET_MS * 2 ** (step / 2)) for step in range(buckets - 1)
    )


def quantiles(
    durations: Sequence[int], shares: Sequence[float], longest_ms: int | None
) -> list[int | None]:
    """Return the duration below which each share (0 < share ≤ 1) of the counted ones lies.

    None of none. Interpolated within its bucket; the last bucket, and all, end at the
    longest seen.
    """
    reached = list(accumulate(durations))
    if longest_ms is None or not reached or not reached[-1]:
        return [None] * len(shares)
    uppers = bounds(max(2, len(durations)))
    found: list[int | None] = []
    for share in shares:
        wanted = share * reached[-1]
        place = bisect_left(reached, wanted)
        low = uppers[place - 1] if place else 0
        high = min(uppers[place], longest_ms) if place < len(uppers) else longest_ms
        within = 1 - (reached[place] - wanted) / durations[place]
        found.append(min(longest_ms, round(low + (max(low, high) - low) * within)))
    return found


def trimmed(durations: Sequence[int]) -> tuple[int, ...]:
    """Return the counts without the empty buckets at the end."""
    end = len(durations)
    while end and not durations[end - 1]:
        end -= 1
    return tuple(durations[:end])
