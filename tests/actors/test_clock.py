"""A steady clock tells the time and never goes back."""

import time

from actors.clock import steady


def test_it_is_right_and_does_not_go_back():
    clock = steady()
    told = [clock() for _ in range(1_000)]
    assert abs(told[0] - time.time_ns() // 1_000_000) < 2_000
    assert told == sorted(told)
