"""Rows of one execution in the database, for the tests of readers."""

import datetime as dt
import threading

import msgspec
from django.db import connection

from django_ray.models.executions import ExecutionLease, RayTaskExecution, TaskAttempt
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    WorkflowRun,
)
from django_ray.progress.pages import manifest_digest
from django_ray.protocol import canonical, records
from django_ray.protocol import summary as codec
from django_ray.protocol.vocabulary import NODE_STATES
from tests.app import pictures


def make_row(**changes):
    """Store an execution without a summary."""
    values = {
        "public_id": pictures.PUBLIC_ID,
        "task_path": "science.tasks.rnaseq",
        "backend": "default",
        "queue_name": "default",
        "state": "RUNNING",
        "attempt_number": 1,
        "execution_generation": 1,
        "run_id": pictures.RUN_ID,
        "enqueued_at": pictures.NOW - dt.timedelta(seconds=530),
        "started_at": pictures.NOW - dt.timedelta(seconds=520),
        "options": {"policy": "full"},
    }
    return RayTaskExecution.objects.create(**{**values, **changes})


def report(row, **changes):
    """Store a summary of the row's current run; return it."""
    run = codec.Run(
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=str(row.run_id),
        task_execution_pk=row.pk,
    )
    summary = msgspec.structs.replace(
        pictures.make_summary(**changes.pop("made", {})), **{"run": run, **changes}
    )
    row.progress_summary = codec.encode(summary)
    row.save(update_fields=["progress_summary"])
    return summary


def make_run(row):
    """Store the run row of the current run, and the manifest its summary names."""
    said = codec.decode(bytes(row.progress_summary)) if row.progress_summary else None
    run = WorkflowRun.objects.create(
        execution=row,
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=row.run_id,
        retention_days=7,
        created_at=pictures.NOW,
        summary_revision=said.revision if said else 0,
        detail_revision=(said.detail_revision or 0) if said else 0,
        topology_version=(said.topology_version or 0) if said else 0,
        detail_rows=said.retained_nodes if said else 0,
    )
    if said and said.topology_version:
        add_manifest(run, said)
    return run


def add_manifest(run, said):
    """Store the published manifest that a summary names; it holds one page's digest."""
    digest = b"d" * 32
    counts = (said.retained_nodes, said.retained_edges)
    TopologyManifest.objects.create(
        pk=said.manifest_id,
        run=run,
        topology_version=said.topology_version,
        published=True,
        node_count=counts[0],
        edge_count=counts[1],
        page_count=1,
        encoded_bytes=1,
        decoded_bytes=1,
        page_digests=digest,
        digest=manifest_digest(*counts, [digest]),
        created_at=pictures.NOW,
    )


def add_node(run, ordinal, node_id, detail, *, stage=0, revision=1, record=None):
    """Store one retained node."""
    NodeDetail.objects.create(
        run=run,
        ordinal=ordinal,
        node_key=canonical.node_key(node_id),
        node_id=node_id,
        stage=stage,
        state=NODE_STATES.index(detail.state),
        detail_revision=revision,
        record=records.encode(detail) if record is None else record,
    )


def add_stages(run, body):
    """Store the stage row."""
    RunStages.objects.create(run=run, body=body)


def add_lease(row, seconds=30):
    """Store a lease that ends so many seconds from now."""
    ExecutionLease.objects.create(
        execution=row,
        owner="worker-1",
        lease_epoch=1,
        expires_at=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds),
    )


def add_attempt(row, error_class="", error_text=""):
    """Store the current attempt."""
    TaskAttempt.objects.create(
        execution=row,
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=row.run_id,
        worker="worker-1",
        state=row.state,
        claimed_at=pictures.NOW,
        error_class=error_class,
        error_text=error_text,
    )


def break_connection():
    """End this thread's connection from the server's side."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    killer = threading.Thread(target=_terminate, args=(pid,))
    killer.start()
    killer.join()


def _terminate(pid):
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    finally:
        connection.close()
