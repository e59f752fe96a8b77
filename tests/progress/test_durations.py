"""Durations: buckets that grow evenly, and quantiles near the true ones."""

import itertools
import random

from django_ray.progress.durations import bounds, quantiles, trimmed


def test_bounds_grow_by_the_root_of_two_from_4_ms_to_9_hours():
    limits = bounds(48)
    assert len(limits) == 47
    assert limits[:5] == (4, 6, 8, 11, 16)
    assert 9 < limits[-1] / 3_600_000 < 10
    assert all(
        1.3 < after / before < 1.6 for before, after in itertools.pairwise(limits)
    )


def test_quantiles_are_the_same_without_the_empty_buckets():
    choose, shares = random.Random(3), [0.01, 0.5, 0.95, 1.0]
    for _ in range(200):
        counts = [choose.choice([0, 0, 1, 7]) for _ in range(48)]
        counts[-1] = 0
        last = max((place for place, count in enumerate(counts) if count), default=0)
        longest = bounds(48)[last] - 1
        found = quantiles(counts, shares, longest)
        assert found == quantiles(trimmed(counts), shares, longest)


def test_a_quantile_of_nothing_is_none():
    assert quantiles((), [0.5], None) == [None]
    assert quantiles([0] * 48, [0.5, 0.95], 10) == [None, None]


def test_a_quantile_is_read_within_its_bucket():
    counts = [0, 4, 0, 4]  # 4 to 6 ms, and 8 to the longest seen
    assert quantiles(counts, [0.25, 0.5, 0.75, 1.0], 10) == [5, 6, 9, 10]
    assert quantiles(counts, [0.25], 4) == [4]
