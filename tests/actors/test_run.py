"""Producer, collector, publisher and storage together, audited after every commit."""

import random
import uuid

import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from msgspec.structs import replace

from django_ray.errors import StorageUnavailable
from django_ray.identity import RunIdentity
from django_ray.maintenance.audit import audit
from django_ray.models.executions import RayTaskExecution
from django_ray.models.progress import NodeDetail
from django_ray.protocol import frames, summary
from django_ray.protocol.frames import State
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    DetailAvailability,
    ExecutionState,
    NodeState,
    ReportingPolicy,
    WorkflowState,
)
from django_ray.storage.writer import Writer
from tests.actors.rig import Rig, node, state
from tests.fakes import START_MS, FakeClock, run_settings

NODES = 3_000
FAILURE = frames.Failure("ValueError", "no such path")

RANKS = {state: min(code, 3) for code, state in enumerate(NODE_STATES)}

CUT_OFF = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = 'django_ray' AND datname = current_database()
"""


class UnluckyWriter(Writer):
    """Every fifth commit is done and reported as failed; every seventh is not tried."""

    calls = 0

    def publish(self, publication):
        self.calls += 1
        if self.calls % 7 == 0:
            raise StorageUnavailable
        outcome = super().publish(publication)
        if self.calls % 5 == 0:
            raise StorageUnavailable
        return outcome


class Audits:
    """The hook: audits what was just committed and remembers which revision it was."""

    def __init__(self, run_id):
        self.run_id = run_id
        self.revisions = []

    def __call__(self, publication):
        found = audit(self.run_id)
        assert found.is_clean, found
        self.revisions.append(publication.after.summary)


@pytest.fixture
def execution(transactional_db):
    return RayTaskExecution.objects.create(
        task_path="tests.task",
        state=ExecutionState.RUNNING,
        attempt_number=1,
        execution_generation=1,
        run_id=uuid.uuid4(),
        arguments={},
        options={},
        enqueued_at=timezone.now(),
    )


@pytest.fixture
def make_rig(execution):
    settings = connection.settings_dict
    dsn = psycopg.conninfo.make_conninfo(
        host=settings["HOST"],
        port=settings["PORT"] or None,
        user=settings["USER"],
        password=settings["PASSWORD"] or None,
        dbname=settings["NAME"],
    )
    writers = []

    def make(policy=ReportingPolicy.full, writer=Writer):
        identity = RunIdentity(
            task_execution_pk=execution.pk,
            attempt_number=1,
            execution_generation=1,
            run_id=str(execution.run_id),
        )
        told = replace(run_settings(policy), identity=identity)
        writers.append(writer(told, lambda: dsn))
        audits = Audits(identity.run_id)
        rig = Rig(told, writers[-1], FakeClock(), audits)
        rig.audits = audits
        return rig

    yield make
    for writer in writers:
        writer.close()


def walk(rig, count, each):
    """Register `count` nodes and bring every one to an end, `each` a quarter second."""
    chance = random.Random(7)
    for ordinal in range(count):
        after = sorted(chance.sample(range(ordinal), min(ordinal, chance.randrange(4))))
        rig.producer.node(node(ordinal, after))
        rig.producer.state(state(ordinal, at_ms=rig.clock()))
        if ordinal >= 50:
            report = frames.Progress(ordinal - 50, 0, 1, 1, rig.clock(), 1, 2, "half")
            rig.producer.progress(report)
        if ordinal >= 100:
            rig.producer.state(end_of(ordinal - 100, rig.clock()))
        if ordinal % each == 0:
            rig.turn(1, 250)
            yield ordinal
    for ordinal in range(max(0, count - 100), count):
        rig.producer.state(end_of(ordinal, rig.clock()))


def end_of(ordinal, at_ms):
    if ordinal % 100 == 99:
        return State(ordinal, 0, 1, NodeState.FAILED, at_ms, error=FAILURE)
    return State(ordinal, 0, 1, NodeState.SUCCEEDED, at_ms, at_ms - 10, "host", 0)


def stored(execution):
    execution.refresh_from_db()
    return summary.decode(bytes(execution.progress_summary))


@pytest.mark.parametrize(
    ("writer", "each"),
    [
        (Writer, 75),
        pytest.param(UnluckyWriter, 40, marks=pytest.mark.deep),
    ],
)
def test_every_revision_of_a_run_is_sound_and_the_last_one_complete(
    make_rig, execution, writer, each
):
    rig = make_rig(writer=writer)
    for ordinal in walk(rig, NODES, each):
        if ordinal % 600 == 300:
            with connection.cursor() as cursor:
                cursor.execute(CUT_OFF)
    rig.producer.end(frames.End("SUCCEEDED", rig.clock()))
    assert rig.settle(1_200)

    said = stored(execution)
    print(f"audited {len(rig.audits.revisions)} revisions, the last {said.revision}")
    assert len(rig.audits.revisions) >= 20
    assert rig.audits.revisions[-1] == said.revision
    assert said.state is WorkflowState.SUCCEEDED
    assert said.node_counts == summary.NodeCounts(
        failed=NODES // 100, succeeded=NODES - NODES // 100
    )
    assert said.detail.availability is DetailAvailability.AVAILABLE
    assert said.detail.complete
    assert said.retained_nodes == NODES == NodeDetail.objects.count()
    assert rig.publisher.tallies["integrity"] == rig.publisher.tallies["fault"] == 0
    assert rig.publisher.finished.is_set()


@pytest.mark.parametrize("writer", [Writer, UnluckyWriter])
def test_what_is_answered_as_committed_is_in_the_database(make_rig, execution, writer):
    rig = make_rig(writer=writer)
    sent, promised, missing = {}, set(), []

    def ingest(data):
        frame = frames.decode(data)
        sent[frame.number] = [
            (record.ordinal, getattr(record, "state", NodeState.PENDING))
            for record in frame.records
            if isinstance(record, frames.Node | State)
        ]
        answer = frames.decode_acknowledgement(rig.ingest(data))
        for number in [number for number in sent if number <= answer.committed]:
            promised.update(sent.pop(number))
        rows = NodeDetail.objects.values_list("ordinal", "state")
        states = {ordinal: NODE_STATES[code] for ordinal, code in rows}
        for ordinal, told in promised:
            if ordinal not in states or RANKS[states[ordinal]] < RANKS[told]:
                missing.append((ordinal, told))
        return frames.encode(answer)

    rig.handle.ingest = ingest
    for _ in walk(rig, 600, 15):
        pass
    assert rig.settle()
    assert missing == []
    assert len(promised) >= 600


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("execution_generation", 2),
        ("attempt_number", 2),
        ("run_id", uuid.UUID(int=1)),
        ("state", ExecutionState.RECONCILE),
    ],
)
def test_a_run_that_is_no_longer_current_changes_nothing_and_ends(
    make_rig, execution, column, value
):
    rig = make_rig()
    for _ in walk(rig, 200, 50):
        pass
    before = bytes(RayTaskExecution.objects.get().progress_summary)
    rows = list(NodeDetail.objects.order_by("pk").values_list("record", flat=True))
    RayTaskExecution.objects.update(**{column: value})
    rig.producer.state(state(0, NodeState.FAILED, try_=2))
    rig.turn(8, 250)
    assert rig.collector.is_fenced
    assert rig.producer.silent
    assert not rig.handle.away
    rig.finish()
    assert rig.left == 1
    assert bytes(RayTaskExecution.objects.get().progress_summary) == before
    after = NodeDetail.objects.order_by("pk").values_list("record", flat=True)
    assert list(after) == rows


def test_a_second_collector_of_the_run_fences_the_first_off(make_rig, execution):
    first, second = make_rig(), make_rig()
    for rig in (first, second):
        for _ in walk(rig, 10, 5):
            pass
    second.turn(4, 250)
    first.producer.state(state(0, NodeState.FAILED, try_=2))
    first.turn(8, 250)
    assert first.collector.is_fenced
    assert not second.collector.is_fenced


@pytest.mark.parametrize(
    "policy", [ReportingPolicy.summary, ReportingPolicy.terminal_only]
)
def test_a_policy_without_detail_stores_the_summary_alone(make_rig, execution, policy):
    rig = make_rig(policy)
    for _ in walk(rig, 500, 50):
        pass
    rig.producer.end(frames.End("FAILED", START_MS + 60_000, FAILURE))
    assert rig.settle()
    said = stored(execution)
    assert said.state is WorkflowState.FAILED
    assert said.discovered_nodes == 500
    assert said.detail.availability is DetailAvailability.OMITTED_BY_POLICY
    assert NodeDetail.objects.count() == 0
    if policy is ReportingPolicy.terminal_only:
        assert len(rig.audits.revisions) == 1
