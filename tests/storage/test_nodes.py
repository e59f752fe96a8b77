"""Detail rows: what is refused of them."""

from dataclasses import replace

import pytest

from django_ray.protocol import canonical
from tests.storage import helpers
from tests.storage.helpers import Book, refused


def test_a_row_whose_node_key_differs_is_refused(conn, admin):
    book = Book.loaded(conn, 5)
    publication = book.publication({1: "RUNNING", 2: "RUNNING"})
    publication.rows.keys[0] = canonical.node_key("another")
    refused(conn, admin, book, publication)


@pytest.mark.parametrize("fresh", [10, 300])
def test_a_fresh_row_that_has_another_nodes_key_is_refused(conn, admin, fresh):
    book = Book.loaded(conn, 5)
    publication = book.growth(conn, 5 + fresh)
    publication.rows.keys[3] = canonical.node_key(helpers.node_id(2))
    refused(conn, admin, book, publication)


def test_a_confirmed_row_that_is_gone_is_refused(conn, admin, unaudited):
    book = Book.loaded(conn, 5)
    unaudited.append("a row is gone")
    admin.execute("DELETE FROM django_ray_node_detail WHERE ordinal = 2")
    refused(conn, admin, book, book.publication({1: "RUNNING", 2: "RUNNING"}))


def test_a_row_without_a_node_in_the_topology_is_refused(conn, admin):
    book = Book.loaded(conn, 5)
    refused(conn, admin, book, book.publication({5: "PENDING"}, fresh=1))


@pytest.mark.parametrize(
    "damage",
    [
        {"ordinals": [2, 1]},
        {"ordinals": [1, 1]},
        {"keys": [b"k" * 32]},
        {"keys": [b"k" * 32, b"k" * 31]},
        {"ids": ["a"]},
        {"stages": [0]},
        {"states": [0]},
        {"records": [b"{}"]},
        {"fresh": -1},
        {"fresh": 3},
    ],
    ids=str,
)
def test_columns_that_are_not_rows_by_ordinal_are_refused(conn, admin, damage):
    book = Book.loaded(conn, 5)
    publication = book.publication({1: "RUNNING", 2: "RUNNING"})
    damaged = replace(publication, rows=replace(publication.rows, **damage))
    refused(conn, admin, book, damaged)


@pytest.mark.parametrize(
    ("column", "value"), [("states", 7), ("states", -1), ("stages", 64), ("stages", -1)]
)
def test_a_row_outside_the_vocabularies_is_refused(conn, admin, column, value):
    book = Book.loaded(conn, 5)
    publication = book.publication({1: "RUNNING"})
    getattr(publication.rows, column)[0] = value
    refused(conn, admin, book, publication)
