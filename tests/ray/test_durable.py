"""What outlives a worker, on a real Ray and a real PostgreSQL: adoption."""

import os
import signal
import subprocess
import sys

import pytest

from django_ray.models.executions import ExecutionLease
from django_ray.tasks import service
from tests.app.executions import abandon
from tests.ray import tasks
from tests.ray.conftest import ROOT, SETTINGS, wait_until
from tests.ray.working import row_of, work

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
