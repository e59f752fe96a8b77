import msgspec
import pytest

from django_ray.progress.recent import FAILED, MINUTE_MS, Endings, Events, Hosts
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EventItem, decode_events
from tests.progress.making import START, limits


def kept(events):
    return decode_events(events.encode())


def told(number, kind="note"):
    return EventItem(START + number, kind, number, f"event {number}")


@pytest.mark.parametrize("number", [31, 32, 33, 100])
def test_the_32_latest_events_are_kept_oldest_first(number):
    events = Events(V1)
    for each in range(number):
        events.add(told(each))

    assert kept(events) == tuple(map(told, range(number)))[-32:]


def test_failures_are_kept_in_preference():
    events = Events(limits(events=3))
    events.add(told(0, FAILED))
    for each in range(1, 6):
        events.add(told(each))
    events.add(told(6, FAILED))

    assert [each.ordinal for each in kept(events)] == [0, 5, 6]


def test_among_failures_only_the_latest_are_kept():
    events = Events(limits(events=3))
    events.add(told(0))
    for each in range(1, 6):
        events.add(told(each, FAILED))

    assert [each.ordinal for each in kept(events)] == [3, 4, 5]


def test_a_later_event_finds_its_place_between_failures():
    events = Events(limits(events=2))
    for each in range(3):
        events.add(told(each, FAILED))

    events.add(told(3))

    assert [each.ordinal for each in kept(events)] == [2, 3]


def test_a_profile_may_keep_no_event():
    events = Events(limits(events=0))
    events.add(told(1))

    assert events.encode() == b"[]"


@pytest.mark.parametrize("filler", ["a", "é", "\n", '"', "\\", "🙂", "\t"])
def test_an_event_is_within_1_kib_whatever_its_escapes(filler):
    events = Events(V1)
    events.add(EventItem(START, "k" * 64, 2**31 - 1, filler * 1_024))

    (found,) = msgspec.json.decode(events.encode(), type=list[msgspec.Raw])
    assert 600 < len(found) <= V1.event_encoded
    assert " bytes]" in kept(events)[0].text


@pytest.mark.parametrize(("more", "cut"), [(-1, False), (0, False), (1, True)])
def test_an_event_is_cut_only_past_its_bound(more, cut):
    room = V1.event_encoded - len(canonical.encode(EventItem(START, "note", None, "-")))
    event = EventItem(START, "note", None, "x" * (room + 1 + more))
    events = Events(V1)

    events.add(event)

    assert (kept(events)[0] != event) is cut


def test_an_event_that_is_kept_is_no_second_one():
    events = Events(limits(events=2))
    long = EventItem(START, "note", 1, "x" * 2_000)

    assert [events.add(each) for each in (told(1), long, told(1), long)] == [
        *(True, True, False, False)
    ]
    assert [each.at_ms for each in kept(events)] == [told(1).at_ms, START]
    assert events.add(told(1, FAILED))


def test_endings_are_counted_by_minute():
    endings = Endings()
    for minutes_ago in (0, 0, 1, 9):
        endings.add(START - minutes_ago * MINUTE_MS, START)

    assert endings.until(START) == (1, 0, 0, 0, 0, 0, 0, 0, 1, 2)
    assert endings.until(START + MINUTE_MS) == (0, 0, 0, 0, 0, 0, 0, 1, 2, 0)


@pytest.mark.parametrize(("ago", "counted"), [(9, 1), (10, 0), (11, 0)])
def test_an_ending_older_than_ten_minutes_is_not_counted(ago, counted):
    endings = Endings()

    endings.add(START - ago * MINUTE_MS, START)

    assert sum(endings.until(START)) == counted


def test_an_ending_of_a_clock_ahead_is_counted_now():
    endings = Endings()

    endings.add(START + 50 * MINUTE_MS, START)

    assert endings.until(START)[-1] == 1


def test_endings_stay_bounded_as_time_goes_on():
    endings = Endings()
    for minute in range(100):
        endings.add(START + minute * MINUTE_MS, START + minute * MINUTE_MS)

    assert endings.until(START + 99 * MINUTE_MS) == (1,) * 10
    assert sum(endings.until(START + 89 * MINUTE_MS)) == 0


@pytest.mark.parametrize(("seen", "counted"), [(3, 3), (4, 4), (5, 4)])
def test_hosts_are_counted_once_each_up_to_a_bound(seen, counted):
    hosts = Hosts(4)
    for number in range(seen):
        hosts.add(f"host-{number}")
        hosts.add(f"host-{number}")

    assert len(hosts) == counted


def test_a_host_is_news_once():
    hosts = Hosts(4)

    assert [hosts.add("a"), hosts.add("a"), hosts.add("b")] == [True, False, True]
