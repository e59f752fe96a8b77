"""`manage.py ray_worker --local` as a process: works, drains, leaves nothing."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from django_ray.models.executions import RayTaskExecution
from django_ray.tasks import service
from tests.app.test_worker import Desk
from tests.ray import tasks
from tests.ray.conftest import ROOT, SETTINGS, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]

MARK = "DJANGO_RAY_TEST_OF"
"""In the environment of a worker, and so of everything it starts."""


def rays_of(folder: Path) -> list[str]:
    """Name the processes that were started in the worker's session or below it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"{MARK}={folder}".encode() in environment and command:
            found.append(command.decode(errors="replace"))
    return found


@pytest.fixture
def worker(tmp_path):
    environment = {
        **os.environ,
        "DATABASE_URL": service.database_url(),
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "PYTHONPATH": ROOT,
        "TMPDIR": str(tmp_path),
        MARK: str(tmp_path),
    }
    command = [*(sys.executable, "-m", "django", "ray_worker"), "--local", "--cpus=2"]
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.deep
def test_worker_with_a_ray_of_its_own_works_drains_and_leaves_nothing(worker, tmp_path):
    result = tasks.doubled_sum.enqueue(3)

    def is_finished():
        assert worker.poll() is None, worker.communicate()[0]
        result.refresh()
        return result.is_finished

    wait_until(is_finished, 120)
    assert result.return_value == 6
    assert rays_of(tmp_path)
    assert "Starting a Ray" in worker.stdout.readline()
    first = worker.stdout.readline()
    dashboard = re.search(r"http://127\.0\.0\.1:\d+", first)
    assert dashboard, first
    assert worker.stdout.readline().startswith("Joined Ray at ")
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{dashboard[0]}/api/version", timeout=30)
    assert refused.value.code in (401, 403)
    refused.value.close()

    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=60)

    assert worker.returncode == 0, said
    assert "Worker has ended." in said
    wait_until(lambda: not rays_of(tmp_path), 20)


@pytest.mark.deep
def test_run_of_a_worker_that_left_at_once_ends_lost(worker, tmp_path):
    result = tasks.patient.enqueue(str(tmp_path / "never"))

    def is_running():
        assert worker.poll() is None, worker.communicate()[0]
        return RayTaskExecution.objects.get(public_id=result.id).state == "RUNNING"

    wait_until(is_running, 120)
    for _ in range(2):
        worker.send_signal(signal.SIGTERM)
        # Two that wait for the process at once are one.
        threading.Event().wait(1)
    said, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0, said
    assert "Leaving what runs." in said
    wait_until(lambda: not rays_of(tmp_path), 20)

    desk = Desk()
    desk.step()

    assert RayTaskExecution.objects.get(public_id=result.id).state == "LOST"


def test_worker_that_can_join_no_ray_says_what_it_needs():
    environment = {key: os.environ[key] for key in os.environ if "RAY_" not in key}
    refused = subprocess.run(
        [*(sys.executable, "-m", "django", "ray_worker"), "--address=127.0.0.1:1"],
        env={
            **environment,
            "DATABASE_URL": service.database_url(),
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "PYTHONPATH": ROOT,
            "RAY_gcs_rpc_server_connect_timeout_s": "1",
        },
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert refused.returncode == 1
    said = refused.stderr.splitlines()[-1]
    for name in (
        "127.0.0.1:1",
        "--local",
        "--address",
        "RAY_ADDRESS",
        "RAY_AUTH_TOKEN",
    ):
        assert name in said
