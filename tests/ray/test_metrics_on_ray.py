"""What Ray exports of a run: names and labels as the table has them, and no run's id."""

import re
import urllib.request
from pathlib import Path

import pytest
import ray

from actors import names, remote
from actors.measures import METRICS, OTHER
from actors.names import ActorName
from cluster.runs import coordinator_of, execution
from cluster.runs import settings as run_settings
from django_ray.protocol import frames
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from tests.ray.conftest import wait_until

pytestmark = pytest.mark.ray

OWN = {metric.label for metric in METRICS} - {""}
LABELS = {f"ray_{metric.name}": (metric.label, *metric.values) for metric in METRICS}
SAMPLE = re.compile(r"(ray_django_ray\w+)\{(.*)\} (\S+)")
NODES = 3


def exported():
    """Return the samples of ours that the node's agent answers a scrape with."""
    node = ray.nodes()[0]
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [SAMPLE.fullmatch(line) for line in lines]
    return [
        (match[1], dict(re.findall(r'(\w+)="([^"]*)"', match[2])), float(match[3]))
        for match in found
        if match
    ]


def total(name, **labels):
    return sum(
        value
        for found, told, value in exported()
        if found == f"ray_django_ray_{name}" and labels.items() <= told.items()
    )


@pytest.fixture
def run(ray_cluster, transactional_db):
    """A run that is reported to its end, and its collector."""
    told = run_settings(execution())
    identity = told.identity
    producer = coordinator_of(told, tuple)
    for ordinal in range(NODES):
        producer.node(frames.Node(ordinal, f"1.n[{ordinal}]", "n", "stage", ()))
        producer.state(frames.State(ordinal, 0, 1, NodeState.RUNNING, 1_000))
    assert producer.settle(60)
    name = ActorName("collector", identity.run_id, identity.execution_generation)
    yield identity, ray.get_actor(str(name), namespace=remote.NAMESPACE)
    producer.stop()
    remote.kill(name)


def named(run_id):
    """Claim that the prefix of an actor's lines names its run."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    says = f":actor_name:Collector({names.short(run_id)})"
    return any(says in path.read_text() for path in logs.glob("worker-*.out"))


def test_a_collector_s_metrics_are_scraped_and_outlive_it(run):
    identity, actor = run
    before = total("updates_total", fate="applied")
    assert named(identity.run_id)

    actor.leave.remote()
    wait_until(lambda: total("updates_total", fate="applied") >= before + 2 * NODES)

    assert total("publications_total", outcome="published") >= 1
    assert total("published_rows_total") >= NODES
    assert total("publication_seconds_count") >= 1
    assert total("frames_total", status="applied") >= 1
    assert total("frame_bytes_total") > 0
    samples = exported()
    for name, labels, _ in samples:
        plain = re.sub(r"_(bucket|count|sum)$", "", name)
        label, *values = LABELS[plain if plain in LABELS else name]
        assert set(labels) & OWN == ({label} if label else set())
        assert not label or labels[label] in (*values, OTHER)
        assert identity.run_id not in labels.values()
        assert not any("1.n[" in value for value in labels.values())
    gone = [value for name, told, value in samples if name == "ray_django_ray_nodes"]
    assert len(gone) >= len(NODE_STATES)
    assert sum(gone) == 0
