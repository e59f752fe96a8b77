"""How far a run is, in words: the percent, what it is of, and what has ended or succeeded."""

from django_ray.management.terminal import words
from django_ray.management.terminal.words import count
from django_ray.protocol.summary import Summary, share


def total(summary: Summary) -> int:
    """Return what the percent is of: nodes that may still come count while it runs."""
    return share(summary)[1]


def percent(summary: Summary | None) -> str:
    """Return the percent without its sign; nothing while no node is known."""
    done, of = (0, 0) if summary is None else share(summary)
    if summary is None or not of:
        return ""
    return words.percent(summary.percent, done).removesuffix(" %")


def whole(summary: Summary | None) -> str:
    """Return the two counts that the percent stands for; nothing without a node."""
    done, of = (0, 0) if summary is None else share(summary)
    return f"{count(done)} of {count(of)}" if of else ""


def said(summary: Summary | None) -> str:
    """Return the words beside the counts."""
    if summary is None or (not total(summary) and summary.terminal is None):
        return "No node yet"
    if summary.terminal is None:
        return "nodes ended"
    return "nodes succeeded" if summary.discovered_nodes else "No node was registered"
