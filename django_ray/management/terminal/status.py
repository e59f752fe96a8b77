"""How fresh and how complete a picture is: one line each, a word and a sentence.

A publication comes at least every 5 s while a run lives (contract 4.8), so an old figure
and a silent collector differ: the one is unchanged, the other is late, then stale.
"""

from collections.abc import Callable
from enum import StrEnum

from django_ray.management.terminal.shapes import ALERT, QUIET, Part
from django_ray.management.terminal.words import (
    age,
    clock,
    count,
    duration,
    milliseconds,
)
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ReportingPolicy,
)
from django_ray.readers.picture import Execution, Picture, Reading

LATE_MS = 15_000
STALE_MS = 30_000
UNCHANGED_MS = 10_000
UNCLAIMED_MS = 60_000
WORD_COLUMNS = 10


class Freshness(StrEnum):
    """How far a picture may be believed to be of now."""

    Live = "Live"
    Late = "Late"
    Stale = "Stale"
    Waiting = "Waiting"
    Silent = "No answer"
    Final = "Final"


def freshness(picture: Picture) -> Freshness:
    """Return the one word that holds for this picture."""
    reading = picture.reading
    if not picture.answered:
        return Freshness.Silent
    if reading.execution.has_ended or reading.execution.is_undecided:
        return Freshness.Final
    if reading.summary is None:
        return Freshness.Waiting
    silent = silence(reading, reading.summary)
    if silent >= STALE_MS:
        return Freshness.Stale
    return Freshness.Late if silent > LATE_MS else Freshness.Live


def silence(reading: Reading, summary: Summary) -> int:
    """Return the milliseconds since the collector's last sign of life."""
    return max(milliseconds(reading.read_at) - summary.observed_at_ms, 0)


def fresh_line(picture: Picture) -> list[Part]:
    """Say how fresh the picture is."""
    word = freshness(picture)
    style = {
        Freshness.Live: "bold blue",
        Freshness.Final: "bold",
        Freshness.Waiting: "bold",
    }.get(word, f"bold {ALERT}")
    text = _sentence(word, picture.reading)
    return [(word.value.ljust(WORD_COLUMNS), style), (text, "")]


def paused_line(reading: Reading) -> list[Part]:
    """Say that the picture stands still because somebody wants it to."""
    now = milliseconds(reading.read_at)
    revision = (
        f"revision {count(reading.summary.revision)}, " if reading.summary else ""
    )
    text = f"by you: {revision}figures of {clock(now, now)} UTC; p goes on"
    return [("Paused".ljust(WORD_COLUMNS), f"bold {ALERT}"), (text, "")]


def _sentence(word: Freshness, reading: Reading) -> str:
    if word is Freshness.Silent:
        return _silent(reading)
    if word is Freshness.Final:
        return _final(reading)
    if reading.summary is None:
        return _waiting(reading)
    return _reported[word](reading, reading.summary)


def _live(reading: Reading, summary: Summary) -> str:
    now = milliseconds(reading.read_at)
    revision = f"revision {count(summary.revision)}"
    heard = age(silence(reading, summary))
    unchanged = now - summary.changed_at_ms
    if unchanged >= UNCHANGED_MS:
        return f"{revision}, unchanged for {age(unchanged)}; heard {heard} ago"
    return f"{revision}, {heard} ago · as of {clock(now, now)} UTC"


def _late(reading: Reading, summary: Summary) -> str:
    heard = age(silence(reading, summary))
    return f"revision {count(summary.revision)}, {heard} ago; usual at most 5 s"


def _stale(reading: Reading, summary: Summary) -> str:
    heard = age(silence(reading, summary))
    return f"revision {count(summary.revision)}, silent {heard} · {worker(reading)[1]}"


def worker(reading: Reading) -> tuple[bool, str]:
    """Return whether a worker still holds the lease, and that in words."""
    until = reading.execution.lease_expires_at
    if until is None:
        return False, "no worker holds it"
    left = milliseconds(until) - milliseconds(reading.read_at)
    if left < 0:
        return False, f"the worker's lease ended {age(-left)} ago"
    return True, f"worker alive, lease for {age(left)} more"


def _waiting(reading: Reading) -> str:
    execution = reading.execution
    now = milliseconds(reading.read_at)
    if reading.availability is DetailAvailability.CORRUPT:
        return "the stored summary is damaged and not shown"
    if execution.state is ExecutionState.QUEUED:
        return _queued(execution, now)
    if execution.state is ExecutionState.CLAIMED:
        return "a worker has claimed it; the run has not started"
    if execution.state is ExecutionState.RETRY_WAIT:
        return "the next attempt starts later"
    since = duration(now - milliseconds(execution.started_at or execution.enqueued_at))
    if execution.policy is ReportingPolicy.terminal_only:
        return f"one summary comes with the end, by policy; {since} since the start"
    if execution.policy is ReportingPolicy.disabled:
        return f"node reporting is off; {since} since the start"
    return f"no report yet, {since} since the start"


def _queued(execution: Execution, now: int) -> str:
    waited = now - milliseconds(execution.enqueued_at)
    queue = execution.queue_name
    if waited < UNCLAIMED_MS:
        return f"queued for {age(waited)}; waits for a worker on queue {queue}"
    return (
        f"no worker has claimed it for {age(waited)}. "
        f"Is `manage.py ray_worker` running for queue {queue}?"
    )


def _silent(reading: Reading) -> str:
    now = milliseconds(reading.read_at)
    return f"from the database; figures of {clock(now, now)} UTC"


def _final(reading: Reading) -> str:
    summary = reading.summary
    revision = (
        "no summary was reported"
        if summary is None
        else f"revision {count(summary.revision)}"
    )
    ended = reading.execution.finished_at
    if ended is None:
        return revision
    now, then = milliseconds(reading.read_at), milliseconds(ended)
    text = f"{revision}, ended {clock(then, now)} UTC"
    return text if now - then < 2_000 else f"{text}, {age(now - then)} ago"


_reported: dict[Freshness, Callable[[Reading, Summary], str]] = {
    Freshness.Live: _live,
    Freshness.Late: _late,
    Freshness.Stale: _stale,
}

_COMPLETENESS = {
    DetailAvailability.AVAILABLE: ("Complete", "bold"),
    DetailAvailability.TRUNCATED: ("Partial", f"bold {ALERT}"),
    DetailAvailability.NOT_REPORTED: ("Nothing", QUIET),
    DetailAvailability.OMITTED_BY_POLICY: ("Summary", "bold"),
    DetailAvailability.DISABLED: ("Off", "bold"),
    DetailAvailability.EXPIRED: ("Expired", "bold"),
    DetailAvailability.MISSING: ("Missing", f"bold {ALERT}"),
    DetailAvailability.CORRUPT: ("Damaged", f"bold {ALERT}"),
}


def complete_line(reading: Reading) -> list[Part]:
    """Say what of the run is kept, and name every reason for what is not."""
    word, style = _COMPLETENESS[reading.availability]
    if _is_growing(reading):
        word = "Growing"
    return [(word.ljust(WORD_COLUMNS), style), (_kept(reading), "")]


def _is_growing(reading: Reading) -> bool:
    """Claim that nodes are counted whose rows come with the next topology."""
    summary = reading.summary
    return (
        reading.availability is DetailAvailability.AVAILABLE
        and summary is not None
        and not summary.detail.complete
    )


def _kept(reading: Reading) -> str:
    summary, state = reading.summary, reading.availability
    if _is_growing(reading) and summary is not None:
        return f"{_nodes(summary)}, {_edges(summary)} kept so far; the rest follows"
    if state is DetailAvailability.AVAILABLE and summary is not None:
        return f"{_nodes(summary)}, {_edges(summary)} kept"
    if state is DetailAvailability.TRUNCATED and summary is not None:
        reasons = ", ".join(reason.value for reason in summary.detail.reasons)
        return f"{_nodes(summary)} kept: {reasons} · {_edges(summary)}"
    if state is DetailAvailability.NOT_REPORTED:
        yet = "" if reading.execution.has_ended else " yet"
        return f"kept{yet}: NOT_REPORTED"
    return {
        DetailAvailability.OMITTED_BY_POLICY: "only, by policy: OMITTED_BY_POLICY",
        DetailAvailability.DISABLED: "Node reporting is off: DISABLED",
        DetailAvailability.EXPIRED: "detail is gone, counts remain: EXPIRED",
        DetailAvailability.MISSING: "detail is not there, a fault: MISSING",
    }.get(state, "and not shown: CORRUPT")


def _nodes(summary: Summary) -> str:
    return f"{count(summary.retained_nodes)} of {count(summary.discovered_nodes)} nodes"


def _edges(summary: Summary) -> str:
    return f"{count(summary.retained_edges)} of {count(summary.discovered_edges)} edges"
