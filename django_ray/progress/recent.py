"""What happened lately: events, endings by minute, hosts seen. Contract 2, 4.9."""

from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice

from msgspec.structs import replace

from django_ray.progress import bequest
from django_ray.protocol import canonical, text
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.records import EventItem

MINUTE_MS = 60_000
MINUTES = 10
"""How many minutes of endings the summary carries."""

FAILED = "failed"
"""The kind of event that is kept in preference to others."""


class Events:
    """The recent events of a run: when full, the oldest that is no failure goes first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._failures: deque[tuple[int, EventItem]] = deque()
        self._others: deque[tuple[int, EventItem]] = deque()
        self._number = 0
        self._stored: frozenset[EventItem] = frozenset()

    def resume(self, events: Collection[EventItem]) -> None:
        """Go on with stored events; one that is told again is no second one."""
        for event in events:
            self.add(event)
        self._stored = frozenset(events)

    def add(self, event: EventItem) -> bool:
        """Keep `event`, its text cut until the whole is within its bound.

        False where it is kept already: a producer whose answer was lost tells it again.
        """
        event = self._fit(event)
        if self._limits.events < 1 or event in self._stored or self._holds(event):
            return False
        if len(self._failures) + len(self._others) >= self._limits.events:
            (self._others or self._failures).popleft()
        self._number += 1
        kept = self._failures if event.kind == FAILED else self._others
        kept.append((self._number, event))
        return True

    def _holds(self, event: EventItem) -> bool:
        kept = self._failures if event.kind == FAILED else self._others
        return any(each == event for _, each in kept)

    def encode(self) -> bytes:
        """Return the canonical array of the events, oldest first."""
        kept = sorted([*self._failures, *self._others], key=lambda each: each[0])
        return canonical.encode([event for _, event in kept])

    def _fit(self, event: EventItem) -> EventItem:
        bound = self._limits.event_encoded
        kept, room = event, text.size(event.text)
        while (over := len(canonical.encode(kept)) - bound) > 0 and room > 0:
            # An escape takes two bytes at the most: half the excess is never too much.
            room = max(room - max(over // 2, 8), 0)
            kept = replace(event, text=text.fit(event.text, room))
        return kept


class Endings:
    """How many nodes ended in each of the last ten minutes."""

    def __init__(self) -> None:
        self._minutes: dict[int, int] = {}

    def add(self, at_ms: int, now_ms: int) -> None:
        """Count one ending; one told too late for the window is not in it."""
        minute, latest = at_ms // MINUTE_MS, now_ms // MINUTE_MS
        minute = min(minute, latest)
        if minute <= latest - MINUTES:
            return
        self._minutes[minute] = self._minutes.get(minute, 0) + 1
        if len(self._minutes) > MINUTES:
            del self._minutes[min(self._minutes)]

    def resume(self, at_ms: int, counts: tuple[int, ...]) -> None:
        """Go on with the stored minutes, of which the last is that of `at_ms`."""
        first = at_ms // MINUTE_MS - len(counts) + 1
        self._minutes = {
            minute: count for minute, count in enumerate(counts, first) if count
        }

    def until(self, at_ms: int) -> tuple[int, ...]:
        """Return the counts of the ten minutes that end with the one of `at_ms`."""
        latest = at_ms // MINUTE_MS
        return tuple(
            self._minutes.get(minute, 0)
            for minute in range(latest - MINUTES + 1, latest + 1)
        )


class Hosts:
    """How many hosts were seen, exact up to a bound and never more than it.

    Told apart by their keys: those of the first ones seen are left to a successor, which
    so counts on exactly while they are few, and never below what was said before.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._seen: set[str] = set()
        self._keys: dict[str, None] = {}
        self._stored = 0

    def __len__(self) -> int:
        return max(len(self._keys), self._stored)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the first hosts seen."""
        return tuple(islice(self._keys, V1.bequest_hosts))

    def resume(self, keys: Iterable[str], count: int) -> None:
        """Go on with what is stored."""
        self._keys = dict.fromkeys(keys)
        self._stored = count

    def add(self, host: str) -> bool:
        """Note a host; claim that it had not been seen."""
        if host in self._seen or len(self._seen) >= self._bound:
            return False
        self._seen.add(host)
        if len(self._keys) >= self._bound:
            return False
        known = len(self._keys)
        self._keys.setdefault(bequest.key(host))
        return len(self._keys) > known
