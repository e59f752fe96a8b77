"""What a closer look shows below the head: causes of failures, all stages, or nodes."""

from rich.text import Text

from django_ray.management.terminal import safe, shapes, table, words
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.shapes import ALERT, QUIET, Part
from django_ray.management.terminal.view import Pane, View, window
from django_ray.management.terminal.words import count
from django_ray.protocol.vocabulary import NodeState
from django_ray.readers.picture import Cause, Closer, Kept, Picture

EXAMPLES = 3
"""So many nodes stand under the chosen cause before it is opened."""
NUMBER = 5


def last(picture: Picture, view: View) -> int:
    """Return the furthest to scroll to: the last cause, or the last line at the top."""
    found = picture.closer or Closer()
    match view.pane:
        case Pane.failures if view.opened is not None:
            return len(_opened(found, view).nodes) - 1
        case Pane.failures:
            return len(found.causes) - 1
        case Pane.stages:
            return len(table.matching(picture.stages, view.filter)) - 1
        case Pane.nodes:
            return len(found.nodes) - 1
        case Pane.run:
            return 0


def compose(picture: Picture, view: View, pen: Pen, room: int) -> list[Text]:
    """Return a heading and what it is of, within `room` lines."""
    match view.pane:
        case Pane.failures:
            lines = _failures(picture, view, pen, room)
        case Pane.stages:
            lines = table.every(picture, pen, room, view.at, view.filter)
        case _:
            lines = _nodes(picture, view, pen, room)
    return lines[:room]


def _failures(picture: Picture, view: View, pen: Pen, room: int) -> list[Text]:
    summary, found = picture.reading.summary, picture.closer
    failed = summary.node_counts.failed if summary is not None else 0
    if not failed:
        return [pen.line(("FAILURES  ", QUIET), ("Nothing failed.", ""))]
    if found is None or not found.causes:
        said = f"{count(failed)}, counted; none of them is kept with detail"
        return [pen.line((f"FAILURES  {said}", QUIET))]
    heading = pen.line((f"FAILURES  {_kept_said(failed, found)}", QUIET))
    labels = {stage.index: stage.label for stage in picture.stages}
    now = words.milliseconds(picture.reading.read_at)
    if view.opened is not None:
        cause = _opened(found, view)
        nodes, more = window(cause.nodes, view.at, room - 2)
        rows = [_cause(cause, labels), *(_example(n, now, pen.width) for n in nodes)]
        return [heading, *(pen.line(*row) for row in _ended(rows, more))]
    return [heading, *_causes(found, view, labels, pen, room - 1, now)]


def _kept_said(failed: int, found: Closer) -> str:
    """Say how many failures are grouped here, and how many are not."""
    examined = sum(len(cause.nodes) for cause in found.causes)
    number = len(found.causes)
    causes = "1 cause" if number == 1 else f"{count(number)} causes"
    if found.more:
        return f"{count(failed)}; the first {count(examined)} in {causes}"
    if examined < failed:
        rest = count(failed - examined)
        return f"{count(examined)} of {count(failed)} kept, in {causes}; {rest} counted only"
    return f"{count(failed)} in {causes}, all kept with detail"


def _causes(
    found: Closer,
    view: View,
    labels: dict[int, str],
    pen: Pen,
    room: int,
    now_ms: int,
) -> list[Text]:
    """Return the causes around the chosen one, which shows its newest nodes."""
    chosen = min(view.at, len(found.causes) - 1)
    nodes = found.causes[chosen].nodes
    under = [_example(node, now_ms, pen.width) for node in nodes[:EXAMPLES]]
    if len(nodes) > EXAMPLES:
        more = (
            f"{'':{NUMBER + 2}}{count(len(nodes) - EXAMPLES)} more: → opens the cause"
        )
        under.append([(more, QUIET)])
    first = max(chosen + 2 + len(under) - room, 0)
    lines: list[list[Part]] = []
    for at, cause in enumerate(found.causes[first:], start=first):
        lines.append(_cause(cause, labels))
        if at == chosen:
            lines += under
    shown, below = window(lines, 0, room)
    return [pen.line(*line) for line in _ended(list(shown), below)]


def _ended(lines: list[list[Part]], more: str) -> list[list[Part]]:
    return [*lines, [(more, QUIET)]] if more else lines


def _opened(found: Closer, view: View) -> Cause:
    """Return the opened cause; another run may have fewer, or none."""
    at = view.opened or 0
    if at < len(found.causes):
        return found.causes[at]
    return Cause(kind="", text="No failure of this cause is kept any more.", nodes=())


def _cause(cause: Cause, labels: dict[int, str]) -> list[Part]:
    places = dict.fromkeys(labels.get(node.stage, "") for node in cause.nodes)
    stages = [label.rpartition(".")[2] for label in places if label]
    place = stages[0] + (" and others" if len(stages) > 1 else "") if stages else ""
    said = ": ".join(part for part in (cause.kind, cause.text) if part)
    number = count(len(cause.nodes)).rjust(NUMBER)
    return [(f"{number}  ", "bold"), (f"{place}  " if place else "", ""), (said, "red")]


def _example(node: Kept, now_ms: int, width: int) -> list[Part]:
    ended = words.NONE if node.ended_ms is None else words.clock(node.ended_ms, now_ms)
    facts = (f"try {count(node.try_)}", _ran(node, now_ms), node.host)
    name = safe.column(node.node_id, max(width // 3, 12))
    return [(" " * (NUMBER + 2), ""), (f"{ended}  {name}  {'  '.join(facts)}", "")]


def _ran(node: Kept, now_ms: int) -> str:
    until = now_ms if node.state is NodeState.RUNNING else node.ended_ms
    if node.started_ms is None or until is None:
        return words.NONE
    return words.duration(max(until - node.started_ms, 0))


def _nodes(picture: Picture, view: View, pen: Pen, room: int) -> list[Text]:
    found, summary = picture.closer, picture.reading.summary
    if found is None or summary is None:
        return [pen.line(("NODES  ", QUIET), ("No node of this run is kept.", ""))]
    kept = count(summary.retained_nodes)
    said = f"{count(len(found.nodes))} of {kept} kept, first registered first"
    if not found.nodes and view.filter:
        said = f"No kept node begins with «{view.filter}»"
    elif found.more:
        said = f"the first {said}; / finds others"
    now = words.milliseconds(picture.reading.read_at)
    shown, more = window(found.nodes, view.at, room - 1)
    name = max(pen.width // 3, 12)
    rows = [_node(node, now, name) for node in shown]
    return [
        pen.line((f"NODES  {said}", ALERT if not found.nodes else QUIET)),
        *(pen.line(*row) for row in _ended(rows, more)),
    ]


def _node(node: Kept, now_ms: int, name: int) -> list[Part]:
    shape = shapes.OF[node.state]
    return [
        (f"{shape.mark} {node.state.lower():<10}", shape.style),
        (safe.column(node.node_id, name), ""),
        (_ran(node, now_ms).rjust(9) + "  ", ""),
        (safe.column(node.host, 15) + " ", QUIET),
        (node.said, "red" if node.state is NodeState.FAILED else ""),
    ]
