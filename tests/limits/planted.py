"""Stored bytes of any size, planted behind the protocol, and what readers make of them."""

import datetime as dt
import hashlib
import uuid
import zlib

import msgspec
from django.db import connection

from django_ray.errors import IntegrityFault
from django_ray.maintenance.audit import audit
from django_ray.models.executions import RayTaskExecution
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    TopologyPage,
    WorkflowRun,
)
from django_ray.progress.pages import Manifest, manifest_digest
from django_ray.protocol import canonical
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import context, details, summary, topology
from tests.app import pictures, stored

SUMMARY = pictures.make_summary


def drop_checks():
    """Let the transaction's tables take what PostgreSQL would refuse."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint"
            " WHERE contype = 'c' AND conrelid::regclass::text LIKE 'django_ray_%'"
        )
        for table, name in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")


def execution(data=None, **changes):
    """Store an execution with these bytes as its summary."""
    unique = {"public_id": uuid.uuid4(), "run_id": uuid.uuid4()}
    row = stored.make_row(**{**unique, **changes})
    if data is not None:
        RayTaskExecution.objects.filter(pk=row.pk).update(progress_summary=data)
        row.progress_summary = data
    return row


def run(**changes):
    """Store a run row of an execution of its own."""
    row = execution()
    made = stored.make_run(row)
    WorkflowRun.objects.filter(pk=made.pk).update(**changes)
    made.refresh_from_db()
    return made


def reads_summary(data):
    """Claim that the reader of summaries takes these bytes as one of its run."""
    row = execution()
    named = data.replace(b"{pk}", str(row.pk).encode())
    named = named.replace(b"{run_id}", str(row.run_id).encode())
    RayTaskExecution.objects.filter(pk=row.pk).update(progress_summary=named)
    return summary.read_trusted(row.public_id).summary is not None


def summary_bytes(**changes):
    """Return a summary's bytes with places for the identity of its row."""
    made = msgspec.structs.replace(SUMMARY(), **changes)
    data = canonical.encode(made)
    said = canonical.encode(made.run)
    own = said.replace(b":5}", b":{pk}}").replace(
        str(pictures.RUN_ID).encode(), b"{run_id}"
    )
    assert said in data
    assert own.count(b"{") == 3
    return data.replace(said, own)


def selected(run, digests, nodes=1, edges=0):
    """Return a run as `context.select` does, without the manifest's row."""
    manifest = Manifest(
        version=1,
        node_count=nodes,
        edge_count=edges,
        encoded_bytes=1,
        decoded_bytes=1,
        digests=digests,
        digest=manifest_digest(nodes, edges, digests),
    )
    return context.Selected(run_pk=run.pk, detail_revision=9, manifest=manifest)


def reads_page(data, kind, count, encoding="identity"):
    """Claim that a page of these decoded bytes is read back from its row."""
    owner, digest = run(), hashlib.sha256(data).digest()
    body = zlib.compress(data) if encoding == "zlib" else data
    TopologyPage.objects.create(
        run=owner,
        digest=digest,
        kind=kind,
        item_count=count,
        encoding=encoding,
        encoded_size=len(body),
        decoded_size=len(data),
        body=body,
        created_at=pictures.NOW,
    )
    return _reads(topology.bodies, selected(owner, (digest,)), [digest])


def reads_nodes(*items):
    """Claim that a page of nodes is read back."""
    return reads_page(canonical.encode(items), "nodes", len(items))


def reads_record(data, node_id="n"):
    """Claim that a detail row with this record, of this node, is read back."""
    owner = run()
    NodeDetail.objects.create(
        run=owner,
        ordinal=0,
        node_key=canonical.node_key(node_id),
        node_id=node_id,
        stage=0,
        state=0,
        detail_revision=1,
        record=data,
    )
    found = selected(owner, (bytes(32),))
    (row,) = details.in_order(found, details.Filter(), most=1)
    return _reads(details.parse, found, row)


def reads_manifest(**changes):
    """Claim that a manifest row with these numbers is selected by its summary."""
    row = stored.make_row(public_id=uuid.uuid4(), run_id=uuid.uuid4())
    nodes = changes.pop("node_count", 1)
    edges = changes.pop("edge_count", 0)
    totals = {"detail_bytes": changes.pop("detail_bytes", 0), "detail_rows": nodes}
    said = stored.report(
        row, retained_nodes=min(nodes, 25_000), retained_edges=min(edges, 100_000)
    )
    said = msgspec.structs.replace(said, retained_nodes=nodes, retained_edges=edges)
    owner = stored.make_run(row)
    WorkflowRun.objects.filter(pk=owner.pk).update(**totals)
    TopologyManifest.objects.filter(run=owner).update(
        node_count=nodes,
        edge_count=edges,
        digest=manifest_digest(nodes, edges, [b"d" * 32]),
        **changes,
    )
    return _reads(context.select, said, dt.datetime.now(dt.UTC))


def reads_stages(data):
    """Claim that the audit, which reads every stage row, finds this one sound."""
    owner = run()
    RunStages.objects.create(run=owner, body=data)
    return not _found(owner) & {"stages", "stages_size"}


def reads_events(data):
    """Claim that the audit, which reads every run's events, finds these sound."""
    return "events" not in _found(run(events=data))


def reads_session(data):
    """Claim that the audit, which reads every run's session, finds this one sound."""
    return not _found(run(session=data)) & {"session", "session_size"}


def _found(owner):
    return {finding.code for finding in audit(str(owner.run_id)).findings}


def _reads(function, *arguments):
    try:
        function(*arguments)
    except IntegrityFault as fault:
        if fault.availability != DetailAvailability.CORRUPT:
            raise
        return False
    return True
