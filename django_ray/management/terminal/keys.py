"""The keys of a terminal, one by one, and the terminal given back as it was.

Ctrl-C stays the interrupt it is. Bytes that are no key we know are dropped.
"""

import codecs
import os
import select
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ESCAPE = "\x1b"
READ = 1_024

_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "[5~": "page up",
    "[6~": "page down",
}
_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}


class Keys:
    """What is typed at one file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_open = True

    def wait(self, seconds: float) -> list[str]:
        """Return the keys that were pressed, none when the time is over."""
        if not self._is_open:
            time.sleep(seconds)
            return []
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return []
        typed = os.read(self._descriptor, READ)
        # At the end of its input a terminal is always ready: then it is only waited.
        self._is_open = bool(typed)
        return list(parse(self._decoder.decode(typed)))


@contextmanager
def of(descriptor: int) -> Iterator[Keys]:
    """Take keys as they are pressed, unseen; leave the terminal as it was."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def parse(typed: str) -> Iterator[str]:
    """Return the names of the keys: a character is its own."""
    while typed:
        if typed.startswith(ESCAPE) and len(typed) > 1 and typed[1] in "[O":
            sequence, typed = _split(typed[1:])
            if sequence in _SEQUENCES:
                yield _SEQUENCES[sequence]
            continue
        key, typed = typed[0], typed[1:]
        if key == ESCAPE:
            yield "escape"
        elif key in _NAMES:
            yield _NAMES[key]
        elif key.isprintable():
            yield key


def _split(rest: str) -> tuple[str, str]:
    """Return an escape sequence, which its first letter or tilde ends, and what follows."""
    for at, character in enumerate(rest[1:], start=1):
        if character.isalpha() or character == "~":
            return rest[: at + 1], rest[at + 1 :]
    return rest, ""
