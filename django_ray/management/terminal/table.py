"""The stages, failed first, and the nodes that run longest."""

from dataclasses import dataclass

from rich.text import Text

from django_ray.management.terminal import safe, shapes, words
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.shapes import QUIET, Part
from django_ray.management.terminal.view import window
from django_ray.management.terminal.words import count
from django_ray.protocol.vocabulary import NodeState
from django_ray.readers.picture import Picture, Running, Stage

BAR = 20
NAME = 48
ALL_COLUMNS = 92
"""Narrower than this, P50 and P95 go."""
BAR_COLUMNS = 76
"""Narrower than this, the bars go too."""

_RANK = {NodeState.FAILED: 0, NodeState.RUNNING: 1, NodeState.SUBMITTED: 1}
_FINISHED = (NodeState.SUCCEEDED, NodeState.CANCELLED, NodeState.SKIPPED)


def stages(picture: Picture, pen: Pen, room: int) -> list[Text]:
    """Return a heading, rows, and one line for what has no row, within `room` lines."""
    if not picture.stages or room < 3:
        return []
    active, finished, ahead = _sorted(picture.stages)
    listed = active
    if picture.reading.execution.has_ended:
        listed, finished = [*active, *finished], []
    fits = room - 1
    if len(listed) > fits or finished or ahead:
        fits -= 1
    rows, more = listed[:fits], listed[fits:]
    widths = _widths(rows, pen.width)
    longest = _longest(picture)
    lines = [pen.line((_heading(widths), QUIET))]
    lines += [
        pen.line(*_row(stage, widths, longest.get(stage.index))) for stage in rows
    ]
    folded = _folded(more, finished, ahead, picture.reading.execution.has_ended)
    return [*lines, pen.line((f"  {folded}", ""))] if folded else lines


def every(picture: Picture, pen: Pen, room: int, at: int, filter: str) -> list[Text]:
    """Return a heading and all stages whose label holds a text, from one on."""
    found = matching(picture.stages, filter)
    if not found:
        said = f"No stage holds «{filter}»." if picture.stages else "No stage is kept."
        return [pen.line(("STAGES  ", QUIET), (said, ""))]
    rows, more = window(found, at, room - 1)
    widths = _widths(found, pen.width)
    longest = _longest(picture)
    lines = [
        pen.line((_heading(widths), QUIET)),
        *(pen.line(*_row(stage, widths, longest.get(stage.index))) for stage in rows),
    ]
    return [*lines, pen.line((more, QUIET))] if more else lines


def matching(found: tuple[Stage, ...], filter: str) -> list[Stage]:
    """Return the stages whose label holds a text, whatever its case, in their order."""
    active, finished, ahead = _sorted(found)
    asked = filter.casefold()
    return [
        stage
        for stage in (*active, *finished, *ahead)
        if asked in stage.label.casefold()
    ]


def _sorted(found: tuple[Stage, ...]) -> tuple[list[Stage], list[Stage], list[Stage]]:
    """Return active ones (failed, then running, then by start), finished, not begun."""
    active: list[Stage] = []
    finished: list[Stage] = []
    ahead: list[Stage] = []
    for stage in sorted(found, key=_by_start):
        state = shapes.stage_state(stage.counts)
        if state in _FINISHED:
            finished.append(stage)
        elif state is NodeState.PENDING and not stage.counts.ended:
            ahead.append(stage)
        else:
            active.append(stage)
    active.sort(key=lambda stage: _RANK.get(shapes.stage_state(stage.counts), 2))
    return active, finished, ahead


def _by_start(stage: Stage) -> tuple[bool, int, int]:
    start = stage.first_start_ms
    return start is None, start or 0, stage.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """The columns of one table: sized for its widest row, dropped where it is narrow."""

    name: int
    bar: int
    ended: int
    number: int
    quantiles: int


def _widths(rows: list[Stage], width: int) -> Widths:
    ended = _widest([_ended(stage) for stage in rows], 10) + 2
    numbers = [(stage.counts.running, stage.counts.failed) for stage in rows]
    number = _widest([count(max(pair)) for pair in numbers], 4) + 2
    bar = BAR if width >= BAR_COLUMNS else 0
    quantiles = 8 if width >= ALL_COLUMNS else 0
    name = width - 3 - bar - ended - 2 * number - 2 * quantiles - 10
    return Widths(
        name=max(min(name, NAME), 8),
        bar=bar,
        ended=ended,
        number=number,
        quantiles=quantiles,
    )


def _widest(values: list[str], least: int) -> int:
    return max([least, *(len(value) for value in values)])


def _ended(stage: Stage) -> str:
    return f"{count(stage.counts.ended)} of {count(stage.counts.total)}"


def _heading(widths: Widths) -> str:
    quantiles = "P50".rjust(widths.quantiles) + "P95".rjust(widths.quantiles)
    return (
        "STAGE".ljust(2 + widths.name + 1 + widths.bar)
        + "ENDED".rjust(widths.ended)
        + "RUN".rjust(widths.number)
        + "FAIL".rjust(widths.number)
        + (quantiles if widths.quantiles else "")
        + "LONGEST".rjust(10)
    )


def _row(stage: Stage, widths: Widths, longest_ms: int | None) -> list[Part]:
    counts = stage.counts
    shape = shapes.OF[shapes.stage_state(counts)]
    parts: list[Part] = [
        (f"{shape.mark} ", shape.style),
        (safe.column(stage.label, widths.name) + " ", ""),
    ]
    if widths.bar:
        parts += shapes.bar(counts, counts.total, widths.bar)
    parts += [
        (_ended(stage).rjust(widths.ended), ""),
        (_number(counts.running).rjust(widths.number), ""),
        (_number(counts.failed).rjust(widths.number), "red" if counts.failed else ""),
    ]
    if widths.quantiles:
        for value in (stage.p50_ms, stage.p95_ms):
            parts.append((words.duration(value).rjust(widths.quantiles), ""))
    return [*parts, (words.duration(longest_ms).rjust(10), "")]


def _number(value: int) -> str:
    return count(value) if value else words.NONE


def _longest(picture: Picture) -> dict[int, int | None]:
    """Return, by stage, the longest at work; once the run ended, the longest of all."""
    if picture.reading.execution.has_ended:
        return {stage.index: stage.longest_ms for stage in picture.stages}
    now = words.milliseconds(picture.reading.read_at)
    longest: dict[int, int | None] = {}
    # The longest comes first, so backwards the longest is written last.
    for node in reversed(picture.running):
        longest[node.stage] = max(now - node.started_ms, 0)
    return longest


def _folded(
    more: list[Stage], finished: list[Stage], ahead: list[Stage], ended: bool
) -> str:
    parts: list[str] = []
    if more:
        parts.append(f"{count(len(more))} more" + ("" if ended else " under way"))
    if finished:
        parts.append(f"{count(len(finished))} finished, {_ends(finished)}")
    if ahead:
        nodes = words.nodes(sum(stage.counts.total for stage in ahead))
        parts.append(f"{count(len(ahead))} not started, {nodes}")
    return " · ".join(parts)


def _ends(finished: list[Stage]) -> str:
    nodes = sum(stage.counts.total for stage in finished)
    well = sum(stage.counts.succeeded for stage in finished)
    if well == nodes:
        return f"all {words.nodes(nodes)} succeeded"
    return f"{count(well)} of {words.nodes(nodes)} succeeded"


def running(picture: Picture, pen: Pen, room: int) -> list[Text]:
    """Return a heading and the nodes at work, longest first, within `room` lines."""
    if not picture.running or room < 2 or picture.reading.execution.has_ended:
        return []
    now = words.milliseconds(picture.reading.read_at)
    name = max(min(pen.width // 3, NAME), 12)
    return [
        pen.line(("RUNNING, LONGEST FIRST", QUIET)),
        *(pen.line(*_node(node, now, name)) for node in picture.running[: room - 1]),
    ]


def _node(node: Running, now_ms: int, name: int) -> list[Part]:
    shape = shapes.OF[NodeState.RUNNING]
    ran = words.duration(max(now_ms - node.started_ms, 0))
    return [
        (f"{shape.mark} ", shape.style),
        (safe.column(node.node_id, name), ""),
        (ran.rjust(9) + "  ", ""),
        (safe.column(node.host, 15) + " ", QUIET),
        (report(node), ""),
    ]


def report(node: Running) -> str:
    """Return the node's last report: its message, and how far it is."""
    far = ""
    if node.current is not None and node.total is not None:
        far = f"{node.current:,g} of {node.total:,g}"
    elif node.current is not None:
        far = f"{node.current:,g}"
    return ", ".join(part for part in (node.message, far) if part)
