"""A closer look: causes and nodes, in one snapshot, bounded whatever the run's size."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_ray.protocol.vocabulary import NodeState
from django_ray.readers import closer
from django_ray.readers.closer import NODES, Causes, Nodes
from tests.app import pictures, stored
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(conn):
    """Twelve nodes: five failed by two causes, one at work, the others to come."""
    run = Published(conn, 12, 6)
    run.move([1, 2, 3], "FAILED", kind="ValueError", text="image 17 does not overlap")
    run.move([4], "FAILED", kind="ValueError", text="image 4711 does not overlap")
    run.move([5], "FAILED", kind="OSError", text="no space left")
    run.move([6], "RUNNING")
    return run


def test_failures_are_grouped_and_each_cause_has_all_its_nodes(run):
    found = closer.read(run.public_id, Causes()).closer
    assert [(cause.kind, cause.text, len(cause.nodes)) for cause in found.causes] == [
        ("ValueError", "image # does not overlap", 4),
        ("OSError", "no space left", 1),
    ]
    assert not found.more
    node = found.causes[1].nodes[0]
    assert (node.state, node.try_, node.host) == (NodeState.FAILED, 1, "h1")
    assert node.said == "OSError: no space left"


def test_nodes_are_listed_as_registered_and_found_by_how_they_begin(run):
    found = closer.read(run.public_id, Nodes("")).closer
    assert len(found.nodes) == 12
    assert [node.state for node in found.nodes[:2]] == [
        NodeState.PENDING,
        NodeState.FAILED,
    ]
    name = found.nodes[6].node_id
    assert [
        n.node_id for n in closer.read(run.public_id, Nodes(name)).closer.nodes
    ] == [name]
    for nothing in ("none", "%", "\x1b", "\ud800"):
        assert closer.read(run.public_id, Nodes(nothing)).closer.nodes == ()


def test_a_list_of_nodes_is_bounded_and_costs_as_much_for_many(conn):
    costs = set()
    for size in (10, NODES + 1):
        run = Published(conn, size)
        with CaptureQueriesContext(connection) as captured:
            found = closer.read(run.public_id, Nodes("")).closer
        costs.add(len(captured))
        assert (len(found.nodes), found.more) == (min(size, NODES), size > NODES)
    assert len(costs) == 1


def test_who_looks_at_nothing_closer_pays_for_nothing(run):
    picture = closer.read(run.public_id, None)
    assert picture.closer is None
    assert picture.running


def test_what_is_not_there_or_has_no_detail_is_not_looked_at():
    assert closer.read(uuid.uuid4(), Causes()) is None
    stored.make_row()
    for look in (Causes(), Nodes("")):
        assert closer.read(pictures.PUBLIC_ID, look).closer is None


@pytest.mark.parametrize("look", [Causes(), Nodes("")])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM django_ray_manifest", "MISSING"),
        ("UPDATE django_ray_node_detail SET record = '\\x00'", "CORRUPT"),
        ("UPDATE django_ray_execution SET progress_summary = '\\x00'", "CORRUPT"),
    ],
)
def test_damaged_detail_is_named_and_not_shown(run, look, damage, said):
    with connection.cursor() as cursor:
        cursor.execute(damage)
    picture = closer.read(run.public_id, look)
    assert picture.closer is None
    assert picture.reading.availability == said
