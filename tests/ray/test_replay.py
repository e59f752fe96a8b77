"""Recorded scientific workflows, run again: what is published is the file's own graph."""

from pathlib import Path

import pytest
from django.tasks import TaskResultStatus

from django_ray.maintenance.audit import audit
from django_ray.models.progress import NodeDetail, TopologyManifest, TopologyPage
from django_ray.progress import pages
from django_ray.protocol import records
from django_ray.protocol.vocabulary import DetailAvailability, WorkflowState
from examples.census import tasks, wfformat
from tests.ray.working import row_of, summary_of, work

INSTANCES = Path(__file__).resolve().parents[3] / "shared" / "data" / "wfinstances"
FILES = sorted(INSTANCES.glob("*.json"), key=lambda path: path.stat().st_size)
SPEED = 2_000.0

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]


def published(run_id):
    """Return the node ids and the edges, by id, of the published topology."""
    manifest = TopologyManifest.objects.get(run__run_id=run_id, published=True)
    stored = TopologyPage.objects.in_bulk(field_name="id").values()
    found = {bytes(page.digest): page for page in stored}
    digests = bytes(manifest.page_digests)
    names, edges = {}, set()
    for at in range(0, len(digests), 32):
        page = found[digests[at : at + 32]]
        digest = bytes(page.digest)
        items = pages.decode(bytes(page.body), page.encoding, digest, page.kind)
        if page.kind == "nodes":
            names |= {item.ordinal: item.id for item in items}
        else:
            edges |= {(names[item.source], names[item.target]) for item in items}
    return set(names.values()), edges


@pytest.mark.skipif(not FILES, reason="the recorded workflows are absent")
@pytest.mark.parametrize(
    "files", [FILES[:2], pytest.param(FILES[2:], marks=pytest.mark.deep)]
)
def test_replay_publishes_the_files_own_nodes_and_edges(worker, files, subtests):
    # Side by side: what a run waits for, another computes.
    results = {
        path: tasks.replay.enqueue(path=str(path), speed=SPEED) for path in files
    }
    work(worker, *results.values())

    for path, result in results.items():
        with subtests.test(path.name):
            require_the_files_own(wfformat.read(path), result)


def require_the_files_own(steps, result):
    """Succeeded, with the file's nodes and edges, host and times, and a clean audit."""
    assert result.status is TaskResultStatus.SUCCESSFUL
    summary = summary_of(result)
    assert summary.state is WorkflowState.SUCCEEDED
    assert summary.node_counts.succeeded == summary.discovered_nodes == len(steps)
    assert summary.detail.availability is DetailAvailability.AVAILABLE
    run_id = str(row_of(result).run_id)
    nodes, edges = published(run_id)
    assert nodes == {step.id for step in steps}
    assert edges == {(parent, step.id) for step in steps for parent in step.parents}
    for row in NodeDetail.objects.filter(run__run_id=run_id):
        detail = records.decode_detail(bytes(row.record))
        assert detail.host
        assert detail.started_ms <= detail.ended_ms
    assert result.return_value["wall_s"] >= wfformat.critical_path(steps) / SPEED
    assert not audit(run_id).findings
