import pytest

from django_ray.management.terminal import words
from tests.app.pictures import NOW, NOW_MS


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "\u2013"),
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (2_149, "2.1 s"),
        (9_999, "9.9 s"),
        (10_000, "10 s"),
        (59_999, "59 s"),
        (60_000, "1:00"),
        (520_000, "8:40"),
        (3_599_999, "59:59"),
        (3_600_000, "1:00:00"),
        (3_727_000, "1:02:07"),
    ],
)
def test_a_duration_reads_by_its_size(ms, text):
    assert words.duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-400, "0.0 s"),
        (850, "0.8 s"),
        (1_999, "1.9 s"),
        (2_000, "2 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (172_799_999, "47 h"),
        (172_800_000, "2 days"),
    ],
)
def test_an_age_has_one_decimal_under_two_seconds(ms, text):
    assert words.age(ms) == text


def test_a_time_of_another_day_says_its_date():
    assert words.clock(NOW_MS, NOW_MS) == "14:10:47"
    assert words.clock(NOW_MS - words.DAY, NOW_MS) == "2026-11-22 14:10:47"


def test_milliseconds_and_moments_are_inverse():
    assert words.moment(words.milliseconds(NOW)) == NOW


@pytest.mark.parametrize(
    ("whole", "ended", "text"),
    [(0, 0, "0 %"), (0, 1, "<1 %"), (1, 1, "1 %"), (100, 9, "100 %")],
)
def test_a_percent_never_rounds_something_to_nothing(whole, ended, text):
    assert words.percent(whole, ended) == text


def test_counts_are_exact_with_thousands():
    assert words.count(1_000_000) == "1,000,000"
    assert words.nodes(1) == "1 node"
    assert words.nodes(1_738) == "1,738 nodes"
