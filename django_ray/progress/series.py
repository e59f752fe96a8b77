"""How many nodes ran at once over the life of a run, in a bounded series. Contract 4.9."""

from typing import Annotated

from msgspec import Meta

from django_ray.identity import MAXIMUM_63
from django_ray.protocol.frames import Milliseconds, Number
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored

FIRST_WIDTH_MS = 1_000


class Running(Stored, frozen=True):
    """The peak of each equally wide bucket from `from_ms` on, and of all."""

    buckets: Annotated[tuple[Number, ...], Meta(max_length=V1.series_buckets)]
    from_ms: Milliseconds
    peak: Number
    width_ms: Annotated[int, Meta(ge=1, le=MAXIMUM_63)]


class Series:
    """Peaks by bucket; when they become too many, two by two become one."""

    def __init__(self, buckets: int) -> None:
        self._limit = buckets
        self._from_ms: int | None = None
        self._width_ms = FIRST_WIDTH_MS
        self._level = 0
        self._peaks: list[int] = []

    def resume(self, stored: Running | None, level: int) -> None:
        """Go on with what is stored, at the level that lasts since."""
        if stored is not None and stored.buckets:
            self._from_ms, self._width_ms = stored.from_ms, stored.width_ms
            self._peaks = list(stored.buckets)
        self._level = level

    def observe(self, at_ms: int, running: int) -> None:
        """Note how many run from `at_ms` on; the level before lasted until then."""
        if self._from_ms is None:
            self._from_ms = at_ms
        place = self._place(at_ms - self._from_ms)
        if place >= len(self._peaks):
            missing = place + 1 - len(self._peaks)
            self._peaks.extend([self._level] * missing)
        self._peaks[place] = max(self._peaks[place], running)
        self._level = running

    def value(self) -> Running | None:
        """Return what is stored, None before anything ran."""
        if self._from_ms is None:
            return None
        return Running(
            buckets=tuple(self._peaks),
            from_ms=self._from_ms,
            peak=max(self._peaks),
            width_ms=self._width_ms,
        )

    def _place(self, after_ms: int) -> int:
        # A clock that went back counts for the latest bucket: the past is not rewritten.
        newest = max(0, len(self._peaks) - 1)
        while max(newest, after_ms // self._width_ms) >= self._limit:
            peaks = self._peaks
            self._peaks = [max(peaks[i : i + 2]) for i in range(0, len(peaks), 2)]
            self._width_ms *= 2
            newest = max(0, len(self._peaks) - 1)
        return max(newest, after_ms // self._width_ms)
