"""Tasks with a compiled session from enqueue to their end, and what is stored of them."""

import json
import os

import pytest
import ray
from django.tasks import TaskResultStatus

from django_ray.maintenance.audit import audit
from django_ray.models.executions import RayTaskExecution
from django_ray.models.progress import NodeDetail, WorkflowRun
from django_ray.protocol.records import decode_detail
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionStrategy,
    NodeState,
    WorkflowState,
)
from django_ray.tasks.options import enqueue_with
from tests.ray import tasks
from tests.ray.conftest import wait_until
from tests.ray.working import row_of, summary_of, work, work_until

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]

COMPILED = {"strategy": "compiled_graph"}


def living():
    """The actors of the cluster that are not dead, but for what detached ones leave."""
    return {
        key
        for key, actor in ray._private.state.actors().items()
        if actor["State"] != "DEAD"
    }


def semaphores():
    """What this cluster's channels hold in shared memory; each is named by its raylet."""
    raylet = ray.get(ray.remote(num_cpus=0)(lambda: os.getppid()).remote())
    return {
        name
        for name in os.listdir("/dev/shm")
        if name.startswith("sem.") and f"{raylet}-" in name
    }


@pytest.fixture(autouse=True)
def nothing_is_left(ray_cluster, request):
    """No actor and no semaphore outlives a run; those of a killed process are Ray's."""
    actors, before = living(), semaphores()
    yield
    wait_until(lambda: not living() - actors, 60)
    if "killed" not in request.node.name:
        assert semaphores() <= before


def stored(result):
    """The summary, its compact session, the whole snapshot, and the nodes' details."""
    summary = summary_of(result)
    run = WorkflowRun.objects.get(run_id=row_of(result).run_id)
    rows = NodeDetail.objects.filter(run=run).order_by("ordinal")
    assert not audit(str(run.run_id)).findings
    return (
        summary,
        json.loads(bytes(summary.session)),
        json.loads(bytes(run.session)),
        [decode_detail(bytes(row.record)) for row in rows],
    )


@pytest.mark.deep
def test_many_invocations_are_one_session_two_nodes_and_one_topology(worker):
    result = work(worker, enqueue_with(tasks.invoked_often, COMPILED, 1_000))

    assert result.return_value == 20 * sum(range(1_000))
    summary, compact, snapshot, details = stored(result)
    assert summary.state is WorkflowState.SUCCEEDED
    assert summary.strategy is ExecutionStrategy.compiled_graph
    assert summary.detail.availability is DetailAvailability.AVAILABLE
    assert (summary.discovered_nodes, summary.node_counts.succeeded) == (2, 2)
    assert (summary.topology_version, summary.discovered_edges) == (1, 1)
    assert summary.percent == 100
    assert [detail.invocation for detail in details] == [1_000, 1_000]
    assert compact["session_state"] == snapshot["session_state"] == "TORN_DOWN"
    assert (compact["invocation"], compact["owner_epoch"]) == (1_000, 1)
    assert (compact["outcome"], compact["cleanup"]) == ("SUCCEEDED", [])
    assert row_of(result).plan["strategy_requirements"] == {
        "compiled_graph": {"lifecycle_protocol_version": 1}
    }
    assert summary.plan_fingerprint == row_of(result).plan_fingerprint


@pytest.mark.deep
def test_every_end_is_told_also_of_a_killed_participant_and_the_next_one_is_served(
    worker,
):
    orders = ["fine", "raise", "fine", "die", "fine"]
    result = work(worker, enqueue_with(tasks.invoked, COMPILED, orders))

    assert result.return_value == ["fine", "raised", "fine", "ACTOR_DIED", "fine"]
    summary, compact, _, details = stored(result)
    assert (compact["owner_epoch"], compact["invocation"]) == (2, 5)
    assert summary.node_counts.succeeded == 2
    assert [detail.state for detail in details] == [NodeState.SUCCEEDED] * 2


@pytest.mark.deep
def test_a_killed_owner_is_told_in_its_place(worker):
    result = work_until(worker, enqueue_with(tasks.owner_lost, COMPILED), "RECONCILE")

    assert result.status is TaskResultStatus.RUNNING
    assert "OWNER_LOST" in result.errors[0].traceback
    summary, compact, _, details = stored(result)
    assert summary.state is WorkflowState.FAILED
    assert compact["session_state"] == "QUARANTINED"
    assert compact["outcome"] == "OWNER_LOST"
    assert compact["retry"] == "OPERATOR_RECONCILIATION_REQUIRED"
    assert compact["outputs"] == {"LOST_WITH_OWNER": 1}
    assert [detail.state for detail in details] == [NodeState.FAILED] * 2
    assert [detail.invocation for detail in details] == [2, 2]


@pytest.mark.deep
def test_a_run_without_detail_still_counts_the_methods_of_the_last_invocation(worker):
    options = {**COMPILED, "policy": "summary"}
    result = work(worker, enqueue_with(tasks.invoked, options, ["fine", "raise"]))

    summary = summary_of(result)
    assert (summary.node_counts.failed, summary.node_counts.skipped) == (1, 1)
    assert json.loads(bytes(summary.session))["invocation"] == 2


@pytest.mark.deep
def test_a_disabled_run_is_served_all_the_same(worker):
    options = {**COMPILED, "policy": "disabled"}
    result = work(worker, enqueue_with(tasks.invoked, options, ["fine"]))
    assert result.return_value == ["fine"]


def test_a_plan_of_another_protocol_fails_before_the_function_is_called(worker):
    result = enqueue_with(tasks.invoked, COMPILED, ["fine"])
    plan = {
        "limits_profile": "v1",
        "plan_format_version": 1,
        "policy": "full",
        "strategy": "compiled_graph",
        "strategy_requirements": {"compiled_graph": {"lifecycle_protocol_version": 2}},
        "task_path": "tests.ray.tasks.invoked",
    }
    RayTaskExecution.objects.filter(public_id=result.id).update(plan=plan)
    work(worker, result)
    assert result.status is TaskResultStatus.FAILED
    assert "lifecycle protocol" in result.errors[0].traceback
