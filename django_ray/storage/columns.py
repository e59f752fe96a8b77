"""Columns of values on their way to PostgreSQL.

An array parameter is packed here in PostgreSQL's binary form: of one type whatever its
values are, so that one prepared statement serves every publication, and at half of the
cost of psycopg's lists.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, LiteralString

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.rows import TupleRow

from django_ray.storage.pool import Connection

_header = struct.Struct("!5i")
_length = struct.Struct("!i")


@dataclass(frozen=True, slots=True)
class Column:
    """A packed one-dimensional array without nulls."""

    oid: ClassVar[int]
    element: ClassVar[int]
    packed: bytes


class SmallColumn(Column):
    """An int2[]."""

    __slots__ = ()
    oid, element = 1005, 21


class IntColumn(Column):
    """An int4[]."""

    __slots__ = ()
    oid, element = 1007, 23


class BlobColumn(Column):
    """A bytea[]."""

    __slots__ = ()
    oid, element = 1001, 17


class TextColumn(Column):
    """A text[]."""

    __slots__ = ()
    oid, element = 1009, 25


type Value = Column | int | str | bytes | None


def small(values: Sequence[int]) -> SmallColumn:
    """Pack an int2[]."""
    pairs = [2] * (2 * len(values))
    pairs[1::2] = values
    body = struct.pack(f"!{'ih' * len(values)}", *pairs)
    return SmallColumn(_head(SmallColumn, len(values)) + body)


def ints(values: Sequence[int]) -> IntColumn:
    """Pack an int4[]."""
    pairs = [4] * (2 * len(values))
    pairs[1::2] = values
    body = struct.pack(f"!{2 * len(values)}i", *pairs)
    return IntColumn(_head(IntColumn, len(values)) + body)


def blobs(values: Sequence[bytes]) -> BlobColumn:
    """Pack a bytea[]."""
    return BlobColumn(_head(BlobColumn, len(values)) + _prefixed(values))


def texts(values: Sequence[str]) -> TextColumn:
    """Pack a text[]."""
    body = _prefixed([value.encode() for value in values])
    return TextColumn(_head(TextColumn, len(values)) + body)


def execute(
    conn: Connection, query: LiteralString, fields: Mapping[str, Value]
) -> psycopg.Cursor[TupleRow]:
    """Run a statement, columns among its parameters; results travel in binary."""
    return conn.cursor().execute(query, fields, binary=True)


class _ColumnDumper(Dumper):
    format = Format.BINARY

    def __init__(self, cls: type[Column], context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        self.oid = cls.oid

    def dump(self, obj: Column) -> bytes:
        return obj.packed


# For every connection that is opened from here on: with each statement it would copy the
# connection's adapters each time.
for _kind in (SmallColumn, IntColumn, BlobColumn, TextColumn):
    psycopg.adapters.register_dumper(_kind, _ColumnDumper)


def _head(kind: type[Column], count: int) -> bytes:
    # Dimensions, no nulls, element type; then the one dimension: size and lower bound.
    if not count:
        return _header.pack(0, 0, kind.element, 0, 0)[:12]
    return _header.pack(1, 0, kind.element, count, 1)


def _prefixed(values: Sequence[bytes]) -> bytes:
    sizes = list(map(len, values))
    prefixes = {size: _length.pack(size) for size in set(sizes)}
    if len(prefixes) == 1:
        (prefix,) = prefixes.values()
        return prefix + prefix.join(values)
    parts = [b""] * (2 * len(values))
    parts[::2] = map(prefixes.__getitem__, sizes)
    parts[1::2] = values
    return b"".join(parts)
