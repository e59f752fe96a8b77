"""A task from enqueue to its recorded end, on a real Ray and a real PostgreSQL."""

import json

import pytest
from django.tasks import TaskResultStatus
from ray.experimental import internal_kv

from actors import internals, remote
from django_ray.maintenance.audit import audit
from django_ray.models.executions import ExecutionLease
from django_ray.models.progress import NodeDetail, RunStages, WorkflowRun
from django_ray.protocol.records import decode_detail, decode_events
from django_ray.protocol.vocabulary import DetailAvailability, WorkflowState
from django_ray.tasks.options import enqueue_with
from tests.ray import tasks
from tests.ray.conftest import wait_until
from tests.ray.working import row_of, summary_of, work

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]


def actors_of(result):
    run_id = str(row_of(result).run_id)
    return [name for name in remote.list_detached() if name.run_id == run_id]


def findings():
    """Audit every run that has a row."""
    run_ids = WorkflowRun.objects.values_list("run_id", flat=True)
    return [finding for run_id in run_ids for finding in audit(str(run_id)).findings]


def test_workflow_runs_and_its_summary_counts_every_node(worker):
    result = work(worker, tasks.doubled_sum.enqueue(5))

    assert result.status is TaskResultStatus.SUCCESSFUL
    assert result.return_value == 20
    summary = summary_of(result)
    assert summary.state is WorkflowState.SUCCEEDED
    assert summary.terminal is not None
    assert not summary.terminal.derived
    assert (summary.discovered_nodes, summary.node_counts.succeeded) == (6, 6)
    assert summary.discovered_edges == 5
    assert summary.percent == 100
    assert summary.detail.availability is DetailAvailability.AVAILABLE
    attempt = row_of(result).attempts.get()
    assert attempt.state == "SUCCEEDED"
    assert bytes(attempt.terminal_summary) == bytes(row_of(result).progress_summary)
    assert not ExecutionLease.objects.exists()
    assert findings() == []
    wait_until(lambda: not actors_of(result))


def test_failing_task_fails_with_its_error_and_without_its_secret(worker):
    result = work(worker, tasks.failing.enqueue())

    assert result.status is TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert "ValueError: cannot log in with password=[redacted]" in error.traceback
    assert tasks.SECRET not in error.traceback
    assert summary_of(result).state is WorkflowState.FAILED


def test_failing_leaf_fails_the_task_and_is_counted_without_its_secret(worker):
    result = work(worker, tasks.failing_leaf.enqueue())

    assert result.status is TaskResultStatus.FAILED
    assert result.errors[0].exception_class is ValueError
    assert tasks.SECRET not in result.errors[0].traceback
    assert summary_of(result).node_counts.failed == 1
    assert findings() == []
    records = NodeDetail.objects.values_list("record", flat=True)
    assert b"[redacted]" in b"".join(map(bytes, records))
    assert tasks.SECRET.encode() not in b"".join(map(bytes, records))
    stages = RunStages.objects.values_list("body", flat=True)
    assert tasks.SECRET.encode() not in b"".join(map(bytes, stages))


@pytest.mark.deep
def test_previews_and_last_reports_are_stored_with_their_nodes(worker):
    result = work(worker, tasks.previewed.enqueue(6))

    assert result.return_value == 15
    rows = NodeDetail.objects.order_by("ordinal").values_list("record", flat=True)
    details = [decode_detail(bytes(record)) for record in rows]
    hidden = {"note": "password=[redacted]", "[redacted]": 1}
    assert [json.loads(bytes(detail.preview)) for detail in details] == [
        {"rows": number, **hidden} for number in (1, 2, 3, 4, 5, 15)
    ]
    assert [(each.current, each.message) for each in details[:-1]] == [
        (number, f"last of {number}") for number in range(1, 6)
    ]
    assert [each.metrics for each in details[:-1]] == [
        {"[redacted]": number} for number in range(1, 6)
    ]
    stored = b"".join(map(bytes, rows))
    assert tasks.SECRET.encode() not in stored
    assert tasks.TOKEN.encode() not in stored
    assert summary_of(result).detail.availability is DetailAvailability.AVAILABLE
    assert findings() == []


def announced():
    """The hosts under which a run is left with the cluster."""
    return internal_kv._internal_kv_list(b"", namespace=internals.NAMESPACE)


@pytest.mark.deep
def test_what_the_methods_of_actors_report_is_stored_with_their_nodes(worker):
    result = work(worker, tasks.played.enqueue())

    assert result.return_value == [1, 3, 4, 2]
    rows = NodeDetail.objects.order_by("ordinal").values_list("record", flat=True)
    details = [decode_detail(bytes(record)) for record in rows]
    assert [(each.state, each.current, each.message) for each in details] == [
        ("SUCCEEDED", 1, "password=[redacted] 1"),
        ("SUCCEEDED", 3, "begun 3"),
        ("SUCCEEDED", 4, "begun 4"),
        ("SUCCEEDED", 2, "password=[redacted] 2"),
    ]
    assert details[0].metrics == {"[redacted]": 1}
    # RUNNING from the first report on.
    for each in details:
        assert each.submitted_ms <= each.started_ms <= each.ended_ms
        assert each.host
    events = decode_events(bytes(WorkflowRun.objects.get().events))
    assert [event.text for event in events] == ["progress_not_finite"] * 2
    assert summary_of(result).node_counts.succeeded == 4
    assert findings() == []
    assert announced() == []


@pytest.mark.deep
def test_a_run_with_actors_that_dies_leaves_no_word_behind(worker):
    result = work(worker, tasks.crashing_with_actors.enqueue())

    assert row_of(result).state == "LOST"
    wait_until(lambda: not actors_of(result))
    assert announced() == []


@pytest.mark.deep
def test_without_the_collectors_database_every_end_is_recorded_all_the_same(
    worker, collector_dsn, settings
):
    before = collector_dsn.read_text()
    collector_dsn.write_text("postgresql://nobody:nothing@127.0.0.1:1/nowhere")
    try:
        result = tasks.doubled_sum.enqueue(3)
        # Without a collector, so that these run while the first one waits for its own.
        settings.DJANGO_RAY = {"REPORTING_POLICY": "disabled"}
        unstorable, leaving = tasks.unstorable.enqueue(), tasks.leaving.enqueue()
        interrupted, attempt = tasks.interrupted.enqueue(), tasks.attempt.enqueue()
        work(worker, result, unstorable, leaving, interrupted, attempt)
    finally:
        collector_dsn.write_text(before)

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 6)
    summary = summary_of(result)
    assert summary.state is WorkflowState.SUCCEEDED
    assert summary.detail.availability is DetailAvailability.NOT_REPORTED
    assert summary.terminal is not None
    assert summary.terminal.derived
    assert unstorable.errors[0].exception_class is ValueError
    assert "NUL" in unstorable.errors[0].traceback
    assert leaving.errors[0].exception_class is SystemExit
    assert row_of(interrupted).state == "CANCELLED"
    assert summary_of(interrupted).state is WorkflowState.CANCELLED
    assert attempt.return_value == [1, attempt.id]
    wait_until(lambda: not actors_of(result))


@pytest.mark.deep
def test_what_a_task_leaves_may_refuse_to_be_read(worker):
    results = tasks.sealed.enqueue(), tasks.mute.enqueue()
    work(worker, *results)

    for result, kind in zip(results, (TypeError, tasks.Mute), strict=True):
        assert result.errors[0].exception_class is kind
        summary = summary_of(result)
        assert summary.state is WorkflowState.FAILED
        assert summary.node_counts.succeeded == 2
        assert not summary.terminal.derived


@pytest.mark.deep
def test_policy_of_the_moment_of_enqueueing_decides_what_is_kept(worker, settings):
    results = {}
    for policy in ("summary", "terminal_only"):
        settings.DJANGO_RAY = {"REPORTING_POLICY": policy}
        results[policy] = tasks.doubled_sum.enqueue(3)
    settings.DJANGO_RAY = {}
    disabled = enqueue_with(tasks.doubled_sum, {"policy": "disabled"}, 3)
    results["disabled"] = disabled

    work(worker, *results.values())

    summaries_by_policy = {key: summary_of(result) for key, result in results.items()}
    assert {result.return_value for result in results.values()} == {6}
    assert {
        policy: (summary.state, summary.detail.availability, summary.discovered_nodes)
        for policy, summary in summaries_by_policy.items()
    } == {
        "summary": ("SUCCEEDED", "OMITTED_BY_POLICY", 4),
        "terminal_only": ("SUCCEEDED", "OMITTED_BY_POLICY", 4),
        "disabled": ("SUCCEEDED", "DISABLED", 0),
    }
    assert not NodeDetail.objects.exists()
    assert not RunStages.objects.exists()
    # A collector's first act is to make its run's row.
    assert not WorkflowRun.objects.filter(run_id=row_of(disabled).run_id).exists()
    assert WorkflowRun.objects.count() == 2


@pytest.mark.deep
def test_task_whose_process_dies_is_lost_and_its_actors_are_gone(worker):
    result = work(worker, tasks.crashing.enqueue())

    assert row_of(result).state == "LOST"
    assert "WorkerCrashedError" in result.errors[0].traceback
    assert summary_of(result).state is WorkflowState.LOST
    assert findings() == []
    wait_until(lambda: not actors_of(result))
