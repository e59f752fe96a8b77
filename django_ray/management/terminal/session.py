"""Follows one execution with somebody at the keys; knows neither database nor terminal.

It reads once a second, and at a key that asks for something else; it never reads while it
is paused. It ends with the execution where the run as a whole is shown, else when it is
left.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from django_ray.errors import StorageUnavailable
from django_ray.management.terminal import panes
from django_ray.management.terminal.view import Pane, View, press
from django_ray.readers.closer import Causes, Look, Nodes
from django_ray.readers.picture import Picture


def look(view: View) -> Look | None:
    """Return what a view needs to be read besides the picture."""
    match view.pane:
        case Pane.failures:
            return Causes()
        case Pane.nodes:
            return Nodes(view.filter)
        case _:
            return None


@dataclass(slots=True)
class Session:
    """One watch: `wait` gives the keys that were pressed within so many seconds."""

    read: Callable[[Look | None], Picture | None]
    show: Callable[[Picture, View], object]
    wait: Callable[[float], list[str]]
    now: Callable[[], float]
    interval: float
    view: View = field(default_factory=View)

    def follow(self) -> Picture | None:
        """Show picture after picture until the end; return the last one, None: not there.

        While the database does not answer, the last picture is shown, marked.
        """
        last: Picture | None = None
        while True:
            last = self._next(last)
            if last is None:
                return None
            self.show(last, self.view)
            if not self._go_on(last):
                return last

    def _next(self, last: Picture | None) -> Picture | None:
        try:
            return self.read(look(self.view))
        except StorageUnavailable:
            if last is None:
                raise
            return replace(last, answered=False)

    def _go_on(self, last: Picture) -> bool:
        """Take keys until something is to be read, or claim that the watch is over."""
        due, asked = self.now() + self.interval, look(self.view)
        while not self._is_over(last):
            rest = due - self.now()
            is_due = rest <= 0 and not self.view.is_paused and _may_differ(last)
            if is_due or look(self.view) != asked:
                return True
            self._take(last, rest if rest > 0 else self.interval)
        return False

    def _is_over(self, last: Picture) -> bool:
        at_rest = self.view.pane is Pane.run and not self.view.is_paused
        return self.view.is_left or (at_rest and not _may_differ(last))

    def _take(self, last: Picture, seconds: float) -> None:
        keys = self.wait(seconds)
        for key in keys:
            self.view = press(self.view, key, panes.last(last, self.view))
        if keys:
            self.show(last, self.view)


def _may_differ(last: Picture) -> bool:
    """Claim that another reading may say something else: nothing follows an end."""
    return not (last.answered and last.reading.execution.has_ended)
