"""Damaged on purpose: readers say MISSING or CORRUPT, and the audit names it.

Never an older revision, never another answer than 200 from the summary's address, and a
summary that is not damaged itself stays as it is. The faults stand in `damage.py`.
"""

import json
import time

import msgspec
import psycopg
import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import RequestFactory

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.maintenance.audit import audit
from django_ray.protocol import frames
from django_ray.protocol import summary as codec
from django_ray.protocol.frames import Failure
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from django_ray.readers import context, details, live, topology
from django_ray.storage.writer import Writer
from django_ray.web import api
from django_ray.web.endpoints import ENDPOINTS
from tests.actors import rig
from tests.app.damage import AVAILABLE, CORRUPT, FAULTS, MISSING, NOT_PROGRESS
from tests.fakes import FakeClock, run_settings
from tests.storage import helpers
from tests.storage.helpers import Book

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = (
    *("execution", "attempt", "run", "manifest", "page", "node_detail"),
    "stages",
)
NODES = 4


class Bench:
    """A published run that is put back as it was after every fault."""

    def __init__(self, conn):
        self.conn = conn
        conn.execute("SET synchronous_commit = off")
        self.checks = conn.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
            " FROM pg_constraint WHERE contype = 'c'"
            " AND conrelid::regclass::text LIKE 'django_ray_%'"
        ).fetchall()
        for table, name, _ in self.checks:
            conn.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        self.identity = helpers.execution(conn)
        self.other = Book.open(conn)
        publish(self.identity)
        self.attempt()
        for table in TABLES:
            conn.execute(
                f"CREATE TABLE saved_{table} AS SELECT * FROM django_ray_{table}"
            )
        self.public_id, self.stored = conn.execute(
            "SELECT public_id, progress_summary FROM django_ray_execution"
            " WHERE id = %s",
            (self.identity.task_execution_pk,),
        ).fetchone()
        (self.run_pk,) = conn.execute(
            "SELECT id FROM django_ray_run WHERE run_id = %s", (self.identity.run_id,)
        ).fetchone()

    def attempt(self):
        self.conn.execute(
            "INSERT INTO django_ray_attempt (execution_id, attempt_number,"
            " execution_generation, run_id, worker, state, claimed_at, error_class,"
            " error_text, terminal_summary)"
            " SELECT id, attempt_number, execution_generation, run_id, 'w', 'RUNNING',"
            " now(), '', '', progress_summary FROM django_ray_execution WHERE id = %s",
            (self.identity.task_execution_pk,),
        )

    def restore(self):
        with self.conn.transaction():
            self.conn.execute("DELETE FROM django_ray_execution")
            for table in TABLES:
                self.conn.execute(
                    f"INSERT INTO django_ray_{table} OVERRIDING SYSTEM VALUE"
                    f" SELECT * FROM saved_{table}"
                )

    def damage(self, fault):
        names = {
            "task": self.identity.task_execution_pk,
            "run": self.run_pk,
            "run_id": f"'{self.identity.run_id}'",
            "run_text": self.identity.run_id,
            "other": self.other.begun.run_pk,
            "other_id": f"'{self.other.identity.run_id}'",
            "other_text": self.other.identity.run_id,
            "other_task": self.other.identity.task_execution_pk,
            "revision": codec.decode(self.stored).revision,
        }
        statement = fault.statement
        for name, value in names.items():
            statement = statement.replace("{" + name + "}", str(value))
        changed = self.conn.execute(statement.replace("{{", "{")).rowcount
        assert changed == 1

    def close(self):
        self.conn.execute("DELETE FROM django_ray_execution")
        for table in TABLES:
            self.conn.execute(f"DROP TABLE saved_{table}")
        for table, name, said in self.checks:
            self.conn.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {said}")
        self.conn.close()


def publish(identity: RunIdentity):
    settings = msgspec.structs.replace(run_settings(), identity=identity)
    writer = Writer(settings, helpers.dsn)
    run = rig.Rig(settings, writer, FakeClock(int(time.time() * 1_000)))
    for ordinal in range(NODES):
        run.producer.node(rig.node(ordinal, range(ordinal)))
    now = run.clock()
    run.producer.state(rig.state(0, NodeState.SUCCEEDED, now))
    run.producer.state(
        rig.state(1, NodeState.FAILED, now, 2, error=Failure("OSError", "gone"))
    )
    run.producer.state(
        frames.State(2, 0, 1, NodeState.RUNNING, now, started_ms=now - 5_000, host="h")
    )
    assert run.settle()
    # A second publication, so that an older revision is one that existed.
    run.producer.progress(frames.Progress(2, 0, 1, 1, now, 3, 10, "parsing"))
    assert run.settle()
    writer.close()


@pytest.fixture(scope="module")
def run(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        bench = Bench(psycopg.connect(helpers.dsn(), autocommit=True))
        yield bench
        bench.close()
        connection.close()


@pytest.fixture
def bench(run):
    run.restore()
    return run


def answer(bench):
    """Ask the summary's address; return the status and the parsed body."""
    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_active=True)
    summary = next(one for one in ENDPOINTS if one.name == "summary")
    found = api.view(summary)(request, bench.public_id)
    return found.status_code, json.loads(found.content)


def read_all(bench):
    """Read every page and every row that the summary names; return what they are."""
    with context.snapshot():
        reading = live.reader.read_trusted(bench.public_id)
        if reading.summary is None:
            return reading.availability
        try:
            return _read(reading)
        except IntegrityFault as fault:
            return fault.availability


def _read(reading):
    run = context.select(reading.summary, reading.read_at)
    topology.bodies(run, run.manifest.digests)
    found = 0
    for state in NODE_STATES:
        wanted = details.Filter(states=(state,))
        rows = details.in_order(run, wanted, most=V1.retained_nodes)
        for row in rows:
            details.parse(run, row)
        found += len(rows)
    return MISSING if found < run.manifest.node_count else AVAILABLE


def test_without_a_fault_all_is_available_and_clean(bench):
    assert read_all(bench) == AVAILABLE
    assert live.read(bench.public_id).reading.availability == AVAILABLE
    assert audit(bench.identity.run_id).findings == ()
    assert answer(bench)[1]["discovered_nodes"] == NODES


def said(bench, fault):
    """Damage the run as told; return what readers and audit say of it."""
    bench.restore()
    before = answer(bench)
    bench.damage(fault)
    live_said = str(live.read(bench.public_id).reading.availability)
    findings = audit(bench.identity.run_id).findings
    status, body = after = answer(bench)
    assert status == 200
    if fault.table != "execution":
        assert after == before
    elif body["revision"] is None:
        assert body["detail"]["availability"] == fault.read
        assert body["node_counts"] is None or fault.read != CORRUPT
    return str(read_all(bench)), live_said, {finding.code for finding in findings}


@pytest.mark.parametrize("table", TABLES)
def test_a_fault_is_called_by_its_name_and_the_summary_stays(bench, table):
    faults = [fault for fault in FAULTS if fault.table == table]

    found = {fault.name: said(bench, fault) for fault in faults}

    assert len(found) == len(faults)
    assert found == {
        fault.name: (fault.read, fault.live, fault.audit) for fault in faults
    }


def test_every_column_of_stored_progress_is_damaged():
    damaged = {}
    for fault in FAULTS:
        damaged.setdefault(fault.table, set()).update(fault.columns)
    for model in apps.get_app_config("django_ray").get_models():
        table = model._meta.db_table.removeprefix("django_ray_")
        if table in TABLES and table not in NOT_PROGRESS:
            columns = {
                field.column
                for field in model._meta.local_concrete_fields
                if field.column is not None
            }
            assert damaged[table] == columns, table
    assert set(damaged) == set(TABLES)
