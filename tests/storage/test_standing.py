"""A run read back: whole and proven, or its fault by name; nothing is written by it."""

import pytest
from msgspec.structs import replace
from psycopg.errors import CheckViolation

from cluster import runs
from django_ray.errors import IntegrityFault
from django_ray.progress import bequest
from django_ray.progress.standing import Rows, Standing
from django_ray.protocol import canonical, records, summary
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    NodeState,
    TruncationReason,
)
from django_ray.storage import standing
from django_ray.storage.load import begin
from tests.progress.making import item
from tests.storage import helpers
from tests.storage.helpers import picture

NODES, EDGES = 600, 900


@pytest.fixture
def mind(conn):
    mind = runs.Mind(conn, helpers.execution(conn))
    mind.register(runs.layered(NODES, EDGES))
    mind.publish()
    mind.move(range(100), NodeState.SUCCEEDED, 1)
    mind.move(range(100, 110), NodeState.RUNNING, 1)
    mind.published = mind.publish()
    return mind


def read(mind):
    begun = begin(mind.conn, mind.identity, 7)
    return standing.read(mind.conn, mind.identity, begun)


def test_a_run_is_read_back_as_it_was_published(mind):
    found = read(mind)

    assert found.fault is None
    kept = found.detailed
    assert len(kept.nodes) == len(kept.details) == len(kept.stages) == NODES
    assert [node.ordinal for node in kept.nodes] == list(range(NODES))
    assert len(kept.edges) == EDGES
    assert [each.state for each in kept.details[99:101]] == ["SUCCEEDED", "RUNNING"]
    assert sum(kept.sizes) == mind.published.bytes
    assert found.summary.node_counts.succeeded == 100
    assert found.bequest.registered == NODES
    assert len(found.bequest.stages) == len(found.row.stages)


def test_reading_writes_nothing_and_needs_no_lock(mind, connect, admin):
    other = connect()
    begun = begin(mind.conn, mind.identity, 7)
    before = picture(admin)
    with other.transaction():
        other.execute("SELECT 1 FROM django_ray_run FOR UPDATE")
        standing.read(mind.conn, mind.identity, begun)
    assert picture(admin) == before


def test_of_a_run_without_a_publication_there_is_nothing(conn):
    mind = runs.Mind(conn, helpers.execution(conn))
    assert read(mind) == Standing()


NODE_PAGE = "SELECT id FROM django_ray_page WHERE kind = 'nodes' ORDER BY id LIMIT 1"

DAMAGE = {
    "a page gone": (f"DELETE FROM django_ray_page WHERE id = ({NODE_PAGE})", "MISSING"),
    "a page's bytes": (
        "UPDATE django_ray_page SET body = set_byte(body, 5, get_byte(body, 5) # 1) "
        f"WHERE id = ({NODE_PAGE})",
        "CORRUPT",
    ),
    "a page's count": (
        f"UPDATE django_ray_page SET item_count = 7 WHERE id = ({NODE_PAGE})",
        "CORRUPT",
    ),
    "the manifest gone": ("DELETE FROM django_ray_manifest", "CORRUPT"),
    "the manifest's digest": (
        "UPDATE django_ray_manifest SET digest = sha256('x')",
        "CORRUPT",
    ),
    "a row gone": ("DELETE FROM django_ray_node_detail WHERE ordinal = 5", "MISSING"),
    "the last row gone": (
        f"DELETE FROM django_ray_node_detail WHERE ordinal = {NODES - 1}",
        "MISSING",
    ),
    "a row too many": (
        "INSERT INTO django_ray_node_detail SELECT run_id, 600, sha256('x'), 'x', stage, "
        "state, detail_revision, record FROM django_ray_node_detail WHERE ordinal = 0",
        "CORRUPT",
    ),
    "a row's record": (
        "UPDATE django_ray_node_detail SET record = '{}x' WHERE ordinal = 5",
        "CORRUPT",
    ),
    "a row's id": (
        "UPDATE django_ray_node_detail SET node_id = 'other' WHERE ordinal = 5",
        "CORRUPT",
    ),
    "a row's key": (
        "UPDATE django_ray_node_detail SET node_key = sha256('x') WHERE ordinal = 5",
        "CORRUPT",
    ),
    "a row's state": (
        "UPDATE django_ray_node_detail SET state = 6 WHERE ordinal = 5",
        "CORRUPT",
    ),
    "a row of a later revision": (
        "UPDATE django_ray_node_detail SET detail_revision = 99 WHERE ordinal = 5",
        "CORRUPT",
    ),
    "the totals": ("UPDATE django_ray_run SET detail_bytes = 5", "CORRUPT"),
    "the stage row": ("UPDATE django_ray_stages SET body = '{}'", "CORRUPT"),
    "the stage row gone": ("DELETE FROM django_ray_stages", "MISSING"),
    "the events": ("UPDATE django_ray_run SET events = '{'", "CORRUPT"),
    "the bequest": ("UPDATE django_ray_run SET bequest = '{}'", "CORRUPT"),
    "the bequest gone": ("UPDATE django_ray_run SET bequest = NULL", "MISSING"),
    "the summary": (
        "UPDATE django_ray_execution SET progress_summary = '{'",
        "CORRUPT",
    ),
    "the summary gone": (
        "UPDATE django_ray_execution SET progress_summary = NULL",
        "MISSING",
    ),
    "the revisions": ("UPDATE django_ray_run SET summary_revision = 9", "CORRUPT"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_named_and_never_raised(mind, admin, unaudited, damage):
    unaudited.append(damage)
    statement, availability = DAMAGE[damage]
    admin.execute(statement)

    found = read(mind)

    assert found.fault is DetailAvailability(availability)
    assert found.bequest is None
    assert found.row is None
    told = "summary" not in damage and damage not in (
        "the revisions",
        "the manifest gone",
    )
    assert (found.summary is not None) is told
    if found.detailed is not None:
        assert found.detailed.nodes == ()


@pytest.mark.parametrize("state", [-1, 7, 32_767])
def test_a_state_that_there_is_not_is_corrupt(state):
    rows = Rows([item(0)], 1)
    record = records.encode(records.Detail(state=NodeState.SKIPPED))
    with pytest.raises(IntegrityFault) as caught:
        rows.add(0, canonical.node_key("n0"), "n0", 0, state, 1, record)
    assert caught.value.availability == "CORRUPT"


SET_BEQUEST = "UPDATE django_ray_run SET bequest = %s"


LIE = {
    "another number of nodes": {"registered": NODES - 1},
    "nodes that nobody has": {"registered": 2**31 - 1},
    "a running node with detail": {"running": ((5, 1),)},
    "a running node that nobody has": {"running": ((NODES, 1),)},
    "frames of nobody": {"producer": "", "applied": 1},
    "a producer without frames": {"producer": "0" * 32, "applied": 0},
    "no stages": {"stages": ()},
    "a stage twice": {"stages": (bequest.key("stage 0"),) * 2},
    "a stage of another name": {"stages": (bequest.key("other"),)},
    "a reason of nothing": {"reasons": (TruncationReason.node_count_limit,)},
    "an end of the nodes": {"nodes_ended": TruncationReason.topology_size_limit},
    "an end of the edges": {"edges_ended": TruncationReason.topology_size_limit},
    "hosts that nobody saw": {"hosts": tuple(map(bequest.key, "abcdefghij"))},
}


@pytest.mark.parametrize("lie", LIE)
def test_a_bequest_that_is_not_of_its_run_is_corrupt(mind, admin, unaudited, lie):
    unaudited.append(lie)
    changed = bequest.encode(replace(read(mind).bequest, **LIE[lie]))
    admin.execute(SET_BEQUEST, (changed,))

    found = read(mind)

    assert found.fault is DetailAvailability.CORRUPT
    assert found.bequest is None
    assert found.summary is not None


def test_the_stages_of_a_bequest_may_not_change_places(mind, admin, unaudited):
    unaudited.append("stages")
    left = read(mind).bequest
    swapped = replace(left, stages=left.stages[::-1])
    assert swapped != left
    admin.execute(SET_BEQUEST, (bequest.encode(swapped),))

    assert read(mind).fault is DetailAvailability.CORRUPT


@pytest.mark.parametrize("beyond", [-1, 0])
def test_a_bequest_is_stored_up_to_its_bound(mind, admin, unaudited, beyond):
    unaudited.append("not a bequest")
    admin.execute(SET_BEQUEST, (b"x" * (V1.bequest + beyond),))
    assert read(mind).fault is DetailAvailability.CORRUPT


def test_a_larger_bequest_is_refused(mind, admin):
    with pytest.raises(CheckViolation, match="django_ray_run_bequest_size"):
        admin.execute(SET_BEQUEST, (b"x" * (V1.bequest + 1),))


def test_a_run_of_another_attempt_s_summary_has_a_fault(mind, admin, unaudited):
    unaudited.append("the summary is of another run")
    row = admin.execute("SELECT progress_summary FROM django_ray_execution").fetchone()
    said = summary.decode(row[0])
    other = summary.encode(replace(said, run=replace(said.run, attempt_number=9)))
    admin.execute("UPDATE django_ray_execution SET progress_summary = %s", (other,))

    assert read(mind).fault is DetailAvailability.CORRUPT
