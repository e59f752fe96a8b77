"""How far a run is, in words: the percent, what it is of, and what has ended or succeeded."""

from django_ray.management.terminal import words
from django_ray.management.terminal.words import count
from django_ray.protocol.summary import Summary


def total(summary: Summary) -> int:
    """Return what the percent is of: nodes that may still come count while it runs."""
    if summary.terminal is not None:
        return summary.discovered_nodes
    return max(summary.declared_nodes, summary.discovered_nodes)


def percent(summary: Summary | None) -> str:
    """Return the percent without its sign; nothing while no node is known."""
    if summary is None or not total(summary):
        return ""
    return words.percent(summary.percent, summary.node_counts.ended).removesuffix(" %")


def whole(summary: Summary | None) -> str:
    """Return the two counts that the percent stands for; nothing without a node."""
    if summary is None or not total(summary):
        return ""
    done = summary.node_counts.ended
    if summary.terminal is not None:
        done = summary.node_counts.succeeded
    return f"{count(done)} of {count(total(summary))}"


def said(summary: Summary | None) -> str:
    """Return the words beside the counts."""
    if summary is None or (not total(summary) and summary.terminal is None):
        return "No node yet"
    if summary.terminal is None:
        return "nodes ended"
    return "nodes succeeded" if summary.discovered_nodes else "No node was registered"
