"""What readers say of detail that is subset, gone, damaged, or was never to be kept."""

import datetime as dt

import pytest

from django_ray.protocol import summary as codec
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    NodeState,
    TruncationReason,
)
from django_ray.readers import page, run
from django_ray.readers.graph import GraphQuery
from django_ray.readers.nodes import NodeQuery, NodesQuery
from django_ray.readers.services import node, nodes, topology_nodes
from tests.app import pictures, published, stored
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kept(conn):
    return Published(conn, 300)


def ask(kept, root, **asked):
    return nodes(kept.public_id, root, NodesQuery(limit=256, **asked))


def availability(answer):
    assert isinstance(answer, run.Unavailable), answer
    return answer.run.detail.availability.value


def last_page(kept, root, **asked):
    cursor = ask(kept, root, **asked).next_cursor
    return ask(kept, root, cursor=cursor, **asked)


@pytest.mark.parametrize(
    "word", ["NOT_REPORTED", "OMITTED_BY_POLICY", "DISABLED", "EXPIRED", "MISSING"]
)
def test_what_the_summary_says_of_its_detail_is_what_readers_say(root, word):
    row = stored.make_row()
    said = codec.Detail(
        availability=DetailAvailability(word), complete=False, reasons=()
    )
    stored.report(row, detail=said, topology_version=None, manifest_id=None)
    for answer in (
        nodes(row.public_id, root, NodesQuery()),
        node(row.public_id, root, NodeQuery(id="x")),
        topology_nodes(row.public_id, root, GraphQuery()),
    ):
        assert availability(answer) == word


def test_a_run_that_reports_nothing_by_policy_is_disabled(root):
    row = stored.make_row(options={"policy": "disabled"})
    assert availability(nodes(row.public_id, root, NodesQuery())) == "DISABLED"


def test_expired_is_what_was_due_and_is_gone(kept, root, conn):
    kept.end()
    conn.execute("DELETE FROM django_ray_run WHERE id = %s", (kept.run_pk,))
    assert availability(ask(kept, root)) == "MISSING"
    row = kept.row
    said = codec.decode(bytes(row.progress_summary))
    past = int((dt.datetime.now(dt.UTC) - dt.timedelta(days=1)).timestamp() * 1_000)
    row.progress_summary = codec.encode(
        codec.msgspec.structs.replace(said, expires_at_ms=past)
    )
    row.save()
    assert availability(ask(kept, root)) == "EXPIRED"


def test_a_success_that_only_the_lifecycle_saw_leaves_rows_truncated(kept, root):
    row = kept.row
    said = codec.decode(bytes(row.progress_summary))
    row.progress_summary = codec.encode(
        codec.derive(said, codec.WorkflowState.SUCCEEDED, said.started_at_ms, "success")
    )
    row.save()
    page_ = ask(kept, root)
    assert isinstance(page_, page.Page)
    assert page_.run.detail.availability is DetailAvailability.TRUNCATED
    assert page_.run.detail.reasons == (TruncationReason.terminal_state_unreported,)
    assert {row.state for row in page_.items} == {NodeState.PENDING}
    assert last_page(kept, root).returned == 44


def test_fewer_rows_than_are_retained_are_missing_on_the_last_page(kept, root, conn):
    conn.execute(
        "DELETE FROM django_ray_node_detail WHERE run_id = %s AND ordinal = 7",
        (kept.run_pk,),
    )
    assert isinstance(ask(kept, root), page.Page)
    assert availability(last_page(kept, root)) == "MISSING"


def test_no_row_at_all_is_missing_at_once(kept, root, conn):
    conn.execute("DELETE FROM django_ray_node_detail WHERE run_id = %s", (kept.run_pk,))
    assert availability(ask(kept, root)) == "MISSING"
    assert not node(kept.public_id, root, NodeQuery(id=kept.nodes[7].id)).found


def test_more_rows_than_are_retained_are_corrupt(kept, root, conn):
    conn.execute(
        "INSERT INTO django_ray_node_detail (run_id, ordinal, node_key, node_id, stage,"
        " state, detail_revision, record) SELECT run_id, 300, sha256('more'), 'more',"
        " stage, state, detail_revision, record"
        " FROM django_ray_node_detail WHERE run_id = %s AND ordinal = 0",
        (kept.run_pk,),
    )
    assert availability(last_page(kept, root)) == "CORRUPT"


def test_a_state_that_is_counted_and_not_found_is_missing(kept, root, conn):
    kept.move([1, 2, 3], "FAILED", kind="ValueError", text="no")
    conn.execute(
        "DELETE FROM django_ray_node_detail WHERE run_id = %s AND ordinal = 2",
        (kept.run_pk,),
    )
    assert availability(ask(kept, root, state=(NodeState.FAILED,))) == "MISSING"
    # What no counter speaks of is shown as it is found.
    found = ask(kept, root, state=(NodeState.FAILED,), stage=0)
    assert [row.ordinal for row in found.items] == [1, 3]


DAMAGE = {
    "a record that does not parse": "record = 'x'",
    "a state that is not the record's": "state = 6",
    "a key that is not the id's": "node_key = sha256('other')",
    "a revision ahead of the run's": "detail_revision = 99",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_row_is_corrupt(kept, root, conn, damage):
    conn.execute(
        f"UPDATE django_ray_node_detail SET {DAMAGE[damage]}"
        " WHERE run_id = %s AND ordinal = 7",
        (kept.run_pk,),
    )
    assert availability(ask(kept, root)) == "CORRUPT"


def test_a_row_of_another_run_is_never_read(kept, root, conn):
    other = Published(conn, 300)
    other.move([5], "RUNNING")
    found = node(kept.public_id, root, NodeQuery(id=kept.nodes[5].id))
    assert found.node.state is NodeState.PENDING


def test_a_policy_of_the_projects_own_decides(kept, settings):
    nobody = published.nobody()
    assert ask(kept, nobody) is None
    settings.DJANGO_RAY = {"ACCESS_POLICY": "tests.app.policies.everybody"}
    assert ask(kept, nobody).returned == 256


@pytest.mark.parametrize("name", ["nearly", "awaited", "denies"])
def test_a_policy_that_says_anything_but_true_refuses(kept, root, settings, name):
    settings.DJANGO_RAY = {"ACCESS_POLICY": f"tests.app.policies.{name}"}
    assert ask(kept, root) is None


def test_the_clock_of_a_statement_is_bounded(kept, root, settings):
    settings.DJANGO_RAY = {
        "ACCESS_POLICY": "tests.app.policies.tells_the_time_out",
        "READ_SECONDS": 3,
    }
    assert ask(kept, root) is None
    from tests.app import policies

    assert policies.TOLD == ["3s"]


def test_the_picture_of_a_public_id_needs_no_run(root):
    assert nodes(pictures.PUBLIC_ID, root, NodesQuery()) is None
