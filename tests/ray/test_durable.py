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
from django_ray.protocol import summary as summaries
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


def is_ended_with_its_leaf(result, state):
    """Claim that the run's one leaf was told as cancelled before the row ended."""
    assert row_of(result).state == state
    summary = summary_of(result)
    assert (summary.state, summary.node_counts.cancelled) == (state, 1)
    assert audit(str(row_of(result).run_id)).findings == ()
    return True


@pytest.mark.deep
def test_runs_are_cancelled_timed_out_and_retried(worker, tmp_path):
    path = str(tmp_path / "never")
    cancelled = tasks.patient.enqueue(path)
    late = enqueue_with(tasks.patient, {"timeout_seconds": 3_600}, path)
    # Without a collector, which costs seconds for each attempt.
    retried = enqueue_with(tasks.second_time, {"policy": "disabled"}, 3)
    work(worker, retried)
    step_until(worker, lambda: all(map(has_a_leaf_in_flight, (cancelled, late))))

    requests.cancel(row_of(cancelled).public_id, now=timezone.now())
    RayTaskExecution.objects.filter(public_id=late.id).update(
        started_at=timezone.now() - timedelta(hours=1)
    )
    work(worker, cancelled, late)

    assert is_ended_with_its_leaf(cancelled, "CANCELLED")
    assert not summary_of(cancelled).terminal.derived
    assert is_ended_with_its_leaf(late, "TIMED_OUT")
    assert summary_of(late).terminal.reason == "timed_out"
    assert "(timed_out)" in late.errors[0].traceback
    assert states().count("CANCELLED") == 2
    assert (retried.return_value, retried.attempts) == (6, 2)
    assert [error.exception_class for error in retried.errors] == [ValueError]
    assert row_of(retried).execution_generation == 2


@pytest.mark.deep
def test_both_attempts_keep_what_they_published(worker):
    result = work(worker, tasks.second_time.enqueue(3))

    assert summary_of(result).node_counts.succeeded == 3
    first, second = row_of(result).attempts.order_by("attempt_number")
    assert (first.state, second.state) == ("FAILED", "SUCCEEDED")
    kept = summaries.decode(bytes(first.terminal_summary))
    assert (kept.state, kept.node_counts.succeeded) == ("FAILED", 3)
    for attempt in (first, second):
        assert audit(str(attempt.run_id)).findings == ()


@pytest.mark.deep
def test_async_tasks_run_and_are_cancelled_with_their_leaves(worker, tmp_path):
    cancelled = tasks.patient_thread.enqueue(str(tmp_path / "never"))
    result = work(worker, tasks.asynchronous.enqueue(3))
    step_until(worker, lambda: has_a_leaf_in_flight(cancelled))

    requests.cancel(row_of(cancelled).public_id, now=timezone.now())
    work(worker, cancelled)

    assert result.return_value == ["RUNNING", 6]
    assert summary_of(result).node_counts.succeeded == 3
    assert is_ended_with_its_leaf(cancelled, "CANCELLED")
