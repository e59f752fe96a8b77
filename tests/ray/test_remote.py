"""Ray 2.60 as the actors use it: names, environments, hosts. Architecture 5.3, 5.11."""

import json
import os
import subprocess
import sys
import uuid

import pytest

from actors import names, remote
from cluster.runs import execution
from cluster.runs import settings as run_settings
from django_ray.identity import RunIdentity
from django_ray.protocol import frames
from django_ray.protocol.limits import V1
from django_ray.tasks.service import database_url
from tests.ray.conftest import ROOT, SETTINGS, wait_until

pytestmark = pytest.mark.ray


def identity(generation: int = 1) -> RunIdentity:
    return RunIdentity(
        task_execution_pk=1,
        attempt_number=1,
        execution_generation=generation,
        run_id=str(uuid.uuid4()),
    )


def ended(host: remote.HostHandle) -> names.Ended | names.Lost:
    def outcome() -> names.Ended | names.Lost | None:
        said = host.outcome(1.0)
        return None if isinstance(said, names.Running) else said

    return wait_until(outcome)


def name_of(run: RunIdentity) -> names.ActorName:
    return names.ActorName("host", run.run_id, run.execution_generation)


def test_outer_task_and_leaves_have_django_and_the_nodes_database(ray_cluster):
    run = identity()

    said = ended(
        remote.start_host(run, entry="tests.ray.entries.where", payload=b"hello")
    )

    assert isinstance(said, names.Ended)
    there = {
        "django": True,
        "process": "task",
        "settings": SETTINGS,
        "database": database_url(),
    }
    assert json.loads(said.envelope) == {
        "payload": "hello",
        "outer": there,
        "leaf": there,
    }
    assert remote.kill(name_of(run))


def test_host_is_listed_by_name_until_it_is_killed(ray_cluster):
    run = identity(generation=7)
    remote.start_host(run, entry="tests.ray.entries.where", payload=b"")

    assert name_of(run) in remote.list_detached()
    assert remote.kill(name_of(run))
    wait_until(lambda: name_of(run) not in remote.list_detached())
    assert remote.find_host(run.run_id, 7) is None
    assert not remote.kill(name_of(run))


def test_run_has_one_host_of_its_name(ray_cluster):
    run = identity()
    remote.start_host(run, entry="tests.ray.entries.where", payload=b"")

    with pytest.raises(ValueError, match="already"):
        remote.start_host(run, entry="tests.ray.entries.where", payload=b"")

    assert remote.find_host(run.run_id, 1) is not None
    assert remote.kill(name_of(run))


def test_outer_task_whose_process_dies_is_lost(ray_cluster):
    run = identity()

    said = ended(remote.start_host(run, entry="tests.ray.entries.crash", payload=b""))

    assert said == names.Lost("WorkerCrashedError")
    remote.kill(name_of(run))


def test_killed_host_is_lost(ray_cluster, tmp_path):
    run = identity()
    host = remote.start_host(
        run, entry="tests.ray.entries.slow", payload=bytes(tmp_path / "never")
    )
    assert host.outcome(30.0) == names.Running()

    remote.kill(name_of(run))

    assert ended(host) == names.Lost("ActorDiedError")


def test_cancel_interrupts_the_outer_task(ray_cluster, tmp_path):
    run = identity()
    host = remote.start_host(
        run, entry="tests.ray.entries.interrupted", payload=bytes(tmp_path / "never")
    )
    assert host.outcome(30.0) == names.Running()

    def outcome() -> bool:
        host.cancel(force=False)
        return host.outcome(1.0) != names.Running()

    wait_until(outcome)
    assert host.outcome(1.0) in (
        names.Ended(b"interrupted"),
        names.Lost("TaskCancelledError"),
    )
    remote.kill(name_of(run))


STARTER = """
import os, sys, signal
from actors import remote
from django_ray.identity import RunIdentity
address, run_id, payload = sys.argv[1:]
remote.connect(address, settings_module="tests.settings", log_to_driver=False)
host = remote.start_host(
    RunIdentity(
        task_execution_pk=1, attempt_number=1, execution_generation=1, run_id=run_id
    ),
    entry="tests.ray.entries.slow",
    payload=payload.encode(),
)
host.outcome(30.0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.deep
def test_host_and_its_outer_task_survive_the_death_of_their_driver(
    ray_cluster, tmp_path
):
    run = identity()
    flag = tmp_path / "flag"
    subprocess.run(
        [sys.executable, "-c", STARTER, ray_cluster.ray, run.run_id, str(flag)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ROOT},
        check=False,
        capture_output=True,
    )
    adopted = remote.find_host(run.run_id, 1)
    assert adopted is not None
    assert adopted.outcome(5.0) == names.Running()

    flag.touch()

    assert ended(adopted) == names.Ended(bytes(flag))
    remote.kill(name_of(run))


@pytest.mark.django_db(transaction=True)
def test_a_frame_over_the_bound_is_refused_unread_and_counted(ray_cluster):
    run = execution()
    collector = remote.start_collector(run_settings(run))
    reasons = []

    for size in (V1.frame, V1.frame + 1, 10_000_000):
        ticket = collector.send(bytes(size))
        ((_, answer),) = collector.poll([ticket], 60.0)
        reasons.append(frames.decode_acknowledgement(answer).reason)

    assert reasons == ["malformed_frame", "frame", "frame"]
    told = collector.status(60.0)
    assert (told["refused"], told["malformed_frame"], told["frame"]) == (3, 1, 2)
    remote.kill(names.ActorName("collector", run.run_id, run.execution_generation))


@pytest.mark.deep
def test_driver_without_the_token_is_refused(ray_cluster):
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("RAY_AUTH")
    }
    script = f"import ray; ray.init(address={ray_cluster.ray!r})"

    refused = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "RAY_gcs_rpc_server_connect_timeout_s": "2"},
        check=False,
        capture_output=True,
        text=True,
    )

    assert refused.returncode != 0
    assert "uthenticat" in refused.stderr
