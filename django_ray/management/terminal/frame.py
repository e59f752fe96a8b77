"""One whole frame: who, how fresh, how complete; how far; what is wrong; stages; longest.

Below the head a closer look takes the place of the rest. From 60 columns by 15 lines upwards. Where lines are short the list of nodes goes first,
then stage rows; where columns are, P50 and P95, then the stage bars.
"""

from rich.text import Text

from django_ray.management.terminal import attention, head, panes, status, table
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.shapes import QUIET
from django_ray.management.terminal.view import HINTS, Pane, View
from django_ray.readers.picture import Picture

ROOMY = 22
"""From this many lines on, panels are parted by blank lines."""
WITH_NODES = 26
"""From this many lines on, the nodes that run longest are listed."""

FOOT = "Ctrl-C leaves, the run goes on"


def compose(
    picture: Picture, pace: str, pen: Pen, height: int, view: View | None
) -> list[Text]:
    """Return the lines of one frame: at most `height`, none wider than the pen.

    Without a view the run as a whole is shown, and nobody presses keys.
    """
    if view is not None and view.pane is not Pane.run:
        return _closer(picture, pace, pen, height, view)
    roomy = height >= ROOMY
    blank = [pen.line()] if roomy else []
    lines = _head(picture, pace, pen, view)
    if roomy:
        lines.insert(3, pen.line())
    lines += [pen.rule(), *attention.compose(picture, pen, 4 if roomy else 2)]
    foot = _foot(picture, pen, view) if roomy or view is not None else []
    nodes: list[Text] = []
    if height >= WITH_NODES:
        nodes = table.running(picture, pen, 4 if height < 40 else 7)
    rest = (blank + nodes if nodes else []) + (blank + foot if foot else [])
    room = height - len(lines) - len(rest) - len(blank)
    stages = table.stages(picture, pen, room)
    lines += (blank + stages if stages else []) + rest
    return lines[:height]


def _closer(
    picture: Picture, pace: str, pen: Pen, height: int, view: View
) -> list[Text]:
    """Return the head's first lines and one pane; the foot stays where it is."""
    roomy = height >= ROOMY
    lines = _head(picture, pace, pen, view)[:4]
    if roomy:
        lines.insert(3, pen.line())
    lines.append(pen.rule())
    foot = _foot(picture, pen, view)
    room = height - len(lines) - len(foot) - 1
    lines += panes.compose(picture, view, pen, room)
    if foot:
        lines += [pen.line()] * (height - len(lines) - len(foot))
    return [*lines, *foot]


def _head(picture: Picture, pace: str, pen: Pen, view: View | None) -> list[Text]:
    lines = head.compose(picture, pace, pen)
    if view is not None and view.is_paused:
        lines[1] = pen.line(*status.paused_line(picture.reading))
    return lines


def _foot(picture: Picture, pen: Pen, view: View | None) -> list[Text]:
    if view is None:
        if picture.reading.execution.has_ended:
            return []
        return [_footer(pen, FOOT, "every 1 s")]
    if not view.has_keys:
        return []
    if view.is_typing:
        return [
            pen.line((f"/{view.filter}", "bold"), ("▏  Enter keeps, Esc clears", QUIET))
        ]
    hints = "   ".join(f"{hint.key} {hint.does}" for hint in HINTS)
    if view.filter:
        hints = f"/{view.filter}   Esc clears   q quit"
    ended = picture.reading.execution.has_ended
    return [_footer(pen, hints, "" if ended or view.is_paused else "every 1 s")]


def _footer(pen: Pen, left: str, right: str) -> Text:
    return pen.line((left.ljust(max(pen.width - 10, 0)), QUIET), (right, QUIET))
