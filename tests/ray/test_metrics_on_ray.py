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
from django_ray.protocol.vocabulary import NodeState
from django_ray.tasks.options import enqueue_with
from tests.ray import tasks
from tests.ray.conftest import wait_until
from tests.ray.working import row_of, work

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]

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


def left(actors):
    """The processes whose last collector or owner has gone, as the gauge of it says."""
    name = f"ray_django_ray_{actors}"
    return {
        told["WorkerId"]
        for found, told, here in exported()
        if found == name and not here
    }


def named(name):
    """Claim that the prefix of an actor's lines is this name."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    says = f":actor_name:{name}\n"
    return any(says in path.read_text() for path in logs.glob("worker-*.out"))


@pytest.fixture
def run(ray_cluster):
    """A run that is reported and goes on, and its collector."""
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


def require_closed(samples, run_id):
    """Every name and label is in the table, and none tells of a run or a node."""
    for name, labels, _ in samples:
        plain = re.sub(r"_(bucket|count|sum)$", "", name)
        label, *values = LABELS[plain if plain in LABELS else name]
        assert set(labels) & OWN == ({label} if label else set())
        assert not label or labels[label] in (*values, OTHER)
        assert not any(run_id in each or "1.n[" in each for each in labels.values())


@pytest.mark.deep
def test_a_collector_s_metrics_are_scraped_and_outlive_it(run):
    identity, actor = run
    before = left("collectors")
    assert named(f"Collector({names.short(identity.run_id)})")

    actor.leave.remote()
    ours = {"WorkerId": wait_until(lambda: left("collectors") - before).pop()}

    assert total("updates_total", fate="applied", **ours) == 2 * NODES
    assert total("publications_total", outcome="published", **ours) >= 1
    assert total("publication_seconds_count", **ours) >= 1
    assert total("published_rows_total", **ours) >= NODES
    assert total("published_bytes_total", **ours) > 0
    assert total("frames_total", status="applied", **ours) >= 1
    assert total("frame_bytes_total", **ours) > 0
    assert total("nodes", **ours) == total("producers", **ours) == 0
    require_closed(exported(), identity.run_id)


@pytest.mark.deep
def test_an_owner_s_metrics_are_scraped_and_outlive_it(worker):
    before = left("owners")
    options = {"strategy": "compiled_graph"}
    orders = ["fine", "fine", "raise", "fine"]

    result = work(worker, enqueue_with(tasks.invoked, options, orders))
    ours = {"WorkerId": wait_until(lambda: left("owners") - before).pop()}

    assert len(result.return_value) == len(orders)
    run_id = str(row_of(result).run_id)
    assert named(f"Owner({names.short(run_id)})")
    assert total("sessions_total", state="READY", **ours) == 1
    assert total("sessions_total", state="TORN_DOWN", **ours) == 1
    assert total("invocations_total", outcome="SUCCEEDED", **ours) == 3
    assert total("invocations_total", outcome="APPLICATION_ERROR", **ours) == 1
    assert total("graph_reuses_total", **ours) == 3
    require_closed(exported(), run_id)
