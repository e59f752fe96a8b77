"""A run whose collector dies ends as one whose collector lived: nothing lost, nothing twice.

Real producers, coordinator, collector, publisher, PostgreSQL; only the processes are not.
"""

import random
import uuid

import msgspec
import pytest
from django.db import connection
from django.utils import timezone
from msgspec.structs import replace

from actors.publisher import STEPS
from django_ray.identity import RunIdentity
from django_ray.maintenance.audit import audit
from django_ray.models.executions import RayTaskExecution
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    WorkflowRun,
)
from django_ray.progress import stages
from django_ray.progress.early import EARLY
from django_ray.protocol import frames, records, summary
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    TERMINAL_NODE_STATES,
    ExecutionState,
    NodeState,
    ReportingPolicy,
)
from django_ray.storage.writer import Writer
from tests.actors.lives import (
    ANY,
    SHAPES,
    WORKERS,
    Life,
    Reaper,
    Script,
    growing_steps,
)
from tests.fakes import START_MS, run_settings
from tests.storage import helpers

SMALL = Limits(
    profile="small", retained_nodes=20, retained_edges=30, page_items=8, events=8
)
PROFILES = {"v1": V1, "small": SMALL}

AFTER_COMMIT = ("published", "drafted_next", "settled")
OPENING = ("begun", "loaded", "resumed")


@pytest.fixture
def make_life(transactional_db):
    """Begin a run that is read back, and killed, by a plan."""
    dsn = helpers.dsn()
    writers = []

    def make(policy=ReportingPolicy.full, limits=V1, plan=()):
        execution = RayTaskExecution.objects.create(
            task_path="tests.task",
            state=ExecutionState.RUNNING,
            attempt_number=1,
            execution_generation=1,
            run_id=uuid.uuid4(),
            arguments={},
            options={},
            enqueued_at=timezone.now(),
        )
        identity = RunIdentity(
            task_execution_pk=execution.pk,
            attempt_number=1,
            execution_generation=1,
            run_id=str(execution.run_id),
        )
        told = replace(run_settings(policy, limits), identity=identity)

        def make_writer():
            writers.append(Writer(told, lambda: dsn))
            return writers[-1]

        return Life(told, make_writer, Reaper(*plan), Audits(identity.run_id))

    yield make
    for writer in writers:
        writer.close()


def live(life, shape, seed=1):
    """Live a run to its end, and return what is stored of it."""
    script = Script(life, seed)
    SHAPES[shape](script)
    assert script.finish()
    return Stored(life)


class Audits:
    """The hook: audits what was just committed."""

    def __init__(self, run_id):
        self.run_id = run_id
        self.revisions = []
        self.wanted = True

    def __call__(self, publication):
        if self.wanted:
            found = audit(self.run_id)
            assert found.is_clean, found
        self.revisions.append(publication.after.summary)


class Stored:
    """What is stored of a run, without the marks of when and how often it was written."""

    def __init__(self, life):
        run_id = life.settings.identity.run_id
        self.run = WorkflowRun.objects.get(run_id=run_id)
        self.found = audit(run_id)
        said = said_of(life)
        self.revision = said.revision
        # The minute of the last change is another where recovery took its time.
        self.summary = replace(
            said,
            changed_at_ms=0,
            detail_revision=None,
            ended_by_minute=(sum(said.ended_by_minute),),
            manifest_id=None,
            observed_at_ms=0,
            revision=0,
            run=None,
            topology_version=None,
        )
        rows = NodeDetail.objects.filter(run=self.run).order_by("ordinal")
        self.rows = [
            (row.ordinal, row.node_id, row.stage, row.state, ended(bytes(row.record)))
            for row in rows
        ]
        manifests = TopologyManifest.objects.filter(run=self.run, published=True)
        self.topology = [bytes(each.page_digests) for each in manifests]
        body = RunStages.objects.filter(run=self.run).first()
        self.stages = None
        if body is not None:
            row = stages.decode(bytes(body.body))
            # How many ran at once goes by the collector's clock, and which failure was
            # the first by the order of arrival: a newer state takes an older one's place.
            self.stages = replace(row, running=None, failure=None)
            self.has_failed = row.failure is not None
        events = self.run.events
        self.events = None
        if events is not None:
            found = records.decode_events(bytes(events))
            self.events = sorted(found, key=lambda event: (event.at_ms, event.ordinal))


def ended(record):
    """Return a detail without what a later state of its node may have overtaken."""
    return replace(records.decode_detail(record), submitted_ms=msgspec.UNSET)


def require_same(lived, died):
    assert died.found.is_clean, died.found
    assert died.summary == lived.summary
    assert died.rows == lived.rows
    assert died.topology == lived.topology
    assert died.stages == lived.stages
    assert died.events == lived.events
    assert getattr(died, "has_failed", 0) == getattr(lived, "has_failed", 0)


def plan_of(step):
    """Kill at this step three times, at different moments of a run."""
    if step == "begun":
        return [(step, 1), ("settled", 2), (step, 1)]
    if step in OPENING:
        return [("settled", 2), (step, 1), (step, 1)]
    return [(step, 1), (step, 2), (step, 3)]


def require_counted(life, died):
    """Every commit has one revision, also where the collector died before it knew."""
    kills = life.reaper.kills
    unseen = sum(each in AFTER_COMMIT for each in kills)
    assert died.revision == len(life.audits.revisions) + unseen
    assert died.run.writer_epoch == 1 + len(kills)


CASES = [
    ("fan_out", "small"),
    pytest.param("chain", "v1", marks=pytest.mark.deep),
    pytest.param("growing", "small", marks=pytest.mark.deep),
    pytest.param("chain", "small", marks=pytest.mark.deep),
    pytest.param("fan_out", "v1", marks=pytest.mark.deep),
    pytest.param("growing", "v1", marks=pytest.mark.deep),
]


@pytest.mark.parametrize(("shape", "profile"), CASES)
def test_a_collector_killed_between_any_two_steps_loses_nothing(
    make_life, shape, profile
):
    limits = PROFILES[profile]
    lived = live(make_life(limits=limits), shape)

    for step in STEPS:
        life = make_life(limits=limits, plan=plan_of(step))
        died = live(life, shape)

        print(step, life.reaper.kills)
        assert len(life.reaper.kills) >= (3 if step != "staged" else 1)
        require_same(lived, died)
        require_counted(life, died)


@pytest.mark.parametrize(
    "policy", [ReportingPolicy.summary, ReportingPolicy.terminal_only]
)
def test_a_policy_without_detail_survives_its_collector_too(make_life, policy):
    lived = live(make_life(policy), "growing")

    for step in ("published", "settled"):
        plan = plan_of(step) if policy is ReportingPolicy.summary else [(step, 1)]
        life = make_life(policy, plan=plan)
        died = live(life, "growing")

        require_same(lived, died)
        require_counted(life, died)


@pytest.mark.parametrize(
    "seed",
    [*range(4), *(pytest.param(n, marks=pytest.mark.deep) for n in range(4, 200))],
)
def test_a_collector_killed_at_any_moments_loses_nothing(make_life, seed):
    chance = random.Random(seed)
    shape, limits = chance.choice(list(SHAPES)), chance.choice(list(PROFILES.values()))
    plan = [(ANY, chance.randrange(1, 40)) for _ in range(chance.randrange(1, 6))]

    lived = live(make_life(limits=limits), shape, seed)
    life = make_life(limits=limits, plan=plan)
    died = live(life, shape, seed)

    require_same(lived, died)
    require_counted(life, died)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "shape",
    [
        "growing",
        *(pytest.param(n, marks=pytest.mark.deep) for n in SHAPES if n != "growing"),
    ],
)
def test_what_was_stored_before_a_death_stands_again_after_it(
    make_life, shape, profile
):
    life = make_life(limits=PROFILES[profile])
    SHAPES[shape](Script(life, 3))
    assert life.settle()
    before, counts = Stored(life), life.audits.revisions[-1]
    assert before.summary.node_counts.running or shape == "chain"

    life.kill()
    life.turn(40)

    after = Stored(life)
    require_same(before, after)
    assert after.revision > counts
    assert after.rows == before.rows


def left(name, value):
    """Return the statement that has a collector leave something else."""
    return (
        "UPDATE django_ray_run SET bequest = convert_to(regexp_replace("
        f"convert_from(bequest, 'UTF8'), '\"{name}\":(\\[[^]]*\\]|[^,}}]+)([,}}])', "
        f"'\"{name}\":{value}\\2'), 'UTF8')"
    )


@pytest.mark.parametrize(
    ("damage", "availability"),
    [
        (left("registered", 2**31 - 1), "CORRUPT"),
        pytest.param(left("producer", '"none"'), "CORRUPT", marks=pytest.mark.deep),
        pytest.param(left("running", "[[99,1]]"), "CORRUPT", marks=pytest.mark.deep),
        pytest.param(left("stages", "[]"), "CORRUPT", marks=pytest.mark.deep),
        ("DELETE FROM django_ray_node_detail WHERE ordinal = 3", "MISSING"),
        ("UPDATE django_ray_page SET item_count = 7", "CORRUPT"),
        ("UPDATE django_ray_stages SET body = '{}'", "CORRUPT"),
        ("UPDATE django_ray_run SET bequest = NULL", "MISSING"),
        ("UPDATE django_ray_execution SET progress_summary = '{'", "CORRUPT"),
    ],
)
def test_detail_that_cannot_be_read_back_is_named_and_the_counts_go_on(
    make_life, damage, availability
):
    lived = live(make_life(), "growing")
    life = make_life()
    script = Script(life, 1)
    life.audits.wanted = False
    halfway = iter(growing_steps(script))
    for _ in range(7):
        next(halfway)
    assert life.settle()
    life.kill()
    with connection.cursor() as cursor:
        cursor.execute(damage)
    before = rows_of(life)

    for _ in halfway:
        pass
    assert script.finish()

    said = said_of(life)
    assert said.detail.availability == availability
    assert said.node_counts == lived.summary.node_counts
    assert said.declared_nodes == lived.summary.declared_nodes
    assert said.state == "SUCCEEDED"
    assert rows_of(life) == before
    assert life.publisher.tallies["integrity"] == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("applied", 2**63 - 1),
        pytest.param("applied", 1, marks=pytest.mark.deep),
        pytest.param("producer", f'"{"0" * 32}"', marks=pytest.mark.deep),
        pytest.param("hosts", "[]", marks=pytest.mark.deep),
    ],
)
def test_what_nothing_else_tells_of_a_bequest_costs_no_state(make_life, name, value):
    life = make_life()
    script = Script(life, 1)
    halfway = iter(growing_steps(script))
    for _ in range(7):
        next(halfway)
    life.kill()
    with connection.cursor() as cursor:
        cursor.execute(left(name, value))
    for _ in halfway:
        pass

    assert script.finish()
    said, rows = said_of(life), Stored(life).rows
    assert said.detail.availability == "AVAILABLE"
    assert said.node_counts.total == len(rows) == script.registered
    ended = sum(NODE_STATES[row[3]] in TERMINAL_NODE_STATES for row in rows)
    assert ended == script.registered


def test_detail_with_a_fault_is_not_trusted_by_a_third_collector(make_life):
    life = make_life()
    script = Script(life, 1)
    life.audits.wanted = False
    halfway = iter(growing_steps(script))
    for _ in range(5):
        next(halfway)
    life.kill()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_ray_run SET bequest = NULL")
    for _ in range(5):
        next(halfway)
    assert life.settle()
    life.kill()

    for _ in halfway:
        pass

    assert script.finish()
    said = said_of(life)
    assert said.detail.availability == "MISSING"
    assert said.node_counts.total == sum(said.ended_by_minute) == script.registered


def said_of(life):
    run_id = life.settings.identity.run_id
    execution = RayTaskExecution.objects.get(run_id=run_id)
    return summary.decode(bytes(execution.progress_summary))


def rows_of(life):
    rows = NodeDetail.objects.filter(run__run_id=life.settings.identity.run_id)
    return list(rows.order_by("ordinal").values_list("ordinal", "record"))


def test_while_its_coordinator_is_silent_what_is_stored_stays(make_life):
    life = make_life()
    SHAPES["growing"](Script(life, 1))
    assert life.settle()
    life.kill()
    life.rise()
    before, rest = Stored(life), None
    for _ in range(200):
        rest = life.publisher.step()
        if rest is None:
            break
        life.clock.advance(rest.ms)
    assert rest is None
    after = Stored(life)
    assert (after.revision, after.run.writer_epoch) == (before.revision, 2)
    require_same(before, after)


def test_of_two_collectors_at_once_one_writes_and_the_other_loses_its_producers(
    make_life,
):
    lived = live(make_life(), "growing")
    life = make_life()
    script = Script(life, 1)
    steps = iter(growing_steps(script))
    for _ in range(5):
        next(steps)
    older, elder = life.collector, life.publisher
    life.rise()
    for _ in range(5):
        next(steps)
    # One worker has not heard of the second yet.
    life.lead(life.workers[0], older)
    for _ in steps:
        elder.step()
    assert older.is_fenced
    life.turn(4)
    life.lead(life.workers[0], None)
    assert life.settle()

    assert script.finish()

    died = Stored(life)
    require_same(lived, died)
    assert died.run.writer_epoch == 2


@pytest.mark.parametrize("fails", [False, True])
def test_what_ends_right_after_a_resync_is_counted_as_an_end(make_life, fails):
    life = make_life(plan=[("published", 1)])
    life.audits.wanted = False
    coordinator = life.coordinator
    for ordinal in range(10):
        coordinator.register(f"1.n[{ordinal}]", "n", "stage", ())
        coordinator.submitted(ordinal, None)
    while not life.producer.tallies["resyncs"]:
        life.turn(1, 40)
    # What was applied waits to be told again as such; these are news.
    for ordinal in range(10):
        if fails:
            coordinator.failed(ordinal, ValueError("no"))
        else:
            coordinator.succeeded(ordinal, None)
    assert life.settle()

    assert sum(said_of(life).ended_by_minute) == 10
    assert Stored(life).has_failed is fails


def begin(life, ordinal):
    """Let a node be submitted and run, as its worker says."""
    life.coordinator.register(f"1.n[{ordinal}]", "n", "stage", ())
    life.coordinator.submitted(ordinal, None)
    life.workers[ordinal % WORKERS].state(
        frames.State(ordinal, 0, 1, NodeState.RUNNING, START_MS, START_MS, "h")
    )


@pytest.mark.parametrize("policy", [ReportingPolicy.full, ReportingPolicy.summary])
def test_no_node_that_runs_is_lost_while_its_coordinator_is_away(make_life, policy):
    life = make_life(policy=policy)
    life.audits.wanted = False
    for ordinal in range(EARLY + 200):
        begin(life, ordinal)
    life.producer.step(life.clock())
    life.kill()
    life.rise()
    # The workers alone are back, with more than is kept of nodes that nobody knows.
    for _ in range(40):
        now = life.clock.advance(250)
        for worker in life.workers:
            worker.step(now)
        life.publisher.step()
    assert life.collector.status(life.clock())["early"] > 0
    assert life.settle()

    assert said_of(life).node_counts.running == EARLY + 200


def test_an_event_whose_answer_was_lost_is_no_second_one(make_life):
    life = make_life()
    life.coordinator.register("1.n[0]", "n", "stage", ())
    assert life.settle()
    refused = [frames.Event(START_MS, "report_refused", 0, text) for text in "ab"]
    for event in refused:
        life.workers[0].event(event)
    life.deafen(life.workers[0], deaf=True)
    life.turn(8)
    life.deafen(life.workers[0], deaf=False)
    assert life.settle()

    assert [each.text for each in Stored(life).events] == ["a", "b"]


@pytest.mark.parametrize("damage", ["", "UPDATE django_ray_run SET bequest = NULL"])
def test_what_a_method_said_last_is_heard_though_it_ended_meanwhile(make_life, damage):
    life = make_life()
    life.audits.wanted = False
    task, coordinator = b"t" * 24, life.coordinator
    for ordinal, other in enumerate((task, b"u" * 24)):
        coordinator.register(f"1.n[{ordinal}]", "n", "stage", ())
        coordinator.submitted(ordinal, other)
    assert life.settle()
    life.kill()
    if damage:
        with connection.cursor() as cursor:
            cursor.execute(damage)
    for target in (task, b"u" * 24):
        said = frames.Progress(target, 0, 1, 1, START_MS, 1, 2, "half")
        life.workers[0].progress(said)
    coordinator.succeeded(0, None)
    life.turn(20)
    assert life.settle()

    counts = said_of(life).node_counts
    assert (counts.succeeded, counts.running) == (1, 1)
    messages = [records.decode_detail(row).message for _, row in rows_of(life)]
    assert messages == [msgspec.UNSET if damage else "half"] * 2


def test_that_a_node_runs_is_known_after_detail_that_cannot_be_read_back(make_life):
    life = make_life()
    life.audits.wanted = False
    for ordinal in range(20):
        begin(life, ordinal)
    assert life.settle()
    life.kill()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_ray_page")
    life.coordinator.succeeded(3, None)
    begin(life, 20)
    life.turn(10)
    assert life.settle()
    assert said_of(life).node_counts.running == 20
    life.kill()
    life.turn(20)
    assert life.settle()

    said = said_of(life)
    assert said.detail.availability == "MISSING"
    assert said.node_counts.running == 20
    assert said.node_counts.succeeded == 1


def test_a_second_death_loses_no_running_node_to_those_that_ended(make_life):
    life = make_life(policy=ReportingPolicy.summary)
    life.audits.wanted = False
    coordinator = life.coordinator

    for ordinal in range(V1.bequest_running):
        begin(life, ordinal)
    assert life.settle()
    life.kill()
    for ordinal in range(V1.bequest_running):
        coordinator.succeeded(ordinal, None)
    life.turn(10)
    assert life.settle()
    for ordinal in range(V1.bequest_running, V1.bequest_running + 10):
        begin(life, ordinal)
    assert life.settle()
    life.kill()
    life.turn(20)
    assert life.settle()

    assert said_of(life).node_counts.running == 10
