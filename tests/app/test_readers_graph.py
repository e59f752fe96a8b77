import pytest

from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.graph import GraphQuery
from django_ray.readers.run import Unavailable
from django_ray.readers.services import topology_edges, topology_nodes
from tests.app import published
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(conn):
    return Published(conn, 700, 1_800)


def every(run, root, service, **asked):
    def read(query):
        return service(run.public_id, root, query)

    return published.every(read, GraphQuery, **asked)


def expected_edges(run):
    return [
        (node.ordinal, source)
        for node in run.nodes
        for first, count in zip(
            node.dependencies[::2], node.dependencies[1::2], strict=True
        )
        for source in range(first, first + count)
    ]


def test_nodes_are_listed_as_they_were_registered(run, root):
    found, pages = every(run, root, topology_nodes, limit=256)
    assert [(row.ordinal, row.id) for row in found] == [
        (node.ordinal, node.id) for node in run.nodes
    ]
    assert {row.rank for row in found} == {0, 1, 2}
    assert pages == 3


def test_edges_are_listed_by_target_and_source(run, root):
    found, _ = every(run, root, topology_edges, limit=100)
    listed = [(edge.target, edge.source) for edge in found]
    assert listed == sorted(expected_edges(run))
    assert len(listed) == 1_800


@pytest.mark.parametrize("limit", [1, 99, 255, 256])
def test_a_page_reaches_over_the_ends_of_stored_pages(run, root, limit):
    query = GraphQuery(start=200, limit=limit)
    first = topology_nodes(run.public_id, root, query)
    assert [row.ordinal for row in first.items] == list(range(200, 200 + limit))


@pytest.mark.parametrize("start", [0, 1, 249, 250, 251, 256, 511, 512, 699])
def test_a_list_begins_where_it_is_told_to(run, root, start):
    nodes, _ = every(run, root, topology_nodes, start=start, limit=256)
    assert [row.ordinal for row in nodes] == list(range(start, 700))
    edges, _ = every(run, root, topology_edges, start=start, limit=256)
    assert [(edge.target, edge.source) for edge in edges] == [
        each for each in sorted(expected_edges(run)) if each[0] >= start
    ]


@pytest.mark.parametrize("service", [topology_nodes, topology_edges])
@pytest.mark.parametrize("start", [700, 2**31 - 1])
def test_past_the_last_node_there_is_nothing(run, root, service, start):
    page = service(run.public_id, root, GraphQuery(start=start))
    assert (page.items, page.next_cursor) == ((), None)


def test_a_graph_without_edges_has_none(conn, root):
    run = Published(conn, 3)
    for start in (0, 1):
        page = topology_edges(run.public_id, root, GraphQuery(start=start))
        assert (page.items, page.next_cursor) == ((), None)


DAMAGE = {
    "a page is gone": (
        "DELETE FROM django_ray_page WHERE run_id = %s AND kind = 'nodes'"
        " AND item_count = 188",
        DetailAvailability.MISSING,
    ),
    "a page holds other bytes": (
        "UPDATE django_ray_page SET body = set_byte(body, 40, 1) WHERE run_id = %s",
        DetailAvailability.CORRUPT,
    ),
    "a page counts more": (
        "UPDATE django_ray_page SET item_count = item_count - 1 WHERE run_id = %s",
        DetailAvailability.CORRUPT,
    ),
    "a page claims another size": (
        "UPDATE django_ray_page SET decoded_size = decoded_size + 1 WHERE run_id = %s",
        DetailAvailability.CORRUPT,
    ),
    "the manifest is gone": (
        "DELETE FROM django_ray_manifest WHERE run_id = %s",
        DetailAvailability.MISSING,
    ),
    "the manifest counts more": (
        "UPDATE django_ray_manifest SET node_count = node_count + 1 WHERE run_id = %s",
        DetailAvailability.CORRUPT,
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_and_nothing_is_shown(run, root, conn, damage):
    statement, availability = DAMAGE[damage]
    assert conn.execute(statement, (run.run_pk,)).rowcount
    page = topology_nodes(run.public_id, root, GraphQuery())
    assert isinstance(page, Unavailable)
    assert page.run.detail.availability is availability
    assert not page.run.detail.complete
