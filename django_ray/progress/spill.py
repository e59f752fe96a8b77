"""The ordinal of every node id, exact at any number, in bounded memory. Contract 4.2.

The first ids stand in a dict. Those past it go, a batch at a time, to a database that
SQLite opens without a path: it has no name, and is gone with the process however that ends.
Nearly every id is new, so a filter in front answers for most of the file: what it does not
know was never added. What it may know is looked up, so the answer is exact all the same.

A file that cannot be written takes no more ids: those to come stay in memory. What is in it
may then be out of reach, and an id that may be among them is refused: never taken twice.
"""

import logging
import sqlite3

from django_ray.errors import GraphRefused

IN_MEMORY = 250_000
"""Ids held without a file."""

BATCH = 4_096
"""Ids written to the file at once, until then held."""

_FILTER_BITS = 25
_FILTER_MASK = (1 << _FILTER_BITS) - 1
_CACHE_KIB = 8_192

_TABLE = """
CREATE TABLE ids (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL) WITHOUT ROWID
"""
_INSERT = "INSERT OR IGNORE INTO ids VALUES (?, ?)"
_SELECT = "SELECT ordinal FROM ids WHERE id = ?"

logger = logging.getLogger(__name__)


class Ids:
    """Ordinals by node id. Whoever uses it from several threads holds one lock over it."""

    def __init__(self, in_memory: int, batch: int) -> None:
        self._in_memory = in_memory
        self._batch = batch
        self._first: dict[str, int] = {}
        self._late: dict[str, int] = {}
        self._filter = bytearray()
        self._file: sqlite3.Connection | None = None
        self._stuck = False
        self._spilled = 0

    @property
    def spilled(self) -> int:
        """Count the ids that only the file holds."""
        return self._spilled

    def get(self, node_id: str) -> int | None:
        """Return the ordinal of an id, None for one that was not added.

        Raise GraphRefused when the file does not answer: then nobody can tell.
        """
        ordinal = self._first.get(node_id)
        if ordinal is None and self._filter:
            ordinal = self._late.get(node_id)
            if ordinal is None and self._file is not None and self._may_know(node_id):
                ordinal = _look_up(self._file, node_id)
        return ordinal

    def add(self, node_id: str, ordinal: int) -> None:
        """Add an id that `get` does not know."""
        if len(self._first) < self._in_memory:
            self._first[node_id] = ordinal
            return
        if not self._filter:
            self._filter = bytearray(1 << (_FILTER_BITS - 3))
        # The filter first: an interrupt in between leaves an id looked up in vain.
        for place in _places(node_id):
            self._filter[place >> 3] |= 1 << (place & 7)
        self._late[node_id] = ordinal
        if len(self._late) >= self._batch and not self._stuck:
            self._spill()

    def _may_know(self, node_id: str) -> bool:
        known = self._filter
        first, second = _places(node_id)
        return bool(
            known[first >> 3] >> (first & 7) & known[second >> 3] >> (second & 7) & 1
        )

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = _open()
            with self._file:
                self._file.executemany(_INSERT, sorted(self._late.items()))
        except sqlite3.Error:
            self._stuck = True
            logger.warning("Node ids cannot be written to a file; they stay in memory.")
            return
        self._spilled += len(self._late)
        self._late = {}


def _places(node_id: str) -> tuple[int, int]:
    value = hash(node_id)
    return value & _FILTER_MASK, value >> _FILTER_BITS & _FILTER_MASK


def _open() -> sqlite3.Connection:
    # Any thread of the outer task may register; its coordinator's lock orders them.
    file = sqlite3.connect("", check_same_thread=False)
    file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    file.execute(_TABLE)
    return file


def _look_up(file: sqlite3.Connection, node_id: str) -> int | None:
    try:
        row: tuple[int] | None = file.execute(_SELECT, (node_id,)).fetchone()
    except sqlite3.Error as exc:
        raise GraphRefused("the index of node ids does not answer") from exc
    return None if row is None else row[0]
