"""Each reporting policy from the enqueued row to its ended one, without Ray."""

import pytest

from django_ray.maintenance.audit import audit
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    TopologyPage,
    WorkflowRun,
)
from django_ray.protocol import frames
from django_ray.protocol import summary as summaries
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    NodeState,
    ReportingPolicy,
    WorkflowState,
)
from django_ray.storage.writer import Writer
from django_ray.tasks import envelope, outer, transitions
from django_ray.tasks.options import enqueue_with
from tests.actors.rig import Rig, node, state
from tests.app import taskbook
from tests.app.executions import LATER, NOW, claim, row
from tests.fakes import FakeClock
from tests.storage import helpers

pytestmark = pytest.mark.django_db(transaction=True)

NOW_MS = envelope.milliseconds(NOW)
KEPT = (NodeDetail, RunStages, TopologyManifest, TopologyPage)
OMITTED = DetailAvailability.OMITTED_BY_POLICY
SUCCEEDED = WorkflowState.SUCCEEDED
"""What only the policy `full` stores."""


class Observed:
    """One run's collector and coordinator over the real writer; every commit is kept."""

    def __init__(self, policy):
        enqueue_with(taskbook.plain, {"policy": policy, "retention_days": 2})
        self.held = claim()
        transitions.start(self.held.identity, now=NOW, again=False)
        told = outer.settings_of(row(self.held), self.held.identity)
        self.published = []
        self.writer = Writer(told, helpers.dsn)
        self.rig = Rig(told, self.writer, FakeClock(NOW_MS), self.published.append)

    def walk(self):
        """Register four nodes and end three of them, over some thirty seconds."""
        producer, clock = self.rig.producer, self.rig.clock
        producer.declare(1, 4)
        for ordinal in range(4):
            producer.node(node(ordinal, range(ordinal)))
            producer.state(state(ordinal, NodeState.RUNNING, clock()))
            self.rig.turn(30, 250)
        for ordinal, end in enumerate(["SUCCEEDED", "FAILED", "SUCCEEDED"]):
            producer.state(state(ordinal, NodeState(end), clock()))
        self.rig.turn(30, 250)

    def end(self):
        """Let the coordinator end the run, and the collector commit it."""
        self.rig.producer.state(state(3, NodeState.SUCCEEDED, self.rig.clock()))
        self.rig.producer.end(frames.End("SUCCEEDED", self.rig.clock()))
        assert self.rig.settle()

    @property
    def said(self):
        return summaries.decode(bytes(row(self.held).progress_summary))


@pytest.fixture
def observe():
    made = []

    def make(policy):
        made.append(Observed(policy))
        return made[-1]

    yield make
    for each in made:
        each.writer.close()


def stored():
    return [model.__name__ for model in KEPT if model.objects.exists()]


def test_full_stores_detail_and_tells_the_run_as_it_goes(observe):
    run = observe("full")
    run.walk()
    assert run.said.detail.availability is DetailAvailability.AVAILABLE
    assert run.said.node_counts == NodeCounts(succeeded=2, failed=1, running=1)
    run.end()

    assert stored() == [model.__name__ for model in KEPT]
    assert NodeDetail.objects.count() == run.said.retained_nodes == 4
    assert len(run.published) >= 4
    assert audit(run.held.identity.run_id).findings == ()


def test_summary_tells_the_run_as_it_goes_and_stores_no_detail(observe):
    run = observe("summary")
    run.walk()
    assert run.said.node_counts == NodeCounts(succeeded=2, failed=1, running=1)
    run.end()

    assert stored() == []
    assert len(run.published) >= 4
    assert run.said.discovered_edges == 6


def test_terminal_only_tells_exactly_one_summary(observe):
    run = observe("terminal_only")
    run.walk()
    assert (row(run.held).progress_summary, run.published) == (None, [])
    run.end()
    run.rig.turn(100, 250)

    assert stored() == []
    assert [each.after.summary for each in run.published] == [1]


@pytest.mark.parametrize("policy", ["summary", "terminal_only"])
def test_omitted_detail_is_no_empty_detail(observe, policy):
    run = observe(policy)
    run.walk()
    run.end()

    said = run.said
    assert said.detail == summaries.Detail(
        availability=OMITTED, complete=False, reasons=()
    )
    assert (said.discovered_nodes, said.node_counts) == (
        4,
        NodeCounts(succeeded=3, failed=1),
    )
    pointers = (said.manifest_id, said.topology_version, said.detail_revision)
    assert pointers == (None, None, None)
    assert (said.retained_nodes, said.retained_edges) == (0, 0)
    for published in run.published:
        assert (published.stages, published.events, published.candidate) == (None,) * 3
        assert not published.rows.ordinals
    assert audit(run.held.identity.run_id).findings == ()


@pytest.mark.parametrize("policy", ["full", "summary", "terminal_only"])
@pytest.mark.parametrize("agreed", [True, False])
def test_end_is_the_producers_where_it_agrees_and_the_rows_where_not(
    observe, policy, agreed
):
    run = observe(policy)
    run.walk()
    run.end()
    told = bytes(row(run.held).progress_summary)

    outcome = SUCCEEDED if agreed else WorkflowState.TIMED_OUT
    finish(run.held, outcome)

    assert (bytes(row(run.held).progress_summary) == told) is agreed
    assert (run.said.state, run.said.policy) == (outcome, policy)
    assert run.said.node_counts == NodeCounts(succeeded=3, failed=1)
    assert run.said.detail == summaries.decode(told).detail
    assert WorkflowRun.objects.get().expires_at == envelope.moment(
        run.said.expires_at_ms
    )


@pytest.mark.parametrize("outcome", tuple(WorkflowState)[1:])
@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ("summary", NodeCounts(succeeded=2, failed=1, running=1)),
        ("terminal_only", NodeCounts()),
    ],
)
def test_derived_end_of_a_run_without_detail_claims_none(
    observe, policy, counts, outcome
):
    run = observe(policy)
    run.walk()

    finish(run.held, outcome)

    said = run.said
    assert said.terminal.derived
    assert said.detail == summaries.Detail(
        availability=OMITTED, complete=False, reasons=()
    )
    won = outcome is SUCCEEDED
    assert said.node_counts == (NodeCounts(succeeded=counts.total) if won else counts)
    assert WorkflowRun.objects.get().expires_at is not None
    assert stored() == []


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_lost_summary_of_a_run_without_detail_is_still_omitted_not_missing(
    observe, damage
):
    run = observe("summary")
    run.walk()
    revision = run.said.revision
    execution = row(run.held)
    execution.progress_summary = None if damage == "missing" else b"{}"
    execution.save(update_fields=["progress_summary"])

    finish(run.held, WorkflowState.LOST)

    assert run.said.detail.availability is OMITTED
    assert run.said.revision == revision + 1


@pytest.mark.parametrize("policy", ReportingPolicy)
def test_run_without_a_node_is_told_as_such_under_each_policy(observe, policy):
    run = observe(policy.value)
    if policy is not ReportingPolicy.disabled:
        run.rig.producer.end(frames.End("SUCCEEDED", run.rig.clock()))
        assert run.rig.settle()

    finish(run.held, SUCCEEDED)

    assert run.said.detail.availability is envelope.UNREPORTED[policy]
    assert (run.said.discovered_nodes, run.said.percent) == (0, 100)
    assert stored() == []
    assert run.said.terminal.derived is (policy is ReportingPolicy.disabled)


def finish(held, outcome):
    if outcome is SUCCEEDED:
        recorded = transitions.succeed(held, b"1", now=LATER)
    else:
        error = transitions.Failed("builtins.ValueError", "")
        recorded = transitions.fail(held, outcome, error, reason="word", now=LATER)
    assert isinstance(recorded, transitions.Recorded)
