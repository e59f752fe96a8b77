"""What of a run is looked at, and what each key changes of it.

A pane is the run as a whole, its failures by cause, its stages or its nodes. Nothing here
reads or draws: a key and a view give the next view.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

FILTER_CHARACTERS = 64
PAGE = 10


class Pane(StrEnum):
    """What is below the head."""

    run = "run"
    failures = "failures"
    stages = "stages"
    nodes = "nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Where somebody is: `at` is the chosen cause or the first line that is shown.

    `opened` is the cause whose nodes are listed. What is looked at anew is read anew, so
    no other pane is paused. `has_keys` is false where nobody can press any; `is_left`
    ends the watch.
    """

    pane: Pane = Pane.run
    at: int = 0
    opened: int | None = None
    filter: str = ""
    is_typing: bool = False
    is_paused: bool = False
    is_left: bool = False
    has_keys: bool = True


class Hint(NamedTuple):
    """A key and what it does."""

    key: str
    does: str


HINTS = (
    Hint("f", "failures"),
    Hint("s", "stages"),
    Hint("n", "nodes"),
    Hint("/", "filter"),
    Hint("↑↓", "scroll"),
    Hint("p", "pause"),
    Hint("q", "quit"),
)

_PANES = {"f": Pane.failures, "s": Pane.stages, "n": Pane.nodes}
_STEPS = {"up": -1, "down": 1, "k": -1, "j": 1, "page up": -PAGE, "page down": PAGE}


def window[T](items: Sequence[T], at: int, room: int) -> tuple[Sequence[T], str]:
    """Return what fits from `at` on, and a line that says how much more is below."""
    rest = items[at:]
    if len(rest) <= room:
        return rest, ""
    shown = rest[: max(room - 1, 0)]
    return shown, f"  {len(rest) - len(shown):,} more below"


def press(view: View, key: str, last: int) -> View:
    """Return the view after a key; `last` is the furthest there is to scroll to."""
    if view.is_typing:
        return _typed(view, key)
    if key in _PANES:
        pane = Pane.run if view.pane is _PANES[key] else _PANES[key]
        return View(pane=pane)
    if key in _STEPS:
        return replace(view, at=min(max(view.at + _STEPS[key], 0), max(last, 0)))
    match key:
        case "q":
            return replace(view, is_left=True)
        case "p":
            return replace(view, is_paused=not view.is_paused)
        case "/":
            pane = Pane.stages if view.pane is Pane.stages else Pane.nodes
            return View(pane=pane, is_typing=True)
        case "right" | "enter" if view.pane is Pane.failures and view.opened is None:
            return replace(view, opened=view.at, at=0)
        case "left" | "escape" if view.opened is not None:
            return replace(view, opened=None, at=view.opened)
        case "escape":
            return View()
    return view


def _typed(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, is_typing=False)
        case "escape":
            return replace(view, is_typing=False, filter="", at=0)
        case "backspace":
            return replace(view, filter=view.filter[:-1], at=0)
    if len(key) != 1 or not key.isprintable():
        return view
    return replace(view, filter=(view.filter + key)[:FILTER_CHARACTERS], at=0)
