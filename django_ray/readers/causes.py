"""Failures that look alike are one cause: class, and text with its particulars folded.

Numbers, ids, paths and quoted names differ from node to node and say nothing of the cause.
"""

import re

HEX = r"\b(?:0x)?(?=[0-9a-f-]*[0-9])[0-9a-f]{8}[0-9a-f-]*\b"
PATH = r"(?:[A-Za-z]:)?(?:[\w.~-]*[/\\])+[\w.~-]*"
NUMBER = r"[-+]?\b\d[\d,._]*(?:e[-+]?\d+)?"

_particulars = re.compile(
    f"(?P<path>{PATH})|(?P<id>{HEX})|(?P<number>{NUMBER})", re.IGNORECASE
)
_marks = {"path": "[path]", "id": "[id]", "number": "#"}

READ = 512
"""So many characters of a text tell its cause; the rest is of the one node."""


def fold(text: str) -> str:
    """Return a text's first line with what is particular replaced by a mark.

    Only the first READ characters are looked at, whatever the text.
    """
    line = text[:READ].partition("\n")[0].strip()
    return _particulars.sub(_mark, line)


def _mark(found: re.Match[str]) -> str:
    return _marks[found.lastgroup or "number"]
