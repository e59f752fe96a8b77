"""Promotion: a candidate with any mismatch is refused, and changes nothing."""

import tempfile
from contextlib import contextmanager
from dataclasses import replace

import pytest
from psycopg.pq import Trace

from django_ray.progress.pages import seal
from django_ray.protocol import canonical
from django_ray.storage import promote
from django_ray.storage.stage import Staged, stage
from tests.storage import helpers
from tests.storage.helpers import Book, picture, refused

# Each at a candidate of 300 nodes in a chain: two node pages and two edge pages.
DAMAGES = {
    "page missing": "DELETE FROM django_ray_page WHERE kind = 'edges' AND item_count = 43",
    "page foreign": "UPDATE django_ray_page SET run_id = (SELECT max(id) FROM"
    " django_ray_run) WHERE item_count = 44",
    "page body": "UPDATE django_ray_page SET body = set_byte(body, 60,"
    " get_byte(body, 60) # 1) WHERE item_count = 44",
    "page body cut": "UPDATE django_ray_page SET body = substring(body FOR 20),"
    " encoded_size = 20 WHERE item_count = 44",
    "page longer": "UPDATE django_ray_page SET body = body || '\\x00',"
    " encoded_size = encoded_size + 1 WHERE item_count = 44",
    "page digest": "UPDATE django_ray_page SET digest = sha256(digest)"
    " WHERE item_count = 44",
    "page kind": "UPDATE django_ray_page SET kind = 'edges' WHERE item_count = 44",
    "page encoding": "UPDATE django_ray_page SET encoding = 'identity'"
    " WHERE item_count = 44",
    "page items": "UPDATE django_ray_page SET item_count = 45 WHERE item_count = 44",
    "page items moved": "UPDATE django_ray_page SET item_count ="
    " CASE item_count WHEN 256 THEN 255 ELSE 45 END WHERE kind = 'nodes'",
    "page decoded size": "UPDATE django_ray_page SET decoded_size = decoded_size + 1"
    " WHERE item_count = 44",
    "manifest missing": "DELETE FROM django_ray_manifest",
    "manifest version": "UPDATE django_ray_manifest SET topology_version = 2",
    "manifest published": "UPDATE django_ray_manifest SET published = true",
    "manifest nodes": "UPDATE django_ray_manifest SET node_count = 301",
    "manifest edges": "UPDATE django_ray_manifest SET edge_count = 300",
    "manifest encoded": "UPDATE django_ray_manifest SET encoded_bytes ="
    " encoded_bytes - 1",
    "manifest decoded": "UPDATE django_ray_manifest SET decoded_bytes ="
    " decoded_bytes + 1",
    "manifest pages": "UPDATE django_ray_manifest SET page_count = 3,"
    " page_digests = substring(page_digests FOR 96)",
    "manifest order": "UPDATE django_ray_manifest SET page_digests ="
    " substring(page_digests FROM 33 FOR 32) || substring(page_digests FOR 32)"
    " || substring(page_digests FROM 65)",
    "manifest digest": "UPDATE django_ray_manifest SET digest = sha256(digest)",
}
MISSING = {
    "page missing",
    "page foreign",
    "page digest",
    "manifest missing",
    "manifest version",
    "manifest published",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_candidate_with_a_mismatch_is_refused(conn, admin, damage, unaudited):
    book = Book.open(conn)
    publication = book.growth(conn, 300)
    # The foreign run that a page is moved to is the latest.
    Book.open(conn)
    unaudited.append(damage)
    admin.execute(DAMAGES[damage])
    availability = "MISSING" if damage in MISSING else "CORRUPT"
    refused(conn, admin, book, publication, availability)


ROWS_DISAGREE = [
    *("page missing", "page foreign", "page items", "page kind"),
    *("page decoded size", "manifest missing", "manifest version", "manifest nodes"),
    *("manifest edges", "manifest encoded", "manifest decoded", "manifest pages"),
    "manifest digest",
]
OVERSIZED = {
    "body": "body = decode(repeat('00', 262145), 'hex'), encoded_size = 262145",
    "stated body": "encoded_size = 262145",
    "decoded size": "decoded_size = 1048577",
    "items": "item_count = 257",
}


def received(conn, run_pk, manifest):
    """Read the bodies; return what came of it and the bytes of all rows received."""
    with tempfile.TemporaryFile("w+") as file:
        conn.pgconn.trace(file.fileno())
        conn.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        spans = promote.read_bodies(conn, run_pk, manifest)
        conn.pgconn.untrace()
        file.seek(0)
        rows = [line.split("\t") for line in file if "DataRow" in line]
    return spans, sum(int(row[1]) for row in rows)


def test_the_bodies_of_a_sound_candidate_are_received_once(conn, admin):
    book = Book.open(conn)
    manifest = book.growth(conn, 300).candidate.manifest
    spans, size = received(conn, book.begun.run_pk, manifest)
    assert len(spans) == 4
    assert manifest.encoded_bytes < size < manifest.encoded_bytes + 4 * 150


@pytest.mark.parametrize("damage", ROWS_DISAGREE)
def test_no_body_leaves_the_server_where_the_rows_disagree(
    conn, admin, damage, unaudited
):
    book = Book.open(conn)
    manifest = book.growth(conn, 300).candidate.manifest
    Book.open(conn)
    unaudited.append(damage)
    admin.execute(DAMAGES[damage])
    spans, size = received(conn, book.begun.run_pk, manifest)
    assert not spans
    assert size < 4 * 150 < manifest.encoded_bytes


@pytest.mark.parametrize("damage", OVERSIZED)
def test_no_body_leaves_the_server_where_a_page_is_oversized(
    conn, admin, damage, unaudited
):
    book = Book.open(conn)
    publication = book.growth(conn, 300)
    unaudited.append(damage)
    with unchecked(admin, "page"):
        admin.execute(
            f"UPDATE django_ray_page SET {OVERSIZED[damage]} WHERE item_count = 44"
        )
        # The totals agree with what is stated: the caps alone refuse it.
        admin.execute(
            "UPDATE django_ray_manifest SET encoded_bytes = p.encoded, decoded_bytes ="
            " p.decoded FROM (SELECT sum(encoded_size) AS encoded, sum(decoded_size) AS"
            " decoded FROM django_ray_page) AS p"
        )
        manifest = publication.candidate.manifest
        spans, size = received(conn, book.begun.run_pk, manifest)
        assert spans is None
        assert size < 4 * 150
        refused(conn, admin, book, publication)
        admin.execute("DELETE FROM django_ray_execution")


@contextmanager
def unchecked(admin, table):
    """Let a table take what its constraints refuse, as long as nothing stays of it."""
    checks = admin.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE contype = 'c' AND conrelid = %s::regclass",
        (f"django_ray_{table}",),
    ).fetchall()
    for name, _ in checks:
        admin.execute(f"ALTER TABLE django_ray_{table} DROP CONSTRAINT {name}")
    yield
    for name, said in checks:
        admin.execute(f"ALTER TABLE django_ray_{table} ADD CONSTRAINT {name} {said}")


def test_promotion_deletes_the_previous_manifest_and_the_pages_only_it_named(
    conn, admin
):
    book = Book.loaded(conn, 300)
    book.commit(conn, book.growth(conn, 600))
    found = admin.execute(
        "SELECT topology_version, published, node_count FROM django_ray_manifest"
    ).fetchall()
    assert found == [(2, True, 600)]
    assert admin.execute("SELECT count(*) FROM django_ray_page").fetchone() == (6,)


def test_promotion_touches_no_other_run(conn, admin):
    other = Book.loaded(conn, 300)
    stage(conn, *other.args, helpers.candidate(2, 310))
    book = Book.loaded(conn, 300)
    before = [
        admin.execute(query, (other.begun.run_pk,)).fetchall()
        for query in (
            "SELECT t::text FROM django_ray_manifest AS t WHERE run_id = %s ORDER BY 1",
            "SELECT t::text FROM django_ray_page AS t WHERE run_id = %s ORDER BY 1",
        )
    ]
    book.commit(conn, book.growth(conn, 700))
    after = [
        admin.execute(query, (other.begun.run_pk,)).fetchall()
        for query in (
            "SELECT t::text FROM django_ray_manifest AS t WHERE run_id = %s ORDER BY 1",
            "SELECT t::text FROM django_ray_page AS t WHERE run_id = %s ORDER BY 1",
        )
    ]
    assert after == before


def test_pages_that_the_published_topology_names_are_not_read_again(
    conn, connect, admin
):
    book = Book.loaded(conn, 600)
    reading = connect()
    publication = book.growth(conn, 610)
    spans = promote.read_bodies(
        reading, book.begun.run_pk, publication.candidate.manifest
    )
    # The two tails.
    assert len(spans) == 2
    book.commit(conn, publication)


@pytest.mark.parametrize(
    "pages",
    [
        lambda: [*helpers.edge_pages([(1, 0)]), *helpers.node_pages(0, 2)],
        lambda: [*helpers.node_pages(256, 300), *helpers.node_pages(0, 256)],
        lambda: [
            *helpers.node_pages(0, 3),
            *helpers.edge_pages([(2, 0)]),
            *helpers.edge_pages([(1, 0)]),
        ],
        lambda: [*helpers.node_pages(0, 3), *helpers.edge_pages([(2, 0), (1, 0)])],
        lambda: [*helpers.node_pages(0, 3), *helpers.edge_pages([(1, 0), (1, 0)])],
        lambda: [*helpers.node_pages(0, 3), *helpers.edge_pages([(1, 1)])],
        lambda: [*helpers.node_pages(0, 3), *helpers.edge_pages([(1, 2)])],
    ],
    ids=[
        "edge page first",
        "node pages swapped",
        "edge pages swapped",
        "edges swapped",
        "edge twice",
        "edge to itself",
        "edge backwards",
    ],
)
def test_pages_out_of_order_are_refused_though_every_digest_agrees(
    conn, admin, pages, unaudited
):
    book = Book.open(conn)
    unaudited.append("the candidate is out of order")
    made = pages()
    nodes = sum(page.item_count for page in made if page.kind == "nodes")
    edges = sum(page.item_count for page in made if page.kind == "edges")
    refused(conn, admin, book, staged(conn, book, made, nodes, edges))


def test_a_pages_digest_is_over_its_canonical_bytes(conn, admin, unaudited):
    book = Book.open(conn)
    unaudited.append("the candidate is not canonical")
    [page] = helpers.node_pages(0, 1)
    spaced = canonical.encode([[0, helpers.node_id(0), "leaf", "leaf", 0]]) + b" "
    loose = seal("nodes", 1, spaced)
    assert loose.digest != page.digest
    refused(conn, admin, book, staged(conn, book, [loose], 1, 0))


@pytest.mark.parametrize(
    ("nodes", "edges"), [(299, 299), (301, 299), (300, 298), (300, 300)]
)
def test_counts_that_the_pages_do_not_add_up_to_are_refused(
    conn, admin, nodes, edges, unaudited
):
    book = Book.open(conn)
    unaudited.append("the counts are wrong")
    pages = list(helpers.candidate(1, 300).pages)
    refused(conn, admin, book, staged(conn, book, pages, nodes, edges))


def test_decoded_bytes_that_the_pages_do_not_add_up_to_are_refused(
    conn, admin, unaudited
):
    book = Book.open(conn)
    unaudited.append("the sizes are wrong")
    offered = helpers.candidate(1, 300)
    told = replace(offered.manifest, decoded_bytes=offered.manifest.decoded_bytes + 1)
    refused(conn, admin, book, of(conn, book, replace(offered, manifest=told)))


def test_encoded_bytes_that_the_pages_do_not_add_up_to_are_refused(
    conn, admin, unaudited
):
    book = Book.open(conn)
    unaudited.append("the sizes are wrong")
    publication = book.growth(conn, 300)
    admin.execute("UPDATE django_ray_manifest SET encoded_bytes = encoded_bytes + 1")
    refused(conn, admin, book, publication)


def test_a_candidate_other_than_the_staged_one_is_refused(conn, admin):
    book = Book.open(conn)
    publication = book.growth(conn, 300)
    stage(conn, *book.args, helpers.candidate(1, 299))
    refused(conn, admin, book, publication)


def test_a_page_that_was_never_offered_is_missing(conn, admin, unaudited):
    book = Book.open(conn)
    unaudited.append("a page is missing")
    offered = helpers.candidate(1, 300)
    withheld = replace(offered, pages=offered.pages[1:])
    refused(conn, admin, book, of(conn, book, withheld), "MISSING")


def test_a_topology_without_a_node_can_be_published(conn, admin):
    book = Book.open(conn)
    before = picture(admin)["manifest"]
    book.commit(conn, of(conn, book, helpers.of_pages(1, [], 0, 0)))
    assert before == []
    assert len(picture(admin)["manifest"]) == 1


def staged(conn, book, pages, nodes, edges):
    return of(conn, book, helpers.of_pages(1, pages, nodes, edges))


def of(conn, book, candidate):
    stored = stage(conn, *book.args, candidate)
    assert isinstance(stored, Staged)
    return book.publication(staged=(candidate, stored.manifest_id))
