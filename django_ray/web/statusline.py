"""The line that never scrolls away: how fresh the figures are, and how complete."""

from dataclasses import dataclass

from django_ray.management.terminal import status, words
from django_ray.management.terminal.status import Freshness
from django_ray.management.terminal.words import age, clock, count
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.picture import Picture, Reading
from django_ray.web import marks


@dataclass(frozen=True, slots=True)
class Said:
    """A mark, one bold word or sentence, its continuation, and an exact code."""

    symbol: str
    tone: str
    word: str
    text: str
    code: str = ""


def freshness(reading: Reading) -> Freshness:
    """Return the one word that holds for this reading."""
    return status.freshness(Picture(reading=reading))


def fresh(reading: Reading) -> Said:
    """Say how fresh the figures are."""
    word = freshness(reading)
    symbol, tone = marks.FRESHNESS[word]
    said = "Waiting for the first report" if word is Freshness.Waiting else word.value
    return Said(symbol, tone, said, _fresh(word, reading))


def _fresh(word: Freshness, reading: Reading) -> str:
    summary = reading.summary
    now = words.milliseconds(reading.read_at)
    if word is Freshness.Final:
        return _final(reading, now)
    if summary is None:
        return "no revision yet"
    revision = f"revision {count(summary.revision)}"
    heard = age(status.silence(reading, summary))
    if word is Freshness.Stale:
        return f"{revision}, {heard} ago; reports usually come every 5 s or sooner"
    if word is Freshness.Late:
        return f"{revision}, {heard} ago; usual at most 5 s"
    unchanged = now - summary.changed_at_ms
    if unchanged >= status.UNCHANGED_MS:
        return f"{revision}, unchanged for {age(unchanged)}; heard {heard} ago"
    return f"{revision}, {heard} ago"


def _final(reading: Reading, now: int) -> str:
    summary, ended = reading.summary, reading.execution.finished_at
    revision = (
        "no summary was reported"
        if summary is None
        else f"revision {count(summary.revision)}"
    )
    if ended is None:
        return revision
    then = words.milliseconds(ended)
    return f"{revision}, ended {clock(then, now)}, {age(now - then)} ago"


def complete(reading: Reading) -> Said:
    """Say what of the run is kept, and name every reason for what is not."""
    state, summary = reading.availability, reading.summary
    symbol, tone = marks.COMPLETENESS[state]
    if state is DetailAvailability.AVAILABLE and summary is not None:
        if summary.detail.complete:
            return Said(symbol, tone, "Complete", f"· {_kept(summary)}")
        return Said("half", "plain", "Growing", f"· {_kept(summary)}; the rest follows")
    if state is DetailAvailability.TRUNCATED and summary is not None:
        reasons = ", ".join(summary.detail.reasons)
        nodes = f"· {_of(summary.retained_nodes, summary.discovered_nodes)} nodes kept:"
        return Said(symbol, tone, "Partial", nodes, reasons)
    word, text = _ABSENT[state]
    if state is DetailAvailability.EXPIRED and summary is not None:
        text = _expired(summary)
    if state is DetailAvailability.NOT_REPORTED and not reading.execution.has_ended:
        word = f"{word} yet"
    return Said(symbol, tone, word, f"{text} ·".lstrip(), state)


_ABSENT = {
    DetailAvailability.AVAILABLE: ("Complete", ""),
    DetailAvailability.TRUNCATED: ("Partial", ""),
    DetailAvailability.NOT_REPORTED: ("Nothing kept", ""),
    DetailAvailability.OMITTED_BY_POLICY: ("Summary only", "by policy"),
    DetailAvailability.DISABLED: ("Node reporting is off", ""),
    DetailAvailability.EXPIRED: ("Detail expired", "counts remain"),
    DetailAvailability.MISSING: ("Detail missing", "a fault"),
    DetailAvailability.CORRUPT: ("Detail damaged", "not shown"),
}


def _expired(summary: Summary) -> str:
    if summary.expires_at_ms is None:
        return "counts remain"
    day = words.moment(summary.expires_at_ms)
    return f"on {day.day} {day:%b}; counts remain"


def _kept(summary: Summary) -> str:
    nodes = _of(summary.retained_nodes, summary.discovered_nodes)
    edges = _of(summary.retained_edges, summary.discovered_edges)
    return f"{nodes} nodes and {edges} edges kept"


def _of(part: int, whole: int) -> str:
    return f"{count(part)} of {count(whole)}"
