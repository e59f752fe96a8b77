"""A steady clock tells the time and never goes back."""

import time

import pytest

from actors.clock import BACKOFF_LAST_MS, backoff_ms, steady


def test_it_is_right_and_does_not_go_back():
    clock = steady()
    told = [clock() for _ in range(1_000)]
    assert abs(told[0] - time.time_ns() // 1_000_000) < 2_000
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("failures", "pause_ms"),
    [(1, 100), (2, 200), (6, 3_200), (7, BACKOFF_LAST_MS), (10**9, BACKOFF_LAST_MS)],
)
def test_pauses_double_up_to_the_longest(failures, pause_ms):
    assert backoff_ms(failures) == pause_ms
