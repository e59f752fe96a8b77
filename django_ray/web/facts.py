"""The four facts beside the percent: each a value with what it is based on.

A number without its basis is not shown, and what cannot be known is said in words.
"""

from dataclasses import dataclass

from django_ray.management.terminal import left, words
from django_ray.management.terminal.status import Freshness
from django_ray.management.terminal.words import NONE, clock, count, duration
from django_ray.protocol.summary import Summary
from django_ray.readers.picture import Reading
from django_ray.web import statusline


@dataclass(frozen=True, slots=True)
class Fact:
    """A label, a value with its unit, and the basis of it."""

    key: str
    label: str
    value: str
    unit: str
    basis: str


def compose(reading: Reading) -> tuple[Fact, ...]:
    """Return four facts while the run is active, three once it has ended."""
    summary = reading.summary
    if reading.execution.has_ended:
        return (
            _took(reading),
            _ended(
                "failed",
                "Failed",
                None if summary is None else summary.node_counts.failed,
            ),
            _ended(
                "skipped",
                "Skipped",
                None if summary is None else summary.node_counts.skipped,
            ),
        )
    stale = statusline.freshness(reading) is Freshness.Stale
    return (
        _elapsed(reading),
        _rate(summary, stale=stale),
        _left(summary, stale=stale),
        _running(summary, stale=stale),
    )


def _took(reading: Reading) -> Fact:
    execution = reading.execution
    begun, ended = execution.started_at, execution.finished_at
    if begun is None or ended is None:
        return Fact("elapsed", "Took", NONE, "", "it never started")
    first, last = words.milliseconds(begun), words.milliseconds(ended)
    now = words.milliseconds(reading.read_at)
    basis = f"{clock(first, now)} to {clock(last, first)}"
    return Fact("elapsed", "Took", duration(last - first), "", basis)


def _ended(key: str, label: str, number: int | None) -> Fact:
    if number is None:
        return Fact(key, label, NONE, "", "not reported")
    return Fact(
        key, label, count(number), "node" if number == 1 else "nodes", "of those seen"
    )


def _elapsed(reading: Reading) -> Fact:
    begun = reading.execution.started_at
    if begun is None:
        return Fact("elapsed", "Elapsed", NONE, "", "not started")
    first, now = words.milliseconds(begun), words.milliseconds(reading.read_at)
    return Fact(
        "elapsed", "Elapsed", duration(now - first), "", f"since {clock(first, now)}"
    )


def _rate(summary: Summary | None, *, stale: bool) -> Fact:
    if stale:
        return Fact("rate", "Rate", NONE, "", "no report to count from")
    minutes = left.full_minutes(summary)
    if not minutes:
        return Fact("rate", "Rate", NONE, "", "needs a full minute")
    return Fact(
        "rate", "Rate", count(minutes[-1]), "a minute", "ended, last full minute"
    )


def _left(summary: Summary | None, *, stale: bool) -> Fact:
    if stale:
        return Fact("left", "Left", NONE, "", "not estimated while stale")
    found = left.estimate(summary)
    if isinstance(found, str):
        return Fact("left", "Left", NONE, "", found)
    return Fact("left", "Left", str(found), "min", f"from the last {found.minutes} min")


def _running(summary: Summary | None, *, stale: bool) -> Fact:
    if summary is None:
        return Fact("running", "Running now", NONE, "", "not known yet")
    hosts = words.count(summary.hosts)
    seen = "1 host seen" if summary.hosts == 1 else f"{hosts} hosts seen"
    label, basis = "Running now", seen if summary.hosts else "no host named yet"
    if stale:
        label, basis = "Running then", "as of the last report"
    number = summary.node_counts.running
    return Fact(
        "running", label, count(number), "node" if number == 1 else "nodes", basis
    )
