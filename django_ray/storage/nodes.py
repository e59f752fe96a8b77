"""Detail rows: how a publication's rows are bound, and the first load of them by COPY."""

import struct
from collections.abc import Iterator
from operator import lt
from typing import LiteralString

from django_ray.errors import IntegrityFault
from django_ray.progress.delta import Rows
from django_ray.protocol.frames import MAXIMUM_ORDINAL
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.storage import columns
from django_ray.storage.pool import Connection

COPY: LiteralString = """
COPY django_ray_node_detail
    (run_id, ordinal, node_key, node_id, stage, state, detail_revision, record)
FROM STDIN (FORMAT BINARY)
"""

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = struct.pack("!h", -1)
_CHUNK = 2_048

# Eight fields, each behind its length: run, ordinal, node key, and the length of the id;
# then stage, state, revision, and the length of the record.
_front = struct.Struct("!hiqiii32si")
_back = struct.Struct("!ihihiqi")

COPY_FROM = 256
"""So many fresh rows are worth COPY's two further round trips."""


KEY_BYTES = 32

NOWHERE = MAXIMUM_ORDINAL
"""An ordinal from which no row is: the first fresh one where none is fresh."""


def first_fresh_ordinal(rows: Rows) -> int:
    """Return the ordinal from which on no commit has confirmed a row."""
    return rows.ordinals[-rows.fresh] if rows.fresh else NOWHERE


def require_columns(rows: Rows) -> None:
    """Raise IntegrityFault unless the columns are rows by ascending ordinal."""
    lengths = {
        len(column)
        for column in (
            rows.ordinals,
            rows.keys,
            rows.ids,
            rows.stages,
            rows.states,
            rows.records,
        )
    }
    if (
        len(lengths) > 1
        or not 0 <= rows.fresh <= len(rows.ordinals)
        or not all(map(lt, rows.ordinals, rows.ordinals[1:]))
        or not set(map(len, rows.keys)) <= {KEY_BYTES}
    ):
        raise IntegrityFault(
            "Detail rows are not in columns by ordinal.", DetailAvailability.CORRUPT
        )


def copy(conn: Connection, run_pk: int, detail_revision: int, rows: Rows) -> int:
    """Load the fresh rows, none of which may exist; return the bytes they add."""
    first = len(rows.ordinals) - rows.fresh
    with conn.cursor() as cursor, cursor.copy(COPY) as copying:
        copying.write(_SIGNATURE)
        for start in range(first, len(rows.ordinals), _CHUNK):
            part = slice(start, start + _CHUNK)
            copying.write(b"".join(_packed(run_pk, detail_revision, rows, part)))
        copying.write(_TRAILER)
    return sum(map(len, rows.records[first:]))


def _packed(run_pk: int, revision: int, rows: Rows, part: slice) -> Iterator[bytes]:
    for ordinal, key, node_id, stage, state, record in zip(
        rows.ordinals[part],
        rows.keys[part],
        rows.ids[part],
        rows.stages[part],
        rows.states[part],
        rows.records[part],
        strict=True,
    ):
        name = node_id.encode()
        yield _front.pack(8, 8, run_pk, 4, ordinal, 32, key, len(name))
        yield name
        yield _back.pack(2, stage, 2, state, 8, revision, len(record))
        yield record


def bind(rows: Rows, count: int) -> dict[str, columns.Value]:
    """Return the first `count` rows as columns."""
    return {
        "ordinals": columns.ints(rows.ordinals[:count]),
        "keys": columns.blobs(rows.keys[:count]),
        "stages": columns.small(rows.stages[:count]),
        "states": columns.small(rows.states[:count]),
        "records": columns.blobs(rows.records[:count]),
    }


def bind_fresh(rows: Rows, count: int) -> dict[str, columns.Value]:
    """Return where the fresh ones begin among the first `count` rows, and their ids."""
    fresh = min(len(rows.ordinals) - rows.fresh, count)
    return {
        "fresh_ids": columns.texts(rows.ids[fresh:count]),
        # PostgreSQL counts from 1.
        "fresh_from": fresh + 1,
    }
