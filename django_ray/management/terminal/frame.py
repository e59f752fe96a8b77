"""One whole frame: who, how fresh, how complete; how far; what is wrong; stages; longest.

From 60 columns by 15 lines upwards. Where lines are short the list of nodes goes first,
then stage rows; where columns are, P50 and P95, then the stage bars.
"""

from rich.text import Text

from django_ray.management.terminal import attention, head, table
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.shapes import QUIET
from django_ray.readers.picture import Picture

ROOMY = 22
"""From this many lines on, panels are parted by blank lines."""
WITH_NODES = 26
"""From this many lines on, the nodes that run longest are listed."""

FOOT = "Ctrl-C leaves, the run goes on"


def compose(picture: Picture, pace: str, pen: Pen, height: int) -> list[Text]:
    """Return the lines of one frame: at most `height`, none wider than the pen."""
    roomy = height >= ROOMY
    blank = [pen.line()] if roomy else []
    lines = head.compose(picture, pace, pen)
    if roomy:
        lines.insert(3, pen.line())
    lines += [pen.rule(), *attention.compose(picture, pen, 4 if roomy else 2)]
    foot = _foot(picture, pen) if roomy else []
    nodes: list[Text] = []
    if height >= WITH_NODES:
        nodes = table.running(picture, pen, 4 if height < 40 else 7)
    rest = (blank + nodes if nodes else []) + (blank + foot if foot else [])
    room = height - len(lines) - len(rest) - len(blank)
    stages = table.stages(picture, pen, room)
    lines += (blank + stages if stages else []) + rest
    return lines[:height]


def _foot(picture: Picture, pen: Pen) -> list[Text]:
    if picture.reading.execution.has_ended:
        return []
    return [pen.line((FOOT.ljust(max(pen.width - 10, 0)), QUIET), ("every 1 s", QUIET))]
