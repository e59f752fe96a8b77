import pytest

from django_ray.management.terminal.pace import Pace
from django_ray.protocol.summary import NodeCounts
from tests.app import pictures


def reading(second, ended, **changes):
    summary = pictures.make_summary(
        NodeCounts(succeeded=ended, pending=1_000 - ended),
        started_at_ms=0,
        observed_at_ms=second * 1_000,
        **changes,
    )
    return pictures.make_reading(summary)


def said(*pairs):
    pace = Pace()
    for second, ended in pairs:
        pace.see(reading(second, ended))
    return pace.say(reading(*pairs[-1]))


def test_the_rate_is_that_of_the_last_minute_and_says_so():
    assert said((0, 0), (30, 300), (60, 310), (90, 321)) == "21 a minute, last 60 s"


def test_a_shorter_watch_names_its_shorter_basis():
    assert said((100, 10), (118, 40)) == "100 a minute, last 18 s"


@pytest.mark.parametrize(
    ("second", "text"),
    [(1, ""), (2, "60 a minute, last 2 s"), (3, "40 a minute, last 3 s")],
)
def test_under_two_seconds_a_rate_would_be_a_guess(second, text):
    assert said((0, 0), (second, 2)) == text


def test_a_single_look_rates_the_whole_run_so_far():
    assert said((120, 50)) == "25 a minute, since the start"


def test_the_same_revision_seen_twice_is_one_observation():
    assert said((10, 5), (10, 5)) == "30 a minute, since the start"


def test_an_ended_run_rates_its_whole_life():
    ended = pictures.ended(reading(60, 500).summary)
    found = pictures.make_reading(
        pictures.msgspec.structs.replace(ended, ended_at_ms=100_000)
    )
    pace = Pace()
    pace.see(reading(10, 1))
    pace.see(found)
    assert pace.say(found) == "300 a minute, since the start"


def test_another_run_starts_anew():
    pace = Pace()
    pace.see(reading(10, 1))
    pace.see(reading(20, 5))
    run = pictures.make_summary().run
    other = reading(
        30, 2, run=pictures.msgspec.structs.replace(run, execution_generation=2)
    )
    pace.see(other)
    assert pace.say(other) == "4 a minute, since the start"


def test_a_rate_is_never_negative_when_a_node_runs_again():
    assert said((0, 10), (30, 8)) == "0 a minute, last 30 s"


def test_without_a_summary_there_is_no_rate():
    pace = Pace()
    pace.see(pictures.make_reading(None))
    assert pace.say(pictures.make_reading(None)) == ""
