"""Milliseconds that never go back, and pauses: for a process that paces itself."""

import time
from collections.abc import Callable

BACKOFF_FIRST_MS = 100
BACKOFF_LAST_MS = 5_000


def steady() -> Callable[[], int]:
    """Return a clock that is right when made and then counts what has passed.

    A wall clock set back by an hour would stop every pause for an hour. The count goes on
    while the machine sleeps, where the system can tell.
    """
    source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    offset = time.time_ns() - time.clock_gettime_ns(source)
    return lambda: (offset + time.clock_gettime_ns(source)) // 1_000_000


def backoff_ms(failures: int) -> int:
    """Return the pause after so many failures in a row, from one: it doubles."""
    return min(BACKOFF_FIRST_MS << min(failures - 1, 10), BACKOFF_LAST_MS)
