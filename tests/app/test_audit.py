"""The audit: clean after publications, and every disagreement by its name."""

import dataclasses
import re
import time
import uuid
from pathlib import Path

import msgspec
import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_ray.maintenance.audit import Finding, audit
from django_ray.maintenance.ledger import FINDINGS
from django_ray.management.commands.django_ray_audit_workflow_progress import TOLD
from django_ray.models.progress import WorkflowRun
from django_ray.progress import pages as pages_codec
from django_ray.progress import stages as rollup_codec
from django_ray.progress.delta import Publication
from django_ray.protocol import canonical, records, summary
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    DetailAvailability,
    ReportingPolicy,
    WorkflowState,
)
from django_ray.storage.stage import stage
from tests.app.endings import ended
from tests.storage import helpers
from tests.storage.helpers import Book

pytestmark = pytest.mark.django_db


@pytest.fixture
def conn(db):
    """A connection that really commits, as the collector's; then nothing is left."""
    with psycopg.connect(helpers.dsn(), autocommit=True) as opened:
        yield opened
        opened.execute("DELETE FROM django_ray_execution")


@pytest.fixture
def book(conn):
    return loaded(conn, 300)


def loaded(conn, nodes):
    """A run whose pending nodes are published with their stage row."""
    book = Book.open(conn)
    book.commit(conn, book.growth(conn, nodes, stages=rollup(pending=nodes)))
    return book


def rollup(**counts):
    return helpers.rollup([counts.get(state.lower(), 0) for state in NODE_STATES])


def publication(book, states, **extra):
    """Compose a publication of RUNNING nodes with a stage row that agrees."""
    running, nodes = len(states), len(book.states)
    stages = rollup(running=running, pending=nodes - running)
    return book.publication(states, message="hello", stages=stages, **extra)


def codes(book):
    return {finding.code for finding in audit(book.identity.run_id).findings}


def test_a_published_run_is_clean_and_counted(conn, book):
    book.commit(conn, publication(book, {7: "RUNNING"}, events=b"[]"))
    found = audit(book.identity.run_id)
    size = conn.execute("SELECT detail_bytes FROM django_ray_run").fetchone()[0]
    assert found.findings == ()
    assert found.is_clean
    assert (found.nodes, found.edges, found.rows, found.bytes) == (300, 299, 300, size)


def test_a_run_that_has_begun_and_published_nothing_is_clean(conn):
    assert codes(Book.open(conn)) == set()


def test_a_pending_candidate_is_clean(conn, book):
    stage(conn, *book.args, helpers.candidate(2, 301))
    assert codes(book) == set()


def test_an_unknown_run_is_missing():
    found = audit(str(uuid.uuid4()))
    assert found.findings == (Finding("run_missing"),)
    assert not found.is_clean


ROW = "UPDATE django_ray_node_detail SET {} WHERE ordinal = 3"
PAGE = "UPDATE django_ray_page SET {} WHERE item_count = 44"
STAGE = {"stage_rows", "stage_kept", "stage_edges"}
DAMAGES = {
    "row gone": (
        "DELETE FROM django_ray_node_detail WHERE ordinal = 3",
        {"rows_missing", "total_rows", "total_bytes", "summary_retained"},
    ),
    "row key": (ROW.format("node_key = sha256('other')"), {"row_key"}),
    "row id": (ROW.format("node_id = 'other'"), {"row_key", "row_without_node"}),
    "row ordinal": (
        "UPDATE django_ray_node_detail SET ordinal = 300 WHERE ordinal = 3",
        {"row_without_node"},
    ),
    "row state": (ROW.format("state = 2"), {"row_state"}),
    "row record": (ROW.format("record = '{'"), {"row_record", "total_bytes"}),
    "row revision": (ROW.format("detail_revision = 2"), {"row_revision"}),
    "row revision none": (ROW.format("detail_revision = 0"), {"row_revision"}),
    "total rows": ("UPDATE django_ray_run SET detail_rows = 299", {"total_rows"}),
    "total bytes": ("UPDATE django_ray_run SET detail_bytes = 1", {"total_bytes"}),
    "page gone": (
        "DELETE FROM django_ray_page WHERE item_count = 44",
        {"topology_missing", "row_without_node"},
    ),
    "page body": (
        PAGE.format("body = set_byte(body, 40, get_byte(body, 40) # 1)"),
        {"topology_corrupt", "row_without_node"},
    ),
    "page size": (
        PAGE.format("decoded_size = decoded_size + 1"),
        {"topology_corrupt", "page_decoded_size"},
    ),
    "page items": (PAGE.format("item_count = 45"), {"topology_corrupt"}),
    "page orphan": (
        "INSERT INTO django_ray_page (run_id, digest, kind, item_count, encoding,"
        " encoded_size, decoded_size, body, created_at) SELECT id, sha256('orphan'),"
        " 'nodes', 1, 'identity', 1, 1, 'x', now() FROM django_ray_run",
        {"pages_orphaned"},
    ),
    "manifest gone": (
        "DELETE FROM django_ray_manifest",
        {
            *("manifest_missing", "pages_orphaned", "row_without_node"),
            *("summary_pointers", "summary_retained"),
        },
    ),
    "manifest digest": (
        "UPDATE django_ray_manifest SET digest = sha256('other')",
        {"topology_corrupt", "row_without_node"},
    ),
    "manifest nodes": (
        "UPDATE django_ray_manifest SET node_count = 301",
        {"topology_corrupt", "row_without_node"},
    ),
    "manifest edges": (
        "UPDATE django_ray_manifest SET edge_count = 300",
        {"topology_corrupt", "row_without_node", "summary_retained"},
    ),
    "manifest order": (
        "UPDATE django_ray_manifest SET page_digests ="
        " substring(page_digests FROM 33 FOR 32) || substring(page_digests FOR 32)"
        " || substring(page_digests FROM 65)",
        {"topology_corrupt", "row_without_node"},
    ),
    "manifest superseded": (
        "INSERT INTO django_ray_manifest (run_id, topology_version, published,"
        " node_count, edge_count, page_count, encoded_bytes, decoded_bytes,"
        " page_digests, digest, created_at) SELECT run_id, 2, true, node_count,"
        " edge_count, page_count, encoded_bytes, decoded_bytes, page_digests, digest,"
        " now() FROM django_ray_manifest",
        {"manifest_superseded"},
    ),
    "candidate version": (
        "UPDATE django_ray_manifest SET published = false",
        {
            *("candidate_version", "manifest_missing", "row_without_node"),
            *("summary_pointers", "summary_retained"),
        },
    ),
    "row stage": (ROW.format("stage = 1"), {"row_stage"}),
    "row stage other": (ROW.format("stage = 63"), {"row_stage"}),
    "every row's stage": (
        "UPDATE django_ray_node_detail SET stage = 1",
        {"row_stage_unknown", *STAGE},
    ),
    "row not canonical": (
        ROW.format("record = convert_to(convert_from(record, 'UTF8') || ' ', 'UTF8')"),
        {"row_record", "total_bytes"},
    ),
    "retention": (
        "UPDATE django_ray_run SET retention_days = 3",
        {"summary_retention"},
    ),
    "stages": ("UPDATE django_ray_stages SET body = '{'", {"stages"}),
    "events": ("UPDATE django_ray_run SET events = '{'", {"events"}),
    "summary gone": (
        "UPDATE django_ray_execution SET progress_summary = NULL",
        {"summary_missing"},
    ),
    "summary bytes": (
        "UPDATE django_ray_execution SET progress_summary = '{'",
        {"summary_corrupt"},
    ),
    "run revision": (
        "UPDATE django_ray_run SET summary_revision = 2",
        {"summary_revision"},
    ),
    "run revision behind": (
        "UPDATE django_ray_run SET summary_revision = 0",
        {"summary_revision"},
    ),
    "detail revision": (
        "UPDATE django_ray_run SET detail_revision = 2",
        {"summary_pointers"},
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_disagreement_is_found_by_its_name(conn, book, damage):
    query, expected = DAMAGES[damage]
    conn.execute(query)
    assert codes(book) == expected


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([1_024] * 32, set()),
        ([1_025], {"events"}),
        ([100] * 33, {"events"}),
    ],
    ids=["at the caps", "one too large", "one too many"],
)
def test_events_are_within_their_caps(conn, book, events, found):
    empty = len(records.encode(records.EventItem(at_ms=1, kind="k", text="")))
    # The name of an empty text is not written.
    name = len(records.encode(records.EventItem(at_ms=1, kind="k", text="x"))) - 1
    assert name > empty
    items = [
        records.EventItem(at_ms=1, kind="k", text="x" * (size - name))
        for size in events
    ]
    conn.execute("UPDATE django_ray_run SET events = %s", (canonical.encode(items),))
    assert codes(book) == found


def test_a_finding_says_where(conn, book):
    conn.execute(ROW.format("state = 2"))
    assert audit(book.identity.run_id).findings == (Finding("row_state", 3),)


def test_a_summary_of_another_run_is_found(conn, book):
    other = Book.open(conn)
    first = other.publication()
    other.commit(conn, first)
    conn.execute(
        "UPDATE django_ray_execution SET progress_summary = %s WHERE id = %s",
        (first.summary, book.identity.task_execution_pk),
    )
    assert codes(book) == {"summary_foreign"}


def end(book: Book, states, *, derived=False, ahead=0, **counts) -> Publication:
    """Compose the end of a run whose summary counts what it is told."""
    publication = book.publication(states, stages=rollup(**counts))
    said = summary.decode(publication.summary)
    ended = msgspec.structs.replace(
        said,
        state=WorkflowState.SUCCEEDED,
        ended_at_ms=1,
        expires_at_ms=1,
        node_counts=summary.NodeCounts(**counts),
        discovered_nodes=sum(counts.values()),
        revision=said.revision + ahead,
        terminal=summary.Terminal(
            derived=derived, outcome=WorkflowState.SUCCEEDED, reason="reported"
        ),
    )
    return dataclasses.replace(
        publication, summary=summary.encode(ended), expires_at_ms=1
    )


def test_the_seven_counts_of_an_ended_run_equal_the_rows_states(conn):
    book = Book.loaded(conn, 3)
    book.commit(conn, end(book, {0: "SUCCEEDED"}, succeeded=1, pending=2))
    assert codes(book) == set()


def test_counts_that_are_not_the_rows_are_found(conn):
    book = Book.loaded(conn, 3)
    book.commit(conn, end(book, {0: "SUCCEEDED"}, succeeded=2, pending=1))
    assert codes(book) == {"summary_counts"}


def resummarize(conn, book, **changes):
    """Change what the stored summary says, and nothing else."""
    row = conn.execute("SELECT progress_summary FROM django_ray_execution").fetchone()
    said = msgspec.structs.replace(summary.decode(row[0]), **changes)
    conn.execute(
        "UPDATE django_ray_execution SET progress_summary = %s", (summary.encode(said),)
    )


TRUNCATED = summary.Detail(
    availability=DetailAvailability.TRUNCATED, complete=False, reasons=()
)
UNREPORTED = summary.Detail(
    availability=DetailAvailability.NOT_REPORTED, complete=False, reasons=()
)
STAGES = {
    "equal": ({"pending": 3}, {}, set()),
    "another state": ({"pending": 2, "running": 1}, {}, {"stages_counts"}),
    "too many": ({"pending": 4}, {}, {"stages_counts"}),
    "too few of complete detail": ({"pending": 2}, {}, {"stages_counts"}),
    "none of complete detail": ({}, {}, {"stages_counts"}),
    "not registered yet": (
        {"pending": 3},
        {
            "detail": TRUNCATED,
            "node_counts": summary.NodeCounts(pending=4),
            "discovered_nodes": 4,
        },
        set(),
    ),
    "too many of a subset": (
        {"pending": 2, "running": 1},
        {"detail": TRUNCATED},
        {"stages_counts"},
    ),
    "policy": ({}, {"policy": ReportingPolicy.summary}, set()),
}


@pytest.mark.parametrize("case", STAGES)
def test_the_stages_counts_together_are_the_summarys(conn, case):
    counts, changes, found = STAGES[case]
    book = loaded(conn, 3)
    conn.execute("UPDATE django_ray_stages SET body = %s", (rollup(**counts),))
    resummarize(conn, book, **changes)
    assert codes(book) == found


@pytest.mark.parametrize(
    ("derived", "found"), [(False, {"stages_counts"}), (True, set())]
)
def test_a_derived_success_changes_the_summarys_counts_only(conn, derived, found):
    book = loaded(conn, 3)
    resummarize(
        conn,
        book,
        detail=TRUNCATED,
        node_counts=summary.NodeCounts(succeeded=3),
        revision=book.base.summary + derived,
        state=WorkflowState.SUCCEEDED,
        terminal=summary.Terminal(
            derived=derived, outcome=WorkflowState.SUCCEEDED, reason="x"
        ),
    )
    assert codes(book) == found


def test_of_an_ended_run_every_node_is_in_a_stage(conn):
    book = loaded(conn, 3)
    conn.execute("UPDATE django_ray_stages SET body = %s", (rollup(pending=2),))
    resummarize(
        conn,
        book,
        detail=TRUNCATED,
        state=WorkflowState.FAILED,
        terminal=summary.Terminal(
            derived=False, outcome=WorkflowState.FAILED, reason="reported"
        ),
    )
    assert codes(book) == {"stages_counts"}


def test_counts_of_incomplete_detail_are_not_compared(conn):
    book = Book.loaded(conn, 3)
    publication = end(book, {0: "SUCCEEDED"}, succeeded=3)
    truncated = summary.Detail(
        availability=DetailAvailability.TRUNCATED, complete=False, reasons=()
    )
    book.commit(conn, helpers.resummarized(publication, detail=truncated))
    assert codes(book) == set()


@pytest.mark.parametrize(
    ("ahead", "found"), [(0, {"summary_revision"}), (1, set()), (2, set())]
)
def test_a_derived_summary_is_ahead_of_the_producers_last(conn, ahead, found):
    book = Book.loaded(conn, 3)
    derived = end(book, {}, derived=True, ahead=ahead - 1, succeeded=3)
    conn.execute(
        "UPDATE django_ray_execution SET progress_summary = %s", (derived.summary,)
    )
    assert codes(book) == found


def test_a_retried_run_is_compared_with_its_attempts_summary(conn):
    book = closed(conn)
    conn.execute(
        "UPDATE django_ray_execution SET run_id = gen_random_uuid(),"
        " attempt_number = 9, execution_generation = 9, progress_summary = NULL"
    )
    assert codes(book) == set()
    conn.execute("UPDATE django_ray_attempt SET terminal_summary = NULL")
    assert codes(book) == {"summary_missing", "attempt_summary"}


@pytest.mark.parametrize(("revision", "found"), [(0, set()), (1, {"summary_foreign"})])
def test_an_earlier_summary_stands_until_the_next_run_publishes(conn, revision, found):
    Book.loaded(conn, 3)
    conn.execute(
        "UPDATE django_ray_execution SET run_id = gen_random_uuid(),"
        " attempt_number = attempt_number + 1,"
        " execution_generation = execution_generation + 1"
    )
    conn.execute(
        "INSERT INTO django_ray_run (run_id, execution_id, attempt_number,"
        " execution_generation, writer_epoch, summary_revision, detail_revision,"
        " topology_version, detail_rows, detail_bytes, retention_days, created_at)"
        " SELECT run_id, id, attempt_number, execution_generation, 1, %s, 0, 0, 0, 0, 7,"
        " now() FROM django_ray_execution",
        (revision,),
    )
    run_id = WorkflowRun.objects.latest("pk").run_id
    assert {finding.code for finding in audit(str(run_id)).findings} == found


@pytest.mark.django_db(transaction=True)
def test_an_audit_of_a_live_run_sees_one_commit(conn, book):
    queries = []

    def publish(execute, sql, params, many, context):
        queries.append(sql)
        if "node_detail" in sql:
            book.commit(conn, publication(book, {1: "RUNNING"}))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(publish):
        found = audit(book.identity.run_id)
    assert found.findings == ()
    assert book.states[1] == "RUNNING"
    assert "REPEATABLE READ, READ ONLY" in queries[0]


def rerolled(conn, **changes):
    """Change what the stored stage row says, and nothing else."""
    row = conn.execute("SELECT body FROM django_ray_stages").fetchone()
    said = msgspec.structs.replace(rollup_codec.decode(row[0]), **changes)
    conn.execute("UPDATE django_ray_stages SET body = %s", (canonical.encode(said),))


def stage_row(conn):
    row = conn.execute("SELECT body FROM django_ray_stages").fetchone()
    return rollup_codec.decode(row[0])


EDGE = rollup_codec.StageEdge
EDGES = {
    "fewer": ((EDGE(source=0, target=0, edges=298),), 0, {"stage_edges"}),
    "more": ((EDGE(source=0, target=0, edges=300),), 0, {"stage_edges"}),
    "none": ((), 0, {"stage_edges", "stage_edges_number"}),
    "one left out": ((), 1, set()),
    "two left out": ((), 2, {"stage_edges_number"}),
    "of another stage": (
        (EDGE(source=0, target=0, edges=299), EDGE(source=0, target=1, edges=1)),
        0,
        {"stage_edges_number"},
    ),
}


@pytest.mark.parametrize("case", EDGES)
def test_the_edges_between_stages_are_the_topologys(conn, book, case):
    edges, omitted, found = EDGES[case]
    rerolled(conn, edges=edges, edges_omitted=omitted)
    assert codes(book) == found


@pytest.mark.parametrize(
    ("number", "found"), [(298, {"stage_edges"}), (299, set()), (300, set())]
)
def test_a_subsets_edges_are_no_more_than_the_stages(conn, book, number, found):
    resummarize(conn, book, detail=TRUNCATED)
    rerolled(conn, edges=(EDGE(source=0, target=0, edges=number),))
    assert codes(book) == found


@pytest.mark.parametrize(("kept", "found"), [(299, {"stage_kept"}), (300, set())])
def test_the_kept_nodes_of_a_stage_are_its_rows(conn, book, kept, found):
    (one,) = stage_row(conn).stages
    rerolled(conn, stages=(msgspec.structs.replace(one, kept=kept),))
    assert codes(book) == found


def test_an_index_is_of_one_stage(conn, book):
    pages = helpers.node_pages(0, 256)[0]
    items = pages_codec.decode(pages.body, pages.encoding, pages.digest, "nodes")
    renamed = [
        *items[:200],
        *(msgspec.structs.replace(item, stage="other") for item in items[200:]),
    ]
    page = pages_codec.seal("nodes", 256, canonical.encode(renamed))
    grown = helpers.of_pages(
        2,
        [page, *helpers.node_pages(256, 300), *helpers.edge_pages(helpers.chain(300))],
        300,
        299,
    )
    staged = stage(conn, *book.args, grown)
    book.commit(conn, book.publication(staged=(grown, staged.manifest_id)))
    assert codes(book) == {"row_stage"}


def attempted(conn, book, state="SUCCEEDED", **changes):
    """End a run as the lifecycle does: terminal summary, its copy, its expiry."""
    publication = end(book, {}, succeeded=3)
    said = msgspec.structs.replace(
        summary.decode(publication.summary), expires_at_ms=EXPIRES_MS, **changes
    )
    told = {"summary": summary.encode(said), "expires_at_ms": EXPIRES_MS}
    book.commit(conn, dataclasses.replace(publication, **told))
    conn.execute("UPDATE django_ray_execution SET state = %s", (state,))
    conn.execute(
        "INSERT INTO django_ray_attempt (execution_id, attempt_number,"
        " execution_generation, run_id, worker, state, claimed_at, error_class,"
        " error_text, terminal_summary)"
        " SELECT id, attempt_number, execution_generation, run_id, 'w', state,"
        " now(), '', '', progress_summary FROM django_ray_execution"
    )


EXPIRES_MS = int(time.time() + 86_400) * 1_000 + 123
ENDS = {
    "nothing": ("SELECT 1", set()),
    "copy gone": (
        "UPDATE django_ray_attempt SET terminal_summary = NULL",
        {"attempt_summary"},
    ),
    "copy corrupt": (
        "UPDATE django_ray_attempt SET terminal_summary = '{'",
        {"attempt_summary", "attempt_corrupt"},
    ),
    "copy state": (
        "UPDATE django_ray_attempt SET state = 'FAILED'",
        {"attempt_state"},
    ),
    "attempt gone": (
        "DELETE FROM django_ray_attempt",
        {"attempt_missing"},
    ),
    "no expiry": (
        "UPDATE django_ray_run SET expires_at = NULL",
        {"expiry_missing"},
    ),
    "another expiry": (
        "UPDATE django_ray_run SET expires_at = expires_at + interval '1 second'",
        {"expiry"},
    ),
    "an expiry that is no time": (
        "UPDATE django_ray_run SET expires_at = 'infinity'",
        {"expiry"},
    ),
    "times that are none": (
        "UPDATE django_ray_run SET created_at = '-infinity';"
        "UPDATE django_ray_manifest SET created_at = 'infinity';"
        "UPDATE django_ray_page SET created_at = 'infinity'",
        set(),
    ),
    "identity": (
        "UPDATE django_ray_run SET attempt_number = 7",
        {"attempt_foreign", "summary_foreign"},
    ),
    "row state": (
        "UPDATE django_ray_execution SET state = 'FAILED'",
        {"attempt_state", "summary_state"},
    ),
    "both states": (
        "UPDATE django_ray_execution SET state = 'FAILED';"
        "UPDATE django_ray_attempt SET state = 'FAILED'",
        {"summary_state"},
    ),
    "an attempt that goes on": (
        "UPDATE django_ray_execution SET state = 'RECONCILE';"
        "UPDATE django_ray_attempt SET state = 'RUNNING'",
        {"attempt_state"},
    ),
    "an operator's word": (
        "UPDATE django_ray_execution SET state = 'RECONCILE'",
        set(),
    ),
    "another end that is reconciled": (
        "UPDATE django_ray_execution SET state = 'RECONCILE';"
        "UPDATE django_ray_attempt SET state = 'LOST'",
        {"summary_state"},
    ),
    "no summary": (
        "UPDATE django_ray_execution SET progress_summary = NULL;"
        "UPDATE django_ray_attempt SET terminal_summary = NULL",
        {"attempt_summary", "summary_missing"},
    ),
    "of an earlier attempt": (
        "UPDATE django_ray_execution SET run_id = NULL, progress_summary = NULL,"
        " state = 'RETRY_WAIT'; UPDATE django_ray_attempt SET state = 'FAILED'",
        {"summary_state"},
    ),
}


def closed(conn):
    """A run of three nodes that has succeeded."""
    book = Book.open(conn)
    book.commit(conn, book.growth(conn, 3))
    states = dict.fromkeys(range(3), "SUCCEEDED")
    book.commit(conn, book.publication(states))
    attempted(conn, book)
    return book


@pytest.mark.parametrize("case", ENDS)
def test_an_ended_runs_copies_and_expiry_agree(conn, case):
    damage, found = ENDS[case]
    book = closed(conn)
    conn.execute(damage)
    assert codes(book) == found


@pytest.mark.parametrize(
    ("state", "terminal"),
    [("RUNNING", None), ("SUCCEEDED", None), ("SUCCEEDED", "FAILED")],
)
def test_an_ended_rows_summary_has_its_end(conn, state, terminal):
    book = closed(conn)
    outcome = terminal and WorkflowState(terminal)
    end = terminal and summary.Terminal(derived=False, outcome=outcome, reason="x")
    resummarize(conn, book, state=WorkflowState(state), terminal=end)
    conn.execute(
        "UPDATE django_ray_attempt SET terminal_summary ="
        " (SELECT progress_summary FROM django_ray_execution)"
    )
    assert codes(book) == {"summary_state"}


@pytest.mark.parametrize(
    ("state", "found"), [("SUCCEEDED", set()), ("FAILED", {"summary_state"})]
)
def test_a_run_that_never_published_has_its_end_too(conn, state, found):
    book = closed(conn)
    resummarize(conn, book, detail=UNREPORTED)
    conn.execute("DELETE FROM django_ray_run")
    conn.execute("UPDATE django_ray_execution SET state = %s", (state,))
    assert codes(book) == found


def test_no_unbounded_column_is_read(conn, book):
    with CaptureQueriesContext(connection) as queries:
        audit(book.identity.run_id)
    said = " ".join(query["sql"] for query in queries)
    for column in ("progress_data", "arguments", '"result"', "error_text"):
        assert column not in said


def test_of_an_expired_run_nothing_is_compared(conn):
    book = ended(conn, 300)
    conn.execute("DELETE FROM django_ray_node_detail WHERE ordinal < 100")
    found = audit(book.identity.run_id)
    assert found.is_expired
    assert found.is_clean


def test_what_expired_and_went_is_no_disagreement(conn):
    book = Book.loaded(conn, 3)
    conn.execute("DELETE FROM django_ray_run")
    assert codes(book) == {"run_missing"}
    resummarize(conn, book, expires_at_ms=1)
    assert codes(book) == set()
    assert audit(book.identity.run_id).is_expired


def test_a_run_that_never_published_needs_no_row(conn):
    identity = helpers.execution(conn)
    assert audit(identity.run_id).is_clean


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_findings_are_kept_up_to_a_bound_and_counted_past_it(conn, book, over):
    conn.execute(
        "INSERT INTO django_ray_node_detail (run_id, ordinal, node_key, node_id,"
        " stage, state, detail_revision, record) SELECT r.id, 1000 + n,"
        " sha256(('extra' || n)::bytea), 'extra' || n, 0, 0, 1,"
        " convert_to('{}', 'UTF8') FROM django_ray_run AS r,"
        " generate_series(1, %s) AS n",
        # Besides: the totals of rows and bytes, and what the summary says it retains.
        (FINDINGS - 3 + over,),
    )
    found = audit(book.identity.run_id)
    assert len(found.findings) == min(FINDINGS, FINDINGS + over)
    assert found.disagreements == FINDINGS + over


COMMAND = "django_ray_audit_workflow_progress"


def test_the_command_audits_every_run_and_says_what_it_counted(conn, book, capsys):
    Book.loaded(conn, 3)
    call_command(COMMAND)
    said = capsys.readouterr().out
    assert "2 runs: 303 nodes, 301 edges, 303 rows" in said


def test_the_command_names_what_disagrees_and_fails(conn, book, capsys):
    conn.execute(
        "UPDATE django_ray_node_detail SET state = 2 WHERE ordinal IN (3, 5, 7)"
    )
    with pytest.raises(SystemExit) as caught:
        call_command(COMMAND)
    assert caught.value.code == 1
    said = capsys.readouterr().out
    assert f"{book.identity.run_id}: row_state at 3, and 2 more" in said


def test_the_command_audits_one_run_by_its_id_or_its_executions(conn, book, capsys):
    other = Book.loaded(conn, 3)
    conn.execute(
        "UPDATE django_ray_run SET detail_bytes = 1 WHERE id = %s",
        (other.begun.run_pk,),
    )
    (public_id,) = conn.execute(
        "SELECT public_id FROM django_ray_execution WHERE id = %s",
        (book.identity.task_execution_pk,),
    ).fetchone()
    for name in (book.identity.run_id, str(public_id)):
        call_command(COMMAND, name)
    assert capsys.readouterr().out.count("1 run: 300 nodes") == 2
    with pytest.raises(SystemExit):
        call_command(COMMAND, other.identity.run_id)


def test_the_command_says_that_there_is_no_such_run():
    with pytest.raises(CommandError) as caught:
        call_command(COMMAND, str(uuid.uuid4()))
    assert caught.value.returncode == 4


def test_the_command_tells_a_bounded_number_of_runs(conn, capsys):
    for _ in range(TOLD + 2):
        Book.open(conn)
    conn.execute("UPDATE django_ray_run SET summary_revision = 1")
    with pytest.raises(SystemExit):
        call_command(COMMAND)
    said = capsys.readouterr().out
    assert said.count("summary_missing") == TOLD
    assert "2 more runs disagree" in said


def test_every_code_stands_on_the_operators_page():
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "howto" / "operate-audit.md").read_text()
    told = set(re.findall(r"`([a-z_]+)`", page))
    found = {
        f"{word}_{fault}" for word in ("topology", "candidate") for fault in FAULTS
    }
    for path in (root / "django_ray" / "maintenance").glob("*.py"):
        found.update(re.findall(r"""find\(\s*"([a-z_]+)\"""", path.read_text()))
    assert len(found) > 30
    assert found == told


FAULTS = ("missing", "corrupt")


@pytest.mark.deep
def test_a_run_of_25000_rows_is_counted(conn):
    book = loaded(conn, 25_000)
    found = audit(book.identity.run_id)
    assert found.findings == ()
    assert (found.nodes, found.edges, found.rows) == (25_000, 24_999, 25_000)
