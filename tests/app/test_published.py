"""What a publisher wrote is what the readers show: the seam between the two sides."""

import json
import time

import msgspec
import psycopg
import pytest
from django.db import connection

from django_ray.identity import RunIdentity
from django_ray.protocol import canonical, frames
from django_ray.protocol.frames import Failure
from django_ray.protocol.vocabulary import DetailAvailability, NodeState
from django_ray.readers import live, public
from django_ray.storage.writer import Writer
from tests.actors import rig
from tests.app import pictures, stored
from tests.fakes import FakeClock, run_settings

pytestmark = pytest.mark.django_db(transaction=True)


def database():
    held = connection.settings_dict
    return psycopg.conninfo.make_conninfo(
        dbname=held["NAME"],
        user=held["USER"],
        password=held["PASSWORD"],
        host=held["HOST"],
        port=held["PORT"],
    )


@pytest.fixture
def run():
    row = stored.make_row()
    identity = RunIdentity(
        task_execution_pk=row.pk,
        attempt_number=row.attempt_number,
        execution_generation=row.execution_generation,
        run_id=str(row.run_id),
    )
    settings = msgspec.structs.replace(run_settings(), identity=identity)
    writer = Writer(settings, database)
    yield rig.Rig(settings, writer, FakeClock(int(time.time() * 1_000)))
    writer.close()


def report(run):
    for ordinal in range(4):
        run.producer.node(rig.node(ordinal, range(ordinal)))
    now = run.clock()
    run.producer.state(rig.state(0, NodeState.SUCCEEDED, now, error=None))
    run.producer.state(
        frames.State(1, 0, 2, NodeState.FAILED, now, error=Failure("OSError", "gone"))
    )
    run.producer.state(
        frames.State(2, 0, 1, NodeState.RUNNING, now, started_ms=now - 5_000, host="h")
    )
    run.producer.progress(frames.Progress(2, 0, 1, 1, now, 3, 10, "parsing"))
    assert run.settle()


def test_the_terminals_picture_is_that_of_the_publication(run):
    report(run)
    found = live.read(pictures.PUBLIC_ID)
    assert found.reading.availability is DetailAvailability.AVAILABLE
    assert [stage.label for stage in found.stages] == ["stage"]
    assert found.stages[0].counts == found.reading.summary.node_counts
    (failure,) = found.failures
    assert (failure.node_id, failure.try_) == ("1.n[1]", 2)
    assert (failure.kind, failure.text) == ("OSError", "gone")
    (node,) = found.running
    assert (node.node_id, node.host, node.message) == ("1.n[2]", "h", "parsing")
    assert (node.current, node.total) == (3, 10)


def test_the_json_says_the_same_counts(run):
    report(run)
    body = json.loads(
        canonical.encode(public.body(live.read(pictures.PUBLIC_ID).reading))
    )
    assert body["discovered_nodes"] == 4
    assert body["discovered_edges"] == body["retained_edges"] == 6
    counts = {state: number for state, number in body["node_counts"].items() if number}
    assert counts == {"FAILED": 1, "PENDING": 1, "RUNNING": 1, "SUCCEEDED": 1}
    assert body["percent"] == 50
