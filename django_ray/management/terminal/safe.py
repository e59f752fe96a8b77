"""The one filter everything printed passes, and cutting text to terminal columns.

Stored text was filtered before; it is filtered again here, because a terminal obeys what
it is sent: no escape sequence, no control character, no line break, nothing that reorders
or hides its neighbours.
"""

import unicodedata

from rich.cells import cell_len, set_cell_size

REFUSED = "\ufffd"
"""Stands where a character was refused, so that a removal is seen."""

_SPACES = frozenset("\t\n\r\x0b\x0c\x85\u2028\u2029")
_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_MARKS = frozenset({"Mn", "Me", "Mc"})
_MARKS_IN_A_ROW = 4

_ASCII = {
    "█": "#",
    "✓": "#",
    "✗": "X",
    "■": "C",
    "⊘": "/",
    "▸": ">",
    "◌": ":",
    "·": ".",
    "\u2013": "-",
    "─": "-",
    "…": "~",
    "╌": "-",
    "→": ">",
    "↑": "^",
    "↓": "v",
    "▏": "_",
    "«": "'",
    "»": "'",
}
_TO_ASCII = str.maketrans(_ASCII)


def clean(value: str) -> str:
    """Return `value` as one line that no terminal can obey."""
    if value.isascii() and value.isprintable():
        return value
    marks = 0
    kept: list[str] = []
    for character in value:
        category = unicodedata.category(character)
        # A pile of combining marks would paint over the lines around it.
        marks = marks + 1 if category in _MARKS else 0
        if character in _SPACES or category == "Zs":
            kept.append(" ")
        elif category in _CATEGORIES or marks > _MARKS_IN_A_ROW:
            kept.append(REFUSED)
        else:
            kept.append(character)
    return "".join(kept)


def narrow(value: str) -> str:
    """Return `value` in ASCII, the shapes of states as their letters."""
    return value.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")


def fit(value: str, columns: int) -> str:
    """Cut `value` to at most `columns`, the end replaced by a mark."""
    if cell_len(value) <= columns:
        return value
    if columns < 1:
        return ""
    return set_cell_size(value, columns - 1).rstrip() + "…"


def middle(value: str, columns: int) -> str:
    """Cut `value` in its middle: ids tell apart by both of their ends."""
    if cell_len(value) <= columns or columns < 5:
        return fit(value, columns)
    tail = (columns - 1) // 2
    end = ""
    for character in reversed(value):
        if cell_len(character + end) > tail:
            break
        end = character + end
    start = set_cell_size(value, columns - 1 - cell_len(end))
    return f"{start}…{end}"


def column(value: str, columns: int, *, right: bool = False) -> str:
    """Set `value` to exactly `columns`, at the left or at the right."""
    cut = middle(clean(value), columns)
    space = " " * (columns - cell_len(cut))
    return space + cut if right else cut + space


def cells(value: str) -> int:
    """Return how many columns `value` takes."""
    return cell_len(value)
