"""How counts, durations, ages and times read. A missing value is a dash."""

import datetime as dt

NONE = "\u2013"
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def count(number: int) -> str:
    """Return an exact count with thousands separated."""
    return f"{number:,}"


def nodes(number: int) -> str:
    """Return a count of nodes."""
    return "1 node" if number == 1 else f"{number:,} nodes"


def duration(ms: int | None) -> str:
    """Return how long something took: 120 ms, 2.1 s, 44 s, 8:40, 1:02:07."""
    if ms is None:
        return NONE
    if ms < SECOND:
        return f"{max(ms, 0)} ms"
    if ms < 10 * SECOND:
        return f"{ms // 100 / 10} s"
    seconds = ms // SECOND
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3_600:
        return f"{seconds // 60}:{seconds % 60:02}"
    return f"{seconds // 3_600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def age(ms: int) -> str:
    """Return how long ago: one decimal under 2 s, then whole units.

    Two clocks may disagree, so what lies ahead is 0.
    """
    if ms < 2 * SECOND:
        return f"{max(ms, 0) // 100 / 10} s"
    if ms < 2 * MINUTE:
        return f"{ms // SECOND} s"
    if ms < 2 * HOUR:
        return f"{ms // MINUTE} min"
    return f"{ms // HOUR} h" if ms < 2 * DAY else f"{ms // DAY} days"


def clock(ms: int, today_ms: int) -> str:
    """Return the UTC time of day, the date before it when it is not today's."""
    when, today = moment(ms), moment(today_ms)
    form = "%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M:%S"
    return when.strftime(form)


def moment(ms: int) -> dt.datetime:
    """Return the UTC moment of milliseconds since the epoch."""
    return dt.datetime.fromtimestamp(ms / 1000, tz=dt.UTC)


def milliseconds(when: dt.datetime) -> int:
    """Return the milliseconds since the epoch of a moment."""
    return int(when.timestamp() * 1000)


def percent(whole: int, done: int) -> str:
    """Return a percent that never rounds something away: <1 %, and 100 only for all."""
    return "<1 %" if whole == 0 and done else f"{whole} %"
