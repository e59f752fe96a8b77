import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.progress.series import FIRST_WIDTH_MS, Series

START = 1_700_000_000_000


def observed(buckets, *steps):
    series = Series(buckets)
    for after, running in steps:
        series.observe(START + after, running)
    return series.value()


def test_before_anything_ran_there_is_no_series():
    assert Series(8).value() is None


def test_a_bucket_holds_its_peak():
    value = observed(8, (0, 1), (10, 5), (20, 2), (999, 3))
    assert (value.buckets, value.from_ms, value.width_ms) == ((5,), START, 1_000)
    assert value.peak == 5


def test_a_level_lasts_until_the_next_change():
    assert observed(8, (0, 1), (500, 4), (3_100, 2)).buckets == (4, 4, 4, 4)
    assert observed(8, (0, 1), (3_100, 2), (4_100, 0)).buckets == (1, 1, 1, 2, 2)


@pytest.mark.parametrize(
    ("last", "buckets", "width"),
    [(7_999, 8, 1_000), (8_000, 5, 2_000), (63_999, 8, 8_000)],
)
def test_buckets_are_halved_as_the_run_grows(last, buckets, width):
    value = observed(8, *((step, 1) for step in range(0, last, 500)), (last, 1))
    assert (len(value.buckets), value.width_ms) == (buckets, width)


def test_halving_keeps_the_peaks():
    value = observed(4, (0, 1), (1_000, 9), (2_000, 2), (3_000, 1), (4_000, 3))
    assert value.width_ms == 2_000
    assert value.buckets == (9, 9, 3)
    assert value.peak == 9


def test_a_clock_that_went_back_counts_for_the_latest_bucket():
    value = observed(8, (5_000, 1), (8_000, 2), (0, 7))
    assert value.from_ms == START + 5_000
    assert value.buckets == (1, 1, 1, 7)


@pytest.mark.parametrize("leap", [10**6, 10**9, 10**14])
def test_a_leap_of_the_clock_stays_within_the_buckets(leap):
    value = observed(256, (0, 3), (leap, 1))
    assert len(value.buckets) <= 256
    assert value.buckets[0] == 3
    assert value.width_ms * 256 > leap


@given(
    st.integers(2, 16), st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 99)))
)
def test_no_peak_is_ever_lost(buckets, steps):
    now = 0
    series = Series(buckets)
    for after, running in steps:
        now += after
        series.observe(START + now, running)
        value = series.value()
        assert len(value.buckets) <= buckets
        assert value.width_ms % FIRST_WIDTH_MS == 0
    if steps:
        assert value.peak == max(value.buckets) == max(level for _, level in steps)
