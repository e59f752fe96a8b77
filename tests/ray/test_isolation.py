"""A task that is rough with its process comes to a true end, and the next one runs."""

import os

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from django_ray.maintenance.audit import audit
from django_ray.models.executions import ExecutionLease
from django_ray.tasks import requests
from tests.ray import rough
from tests.ray.conftest import wait_until
from tests.ray.working import row_of, summary_of, work

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]


def ends_as(worker, result, *states):
    """Work until the row has ended; claim that its progress is kept, and the next runs."""
    ended(worker, result, *states)
    assert work(worker, rough.fine.enqueue()).return_value == 6
    return result


def ended(worker, result, *states):
    work(worker, result)
    row = row_of(result)
    assert row.state in states
    summary = summary_of(result)
    assert summary.state == row.state
    assert (summary.discovered_nodes, summary.node_counts.succeeded) == (3, 3)
    assert audit(str(row.run_id)).findings == ()
    assert not ExecutionLease.objects.filter(execution=row).exists()


def test_transaction_that_is_rolled_back_takes_no_progress_along(worker):
    ended(worker, rough.rolls_back.enqueue(True), "FAILED")
    assert not User.objects.exists()


@pytest.mark.deep
def test_task_that_rolls_back_and_returns_has_succeeded(worker):
    result = ends_as(worker, rough.rolls_back.enqueue(False), "SUCCEEDED")
    assert result.return_value == 6
    assert not User.objects.exists()


@pytest.mark.deep
def test_process_that_exits(worker):
    result = ends_as(worker, rough.exits.enqueue(), "LOST")
    assert "WorkerCrashedError" in result.errors[0].traceback


@pytest.mark.deep
def test_memory_that_is_gone_for_python(worker):
    result = ends_as(worker, rough.leaks.enqueue(), "FAILED")
    assert result.errors[0].exception_class is MemoryError


@pytest.mark.deep
def test_memory_that_is_gone_for_all_with_its_process(worker):
    ends_as(worker, rough.leaks_on.enqueue(), "LOST")


@pytest.mark.deep
def test_process_that_heeds_nothing_is_cancelled_by_force(worker, tmp_path):
    path = tmp_path / "pid"
    result = rough.deaf.enqueue(str(path))

    def is_deaf():
        worker.step(claiming=True)
        return path.exists() and path.read_text()

    pid = int(wait_until(is_deaf))
    requests.cancel(row_of(result).public_id, now=timezone.now())
    ends_as(worker, result, "CANCELLED")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 20)


@pytest.mark.deep
def test_process_that_forks(worker):
    assert ends_as(worker, rough.forks.enqueue(), "SUCCEEDED").return_value == 6


@pytest.mark.deep
def test_fork_that_comes_back_is_not_the_task(worker):
    assert ends_as(worker, rough.forks_back.enqueue(), "SUCCEEDED").return_value == 6


@pytest.mark.deep
def test_transaction_that_is_left_open_takes_nothing_along(worker):
    result = rough.swallows_its_transaction.enqueue()
    assert ends_as(worker, result, "SUCCEEDED").return_value == 6
    assert not User.objects.exists()


@pytest.mark.deep
def test_ray_of_ones_own_is_refused_by_ray_and_fails_the_task_alone(worker):
    result = ends_as(worker, rough.inits.enqueue(False), "FAILED")
    assert result.errors[0].exception_class is RuntimeError
    assert ends_as(worker, rough.inits.enqueue(True), "SUCCEEDED").return_value == 6


@pytest.mark.deep
def test_process_that_leaves_ray(worker):
    """Its raylet may take a worker that has left for dead before its result is read."""
    result = ends_as(worker, rough.leaves_ray.enqueue(), "SUCCEEDED", "LOST")
    if row_of(result).state == "SUCCEEDED":
        assert result.return_value == "left"
