"""Adoption and ends from outside, on a real Ray and a real PostgreSQL."""

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from django_ray.maintenance.audit import audit
from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.models.progress import NodeDetail
from django_ray.protocol.records import decode_detail
from django_ray.tasks import requests, service
from django_ray.tasks.options import enqueue_with
from tests.app.executions import abandon
from tests.ray import tasks
from tests.ray.conftest import ROOT, SETTINGS, wait_until
from tests.ray.working import row_of, summary_of, work

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def other_worker(ray_cluster):
    """A worker process on the same cluster."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "django", "ray_worker"),
            f"--address={ray_cluster.ray}",
        ],
        env={
            **os.environ,
            **ray_cluster.credentials,
            "DATABASE_URL": service.database_url(),
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "PYTHONPATH": ROOT,
        },
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


def is_running(result):
    return row_of(result).state == "RUNNING"


def has_a_leaf_in_flight(result):
    row = row_of(result)
    return row.progress_summary and summary_of(result).node_counts.running


def test_run_of_a_worker_that_was_killed_is_adopted_and_its_result_kept(
    other_worker, worker, tmp_path
):
    path = tmp_path / "said"
    result = tasks.patient.enqueue(str(path))
    wait_until(lambda: is_running(result))
    before = row_of(result)

    other_worker.send_signal(signal.SIGKILL)
    other_worker.wait()
    path.write_text("done")
    abandon()
    work(worker, result)

    assert result.return_value == ["done"]
    after = row_of(result)
    assert (after.run_id, after.attempt_number) == (before.run_id, 1)
    assert after.attempts.count() == 1
    assert not ExecutionLease.objects.exists()


def step_until(worker, condition):
    def holds():
        worker.step(claiming=True)
        return condition()

    return wait_until(holds)


def states():
    rows = NodeDetail.objects.order_by("ordinal").values_list("record", flat=True)
    return [decode_detail(bytes(record)).state for record in rows]


@pytest.mark.parametrize("task", [tasks.patient, tasks.patient_thread])
def test_running_task_is_cancelled_with_its_leaf_in_flight(worker, tmp_path, task):
    result = task.enqueue(str(tmp_path / "never"))
    step_until(worker, lambda: has_a_leaf_in_flight(result))

    requests.cancel(row_of(result).public_id, now=timezone.now())
    work(worker, result)

    assert row_of(result).state == "CANCELLED"
    assert summary_of(result).state == "CANCELLED"
    assert summary_of(result).node_counts.cancelled == 1
    assert not summary_of(result).terminal.derived
    assert states() == ["CANCELLED"]
    assert audit(str(row_of(result).run_id)).findings == ()


def test_run_over_its_time_ends_with_its_leaf(worker, tmp_path):
    path = str(tmp_path / "never")
    result = enqueue_with(tasks.patient, {"timeout_seconds": 3_600}, path)
    step_until(worker, lambda: has_a_leaf_in_flight(result))

    RayTaskExecution.objects.update(started_at=timezone.now() - timedelta(hours=1))
    work(worker, result)

    assert row_of(result).state == "TIMED_OUT"
    assert summary_of(result).state == "TIMED_OUT"
    assert summary_of(result).terminal.reason == "timed_out"
    assert "(timed_out)" in result.errors[0].traceback
    assert states() == ["CANCELLED"]
    assert audit(str(row_of(result).run_id)).findings == ()


def test_task_that_fails_once_succeeds_at_its_second_attempt(worker):
    result = work(worker, tasks.second_time.enqueue(3))

    assert (result.return_value, result.attempts) == (6, 2)
    (error,) = result.errors
    assert error.exception_class is ValueError
    row = row_of(result)
    assert (row.state, row.attempt_number) == ("SUCCEEDED", 2)
    assert row.execution_generation == 2
    first, second = row.attempts.order_by("attempt_number")
    assert (first.state, second.state) == ("FAILED", "SUCCEEDED")
    assert bytes(first.terminal_summary) != bytes(second.terminal_summary)
    assert summary_of(result).node_counts.succeeded == 3
    for attempt in (first, second):
        assert audit(str(attempt.run_id)).findings == ()


def test_async_task_runs_with_its_nodes_and_the_database(worker):
    result = work(worker, tasks.asynchronous.enqueue(3))

    assert result.return_value == ["RUNNING", 6]
    assert summary_of(result).node_counts.succeeded == 3
