"""Columns: PostgreSQL reads what was packed, whatever its size."""

import pytest

from django_ray.storage import columns

QUERY = "SELECT pg_typeof(%(values)s)::text, to_jsonb(%(values)s)"


@pytest.mark.parametrize(
    ("pack", "kind", "values"),
    [
        (columns.small, "smallint[]", [0, 1, -1, 2**15 - 1, -(2**15)]),
        (columns.ints, "integer[]", [0, 1, -1, 2**31 - 1, -(2**31)]),
        (columns.texts, "text[]", ["", "a", "né", "x" * 70_000, '"{},\\']),
        (columns.small, "smallint[]", []),
        (columns.ints, "integer[]", []),
        (columns.texts, "text[]", []),
    ],
    ids=["small", "int", "text", "no small", "no int", "no text"],
)
def test_a_column_arrives_as_it_was(conn, pack, kind, values):
    found = columns.execute(conn, QUERY, {"values": pack(values)}).fetchone()
    assert found == (kind, values)


@pytest.mark.parametrize("values", [[], [b""], [b"", b"\0\xff", b"x" * 70_000, b"''"]])
def test_a_column_of_bytes_arrives_as_it_was(conn, values):
    query = "SELECT pg_typeof(%(values)s)::text, %(values)s"
    found = columns.execute(conn, query, {"values": columns.blobs(values)}).fetchone()
    assert found == ("bytea[]", values)


@pytest.mark.parametrize(
    ("pack", "value"),
    [(columns.small, 2**15), (columns.ints, 2**31)],
    ids=["small", "int"],
)
def test_a_number_past_its_type_is_never_cut(pack, value):
    with pytest.raises(Exception, match="format"):
        pack([value])


def test_columns_leave_the_connections_own_adapters_alone(conn):
    columns.execute(conn, QUERY, {"values": columns.ints([1])})
    assert conn.execute("SELECT %s::int4[]", ([1, 2],)).fetchone() == ([1, 2],)
