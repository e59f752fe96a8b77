"""Follows one execution to its end: reads, shows, waits; knows no database.

The exit status says the outcome: 0 succeeded, 1 failed, timed out or lost, 2 cancelled,
3 not ended yet. 4 is left to the command, for a run that is not there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rich.console import Console, Group
from rich.live import Live

from django_ray.errors import StorageUnavailable
from django_ray.management.terminal import frame
from django_ray.management.terminal.pace import Pace
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.plain import Told
from django_ray.management.terminal.view import View
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers.picture import Picture

INTERVAL_S = 1.0
NOT_ENDED = 3
NOT_THERE = 4

_STATUS = {
    ExecutionState.SUCCEEDED: 0,
    ExecutionState.FAILED: 1,
    ExecutionState.TIMED_OUT: 1,
    ExecutionState.LOST: 1,
    ExecutionState.CANCELLED: 2,
}


def exit_status(picture: Picture) -> int:
    """Return what a script learns of the outcome."""
    return _STATUS.get(picture.reading.execution.state, NOT_ENDED)


def follow(
    read: Callable[[], Picture | None],
    show: Callable[[Picture], None],
    wait: Callable[[], object],
) -> Picture | None:
    """Show picture after picture until the execution ended; return the last one.

    While the database does not answer, the last picture is shown, marked. None when the
    execution is not there, or is deleted meanwhile.
    """
    last: Picture | None = None
    while True:
        try:
            last = read()
        except StorageUnavailable:
            if last is None:
                raise
            last = replace(last, answered=False)
        if last is None:
            return None
        show(last)
        if last.answered and last.reading.execution.has_ended:
            return last
        wait()


@dataclass(slots=True)
class Screen:
    """Draws pictures for one terminal, whose size may change between them."""

    console: Console
    unicode: bool
    pace: Pace = field(default_factory=Pace)

    def draw(self, picture: Picture, view: View | None) -> Group:
        """Return the frame of one picture, fitted to the terminal as it is now."""
        self.pace.see(picture.reading)
        width, height = self.console.size
        pen = Pen(width, self.unicode)
        pace = self.pace.say(picture.reading)
        return Group(
            # One line is left to the cursor, so that the frame's top never scrolls off.
            *frame.compose(picture, pace, pen, height - 1, view)
        )


def live(
    screen: Screen, read: Callable[[], Picture | None], wait: Callable[[], object]
) -> Picture | None:
    """Follow in place, one redraw a reading; the last frame stays."""
    with in_place(screen.console) as shown:
        return follow(
            read, lambda one: shown.update(screen.draw(one, None), refresh=True), wait
        )


def in_place(console: Console) -> Live:
    """Return what redraws a frame where it stands."""
    return Live(
        console=console,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )


def lines(
    write: Callable[[str], object],
    read: Callable[[], Picture | None],
    wait: Callable[[], object],
    *,
    unicode: bool,
) -> Picture | None:
    """Follow in plain lines, each written as it becomes known."""
    told = Told(unicode)

    def show(picture: Picture) -> None:
        for line in told.lines(picture):
            write(line)

    return follow(read, show, wait)
