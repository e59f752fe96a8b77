"""What collectors, owners and producers tell of themselves, as differences since the last time.

Plain classes: what they tell goes to a `Meter`, which `metrics` makes of Ray's. They are
asked every few seconds, so that no frame and no invocation pays for it, and once when their
process leaves; gauges are 0 from then on.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from django_ray.lifecycle.vocabulary import SessionState
from django_ray.protocol.vocabulary import NODE_STATES

if TYPE_CHECKING:
    # The process of every leaf loads this module, and needs none of these.
    from actors.collector import Collector
    from actors.publisher import Publisher
    from django_ray.progress.delta import Publication

INTERVAL_S = 5.0
"""How often everything is told: Ray exports half as often."""

FATES = {
    "applied": "applied",
    "duplicate": "repeated",
    "resent": "repeated",
    "stale": "stale",
    "early": "early",
    "omitted": "omitted",
    "gap": "rejected",
    "unknown_node": "rejected",
    "unknown_task": "rejected",
    "retry_limit": "rejected",
    "ended": "rejected",
    "unsupported": "rejected",
}
"""What became of a record, by the key of the model's tallies."""

STATUSES = {
    "resync": "resync",
    "postponed": "postponed",
    "not_admitted": "not_admitted",
    "duplicate_frames": "repeated",
    "fault": "fault",
    "refused": "refused",
    "fenced": "fenced",
}
"""How a frame was answered that was not applied, by the key of the collector's tallies."""

UNREAD = ("refused", "fenced")
"""The statuses of frames that are not among the `frames` that were read."""

PRODUCED = {
    "coalesced": ("coalesced",),
    "dropped": ("dropped", "malformed", "oversized"),
    "stale": ("stale",),
}
"""What became of a record at its producer, by the keys of its counts."""


COUNTED = (
    SessionState.READY,
    SessionState.REJECTED,
    SessionState.QUARANTINED,
    SessionState.TORN_DOWN,
)
"""The states of a session that are counted when it first comes into them."""

OUTCOME = "outcome:"
"""What stands before an outcome in `Chronicle.tallies`: its invocations are counted."""

REUSED = "reused"
"""Counts the inputs that a graph took which had taken one before."""

logger = logging.getLogger(__name__)


class Meter(Protocol):
    """Where metrics go, by their names in the table of `measures`; nothing here raises."""

    def add(self, name: str, number: float, value: str = "") -> None:
        """Add to a counter, under one value of its label; 0 adds nothing."""

    def set(self, name: str, number: float, value: str = "") -> None:
        """Set a gauge."""

    def observe(self, name: str, number: float) -> None:
        """Add one observation to a histogram."""


class _Sums:
    """Tells counters by what they have grown."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._told: Counter[tuple[str, str]] = Counter()

    def tell(self, name: str, total: int, value: str = "") -> None:
        before = self._told[name, value]
        # One that has begun anew is below what was told: all of it is more.
        self._meter.add(name, total - before if total >= before else total, value)
        self._told[name, value] = total

    def tell_all(self, name: str, totals: Mapping[str, int]) -> None:
        for value, total in totals.items():
            self.tell(name, total, value)


class CollectorTeller:
    """Tells of one collector and its publisher."""

    def __init__(
        self, collector: "Collector", meter: Meter, clock: Callable[[], int]
    ) -> None:
        self._collector = collector
        self._meter = meter
        self._clock = clock
        self._sums = _Sums(meter)
        self._began_s = 0.0

    def passed(self, step: str) -> None:
        """Measure a publication, from `taken` to `settled`: what an observer is told."""
        if step == "taken":
            self._began_s = time.monotonic()
        elif step == "settled":
            took = time.monotonic() - self._began_s
            self._meter.observe("django_ray_publication_seconds", took)

    def committed(self, publication: "Publication") -> None:
        """Count the rows and bytes of a publication that is committed."""
        rows = publication.rows
        self._meter.add("django_ray_published_rows_total", len(rows.ordinals))
        size = sum(map(len, rows.records)) + len(publication.summary)
        self._meter.add("django_ray_published_bytes_total", size)

    def tell(self, publisher: "Publisher", *, leaving: bool) -> None:
        """Tell all that is counted and how it stands."""
        facts = self._collector.facts(self._clock())
        here = 0 if leaving else 1
        gauge = self._meter.set
        gauge("django_ray_collectors", here)
        gauge("django_ray_producers", facts.producers * here)
        gauge("django_ray_lag_seconds", facts.lag_ms / 1_000 * here)
        for state in NODE_STATES:
            count = getattr(facts.nodes, state.lower())
            gauge("django_ray_nodes", count * here, state)
        sums = self._sums
        sums.tell_all("django_ray_updates_total", _gathered(facts.records, FATES))
        sums.tell("django_ray_frame_bytes_total", facts.frame_bytes)
        sums.tell_all("django_ray_frames_total", _answers(facts.frames))
        sums.tell_all("django_ray_rejects_total", _reasons(facts.records, facts.frames))
        sums.tell_all("django_ray_publications_total", dict(publisher.tallies))
        sums.tell("django_ray_publications_total", int(facts.fenced), "fenced")
        sums.tell("django_ray_restarts_total", int(facts.resumed))


def _gathered(tallies: Mapping[str, int], names: Mapping[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, count in tallies.items():
        found[names.get(key, "other")] += count
    return found


def _answers(tallies: Mapping[str, int]) -> Counter[str]:
    """Count frames by their answer; what was read and met nothing was applied."""
    found = Counter({STATUSES[key]: tallies.get(key, 0) for key in STATUSES})
    read = tallies.get("frames", 0)
    found["applied"] = read - sum(
        count for name, count in found.items() if name not in UNREAD
    )
    return found


def _reasons(records: Mapping[str, int], tallies: Mapping[str, int]) -> Counter[str]:
    found = Counter(
        {key: count for key, count in records.items() if FATES.get(key) == "rejected"}
    )
    for key, count in tallies.items():
        if key == "fault" or (key != "frames" and key not in STATUSES):
            found[key] += count
    return found


class OwnerTeller:
    """Tells of one owner's sessions, and of the graphs it uses again."""

    def __init__(self, tallies: Counter[str], meter: Meter) -> None:
        self._tallies = tallies
        self._meter = meter
        self._sums = _Sums(meter)

    def tell(self, *, leaving: bool) -> None:
        """Tell all that is counted."""
        self._meter.set("django_ray_owners", 0 if leaving else 1)
        tallies, sums = dict(self._tallies), self._sums
        for state in COUNTED:
            sums.tell("django_ray_sessions_total", tallies.get(state, 0), state)
        for key, count in tallies.items():
            if key.startswith(OUTCOME):
                outcome = key.removeprefix(OUTCOME)
                sums.tell("django_ray_invocations_total", count, outcome)
        sums.tell("django_ray_graph_reuses_total", tallies.get(REUSED, 0))


class ProducerTeller:
    """Tells what a producer has left out or merged before it was sent."""

    def __init__(self, meter: Meter) -> None:
        self._sums = _Sums(meter)

    def tell(self, counts: Mapping[str, int]) -> None:
        """Tell what `Producer` has counted."""
        sums = self._sums
        for name, keys in PRODUCED.items():
            total = sum(counts.get(key, 0) for key in keys)
            sums.tell("django_ray_updates_total", total, name)
        refusals = counts.get("window_refusals", 0)
        sums.tell("django_ray_window_refusals_total", refusals)


class Rounds:
    """Calls `tell` every few seconds from a daemon thread, and once more at the end."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._is_quiet = False
        self._ended = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(
            target=self._go, name="django-ray-metrics", daemon=True
        )

    def start(self) -> None:
        """Begin; the first time is at once."""
        self._thread.start()

    def stop(self) -> None:
        """Tell for the last time; a second call is nothing."""
        with self._turn:
            if not self._ended.is_set():
                self._ended.set()
                self._say(leaving=True)

    def _go(self) -> None:
        while True:
            with self._turn:
                if self._ended.is_set():
                    return
                self._say(leaving=False)
            self._ended.wait(INTERVAL_S)

    def _say(self, *, leaving: bool) -> None:
        try:
            self._tell(leaving)
        except Exception:
            # An actor that could not leave because of its metrics would stay for ever.
            if not self._is_quiet:
                self._is_quiet = True
                logger.exception("Metrics could not be told.")
