import uuid

import pytest
from django.contrib.auth.models import AnonymousUser

from django_ray.errors import ReadError
from django_ray.models.progress import NodeDetail
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability, NodeState
from django_ray.readers import page
from django_ray.readers.nodes import NodeQuery, NodesQuery
from django_ray.readers.run import Unavailable
from django_ray.readers.services import node, nodes
from tests.app import published, stored
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(conn):
    return Published(conn, 600)


def ask(run, root, **asked):
    return nodes(run.public_id, root, NodesQuery(**asked))


def every(run, root, **asked):
    def read(query):
        return nodes(run.public_id, root, query)

    return published.every(read, NodesQuery, **asked)


def test_pages_hold_every_node_once_in_order_of_registration(run, root):
    found, pages = every(run, root, limit=256)
    assert [row.ordinal for row in found] == list(range(600))
    assert [row.id for row in found] == [each.id for each in run.nodes]
    assert pages == 3


@pytest.mark.parametrize("limit", [1, 2, 7, 256])
def test_any_limit_leads_to_the_end(conn, root, limit):
    run = Published(conn, 7)
    found, pages = every(run, root, limit=limit)
    assert [row.ordinal for row in found] == list(range(7))
    assert pages == -(-7 // limit)


def test_a_page_holds_100_nodes_unless_told_and_256_at_most(run, root):
    assert ask(run, root).returned == 100
    assert ask(run, root, limit=257).returned == 256
    assert ask(run, root, limit=256).returned == 256


def test_an_answer_names_its_run_and_publication(run, root):
    part = ask(run, root).run
    assert part.execution == run.public_id
    assert str(part.run_id) == run.mind.identity.run_id
    assert (part.attempt, part.detail_revision, part.topology_version) == (1, 1, 1)
    assert part.detail.availability is DetailAvailability.AVAILABLE
    assert part.detail.complete


def test_three_failed_nodes_of_many_are_found_exactly(run, root):
    run.move([3, 300, 599], "FAILED", kind="ValueError", text="no")
    found = ask(run, root, state=(NodeState.FAILED,), limit=2)
    assert [row.ordinal for row in found.items] == [3, 300]
    rest = ask(run, root, state=(NodeState.FAILED,), limit=2, cursor=found.next_cursor)
    assert [row.ordinal for row in rest.items] == [599]
    assert rest.next_cursor is None


def test_filters_hold_together(run, root):
    run.move(range(250), "RUNNING")
    found, _ = every(
        run,
        root,
        state=(NodeState.RUNNING,),
        stage=0,
        prefix="1.layer0[part-00001",
    )
    assert [row.ordinal for row in found] == list(range(10, 20))


@pytest.mark.parametrize("prefix", ["%", "_", "\\", "1.layer0[part-000001]x"])
def test_a_prefix_is_text_and_no_pattern(run, root, prefix):
    assert ask(run, root, prefix=prefix).items == ()


@pytest.mark.parametrize("prefix", ["a\x00", "a\nb", "\ud800"])
def test_a_prefix_that_no_stored_id_can_have_is_refused(run, root, prefix):
    with pytest.raises(ReadError):
        ask(run, root, prefix=prefix)


def test_the_newest_change_comes_first(run, root):
    run.move([5], "RUNNING")
    run.move([4, 9], "RUNNING")
    found, pages = every(run, root, order="newest", limit=50)
    assert [row.ordinal for row in found[:4]] == [4, 9, 5, 0]
    assert sorted(row.ordinal for row in found) == list(range(600))
    assert pages == 12


def test_a_page_ends_before_its_bytes_do(conn, root):
    run = Published(conn, 256)
    # Larger than any writer would make them: 256 of these are 4 MiB.
    with conn.transaction():
        conn.execute(
            "UPDATE django_ray_node_detail SET record = %s, state = 2 WHERE run_id = %s",
            (fat_record(), run.run_pk),
        )
    first = ask(run, root, limit=256)
    assert isinstance(first, page.Page)
    size = len(page.canonical.encode(first))
    assert size <= V1.response_encoded
    # One record more would not have fitted.
    assert size + len(fat_record()) > V1.response_encoded - page.ENVELOPE
    found, _ = every(run, root, limit=256)
    assert [row.ordinal for row in found] == list(range(256))


def fat_record():
    detail = stored.records.Detail(
        state=NodeState.RUNNING,
        message="m" * V1.message,
        metrics={f"{n:064d}": "v" * 20 for n in range(32)},
        error=stored.records.Fault(text="e" * V1.error),
    )
    return stored.records.encode(detail)


def test_one_node_is_found_by_its_id_with_the_runs_counters(run, root):
    wanted = run.nodes[417]
    found = node(run.public_id, root, NodeQuery(id=wanted.id))
    assert found.found
    assert found.node.ordinal == 417
    assert found.counters.discovered_nodes == found.counters.retained_nodes == 600
    assert found.counters.node_counts.pending == 600
    assert found.run.detail.reasons == ()


@pytest.mark.parametrize("node_id", ["", "no such", "a\x00b", "\ud800", "x" * 10_000])
def test_a_node_that_is_not_there_is_not_found(run, root, node_id):
    found = node(run.public_id, root, NodeQuery(id=node_id))
    assert not found.found
    assert found.node is None
    assert found.counters.retained_nodes == 600


@pytest.mark.parametrize("name", ["x" * 600 * 1_024, "x" * 257, "a\x07b", "a\nb", ""])
def test_an_id_that_no_node_may_have_is_corrupt(run, root, name):
    NodeDetail.objects.filter(run=run.run_pk, ordinal=0).update(
        node_id=name, node_key=canonical.node_key(name)
    )
    for found in (ask(run, root), ask(run, root, order="newest")):
        assert isinstance(found, Unavailable)
        assert found.run.detail.availability is DetailAvailability.CORRUPT


def test_a_row_of_an_older_revision_is_still_current(run, root):
    run.move([1], "RUNNING")
    found = ask(run, root, limit=3)
    assert [row.detail_revision for row in found.items] == [1, 2, 1]


def test_nobody_is_told_of_a_run_he_may_not_see(run, root):
    for viewer in (AnonymousUser(), published.nobody()):
        assert nodes(run.public_id, viewer, NodesQuery()) is None
        assert node(run.public_id, viewer, NodeQuery(id="x")) is None
    assert nodes(uuid.uuid4(), root, NodesQuery()) is None


def test_without_a_report_there_is_no_list_at_all(root):
    row = stored.make_row()
    found = nodes(row.public_id, root, NodesQuery())
    assert isinstance(found, Unavailable)
    assert found.run.detail.availability is DetailAvailability.NOT_REPORTED


def test_an_earlier_attempt_is_read_by_its_number(run, root):
    run.move([1], "FAILED", kind="ValueError", text="no")
    run.retry()
    assert isinstance(ask(run, root), Unavailable)
    found = ask(run, root, attempt=1, state=(NodeState.FAILED,))
    assert [row.ordinal for row in found.items] == [1]
    assert (found.run.attempt, str(found.run.run_id)) == (1, run.mind.identity.run_id)
    assert ask(run, root, attempt=3) is None
    assert ask(run, published.nobody(), attempt=1) is None
