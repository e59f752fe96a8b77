"""What the readers cost: the same statements at any size, each through its own index."""

import datetime as dt
import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_ray.models.executions import (
    ExecutionLease,
    RayTaskExecution,
    TaskAttempt,
)
from django_ray.models.progress import TopologyManifest, WorkflowRun
from django_ray.protocol.vocabulary import ExecutionState, NodeState
from django_ray.readers import services
from django_ray.readers.attempts import AttemptsQuery
from django_ray.readers.changes import ChangesQuery
from django_ray.readers.graph import GraphQuery
from django_ray.readers.nodes import NodeQuery, NodesQuery
from django_ray.readers.public import SummaryQuery
from django_ray.readers.run import Query
from django_ray.readers.runs import RunsQuery
from tests.app import pictures, published
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)

DETAIL = "django_ray_node_detail_pkey"
PAGE = "django_ray_page_digest"
NODE = "1.layer0[part-000001]"

QUESTIONS = {
    "summary": (services.summary, SummaryQuery()),
    "summary of an attempt": (services.summary, SummaryQuery(attempt=1)),
    "attempts": (services.attempts, AttemptsQuery()),
    "nodes": (services.nodes, NodesQuery()),
    "nodes of a state": (services.nodes, NodesQuery(state=(NodeState.FAILED,))),
    "nodes of a stage": (services.nodes, NodesQuery(stage=3)),
    "nodes by prefix": (services.nodes, NodesQuery(prefix="1.layer3[")),
    "newest nodes": (services.nodes, NodesQuery(order="newest")),
    "node": (services.node, NodeQuery(id=NODE)),
    "changes": (services.changes, ChangesQuery()),
    "changes since": (services.changes, ChangesQuery(since=1, after=5)),
    "topology nodes": (services.topology_nodes, GraphQuery()),
    "topology edges": (services.topology_edges, GraphQuery()),
    "topology edges from": (services.topology_edges, GraphQuery(start=5)),
    "stages": (services.stages, Query()),
    "events": (services.events, Query()),
    "failures": (services.failures, Query()),
}

OWN = {
    "django_ray_execution": "django_ray_execution_public_id",
    "django_ray_lease": "django_ray_lease_pkey",
    "django_ray_manifest": "django_ray_manifest_pkey",
    "django_ray_run": "django_ray_run_pkey",
    "django_ray_attempt": "django_ray_attempt_number",
    "django_ray_node_detail": DETAIL,
    "django_ray_page": PAGE,
    "django_ray_stages": "django_ray_stages_pkey",
}
"""The one index through which each table is read."""


def explained(statement):
    """Yield every scan of a statement's plan: table, index, and whether it is bounded."""
    with connection.cursor() as cursor:
        # Small tables are read whole whatever there is; here it counts what there is.
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
        (plan,) = cursor.fetchone()
        cursor.execute("RESET enable_seqscan")
    plan = plan if isinstance(plan, list) else json.loads(plan)
    nodes = [plan[0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node["Node Type"] == "Bitmap Heap Scan":
            (below,) = node["Plans"]
            yield node["Relation Name"], below.get("Index Name"), "Index Cond" in below
        elif "Relation Name" in node:
            yield node["Relation Name"], node.get("Index Name"), "Index Cond" in node


def statements(question):
    """Return the statements that read a table, of one question."""
    with CaptureQueriesContext(connection) as queries:
        question()
    return [
        query["sql"] for query in queries.captured_queries if "FROM" in query["sql"]
    ]


def ask(run, root, name):
    service, query = QUESTIONS[name]
    public_id = run.public_id
    return lambda: service(public_id, root, query)


def made(conn, nodes):
    small = published.chain(nodes) if nodes < 250 else None
    run = Published(conn, nodes, 4 * nodes, graph=small)
    run.move(range(3), "FAILED", kind="ValueError", text="no")
    return run


def add_executions(count):
    return RayTaskExecution.objects.bulk_create(
        RayTaskExecution(
            public_id=uuid.uuid4(),
            task_path="science.tasks.rnaseq",
            backend="default",
            queue_name="default",
            state="SUCCEEDED" if n % 50 else "RUNNING",
            enqueued_at=pictures.NOW - dt.timedelta(seconds=n),
        )
        for n in range(count)
    )


def surround(executions):
    """Give each execution a lease, a run, a manifest and an attempt: bystanders."""
    ExecutionLease.objects.bulk_create(
        ExecutionLease(
            execution=row, owner="w", lease_epoch=1, expires_at=row.enqueued_at
        )
        for row in executions
    )
    run = {"attempt_number": 1, "execution_generation": 1}
    runs = WorkflowRun.objects.bulk_create(
        WorkflowRun(
            execution=row,
            run_id=uuid.uuid4(),
            retention_days=7,
            created_at=row.enqueued_at,
            **run,
        )
        for row in executions
    )
    TopologyManifest.objects.bulk_create(
        TopologyManifest(
            run=each,
            topology_version=1,
            node_count=0,
            edge_count=0,
            page_count=0,
            encoded_bytes=0,
            decoded_bytes=0,
            page_digests=b"",
            digest=b"d" * 32,
            created_at=each.created_at,
        )
        for each in runs
    )
    TaskAttempt.objects.bulk_create(
        TaskAttempt(
            execution=row,
            run_id=uuid.uuid4(),
            worker="w",
            state="FAILED",
            claimed_at=row.enqueued_at,
            **run,
        )
        for row in executions
    )


def test_every_question_takes_as_many_statements_of_25000_nodes_as_of_10(conn, root):
    small, large = made(conn, 10), made(conn, 25_000)
    counts = {}
    for name in QUESTIONS:
        of_small = statements(ask(small, root, name))
        of_large = statements(ask(large, root, name))
        assert len(of_small) == len(of_large), name
        counts[name] = len(of_large)
    # Execution, then manifest with its run, then what is asked for.
    assert counts["summary"] == 1
    assert counts["nodes"] == counts["node"] == counts["changes"] == 3
    assert counts["nodes of a state"] == counts["failures"] == counts["stages"] == 3
    assert counts["topology nodes"] == counts["topology edges"] == 4
    assert counts["topology edges from"] == 6


def test_every_question_reads_each_table_through_its_own_index(conn, root):
    run = made(conn, 5_000)
    made(conn, 2_000)
    surround(add_executions(1_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    for name in QUESTIONS:
        for statement in statements(ask(run, root, name)):
            for table, index, bounded in explained(statement):
                if name == "node" and table == "django_ray_node_detail":
                    assert index == "django_ray_node_detail_key"
                elif table in OWN:
                    assert index == OWN[table], (name, statement)
                assert bounded, (name, statement)
            # That there is a legacy snapshot may be asked, not what it holds.
            asked = statement.replace("e.progress_data IS NOT NULL", "")
            assert "progress_data" not in asked


def test_the_list_is_read_in_the_order_of_an_index(root):
    add_executions(2_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_ray_execution")
    first = services.runs(root, RunsQuery())
    for query, index in (
        (RunsQuery(), "django_ray_execution_age"),
        (RunsQuery(cursor=first.next_cursor), "django_ray_execution_age"),
        (RunsQuery(state=(ExecutionState.RUNNING,)), "django_ray_execution_active"),
    ):
        listing, reading = statements(lambda query=query: services.runs(root, query))
        assert {found for _, found, _ in explained(listing)} == {index}
        scans = {table: found for table, found, _ in explained(reading)}
        assert scans["django_ray_execution"] == "django_ray_execution_pkey"
        assert "COUNT(" not in listing
