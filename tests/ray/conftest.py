"""One Ray for the session, whose processes use the database of the tests."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from actors import remote
from actors.local import Address, LocalRay, node_environment
from django_ray.tasks import service
from django_ray.tasks.fleet import RayFleet
from django_ray.tasks.worker import Terms, Worker

SETTINGS = "tests.settings"
ROOT = str(Path(__file__).resolve().parents[2])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the cluster, so that no test starts one in the pass without Ray."""
    for item in items:
        if "ray_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ray)


@pytest.fixture(scope="session")
def collector_dsn(tmp_path_factory, django_db_setup) -> Path:
    """The file from which collectors take their database."""
    path = tmp_path_factory.mktemp("dsn") / "dsn"
    path.write_text(service.database_url())
    return path


@pytest.fixture(scope="session")
def ray_cluster(collector_dsn) -> Iterator[Address]:
    """A local Ray with token authentication, and this process connected to it."""
    url = service.database_url()
    environment = node_environment(
        {
            **os.environ,
            "DATABASE_URL": url,
            "DJANGO_RAY_DSN_FILE": str(collector_dsn),
        },
        database_url=url,
        settings_module=SETTINGS,
    )
    # A worker that one test has started is there for the next: a start costs seconds.
    environment["RAY_idle_worker_killing_time_threshold_ms"] = "60000"
    environment["PYTHONPATH"] = os.pathsep.join([ROOT, environment["PYTHONPATH"]])
    with LocalRay(num_cpus=2, environment=environment, dashboard=False) as address:
        with service.authenticated(address):
            remote.connect(address.ray, settings_module=SETTINGS, log_to_driver=False)
            yield address
        remote.disconnect()


def wait_until[T](condition: Callable[[], T], seconds: float = 60.0) -> T:
    """Return the first true value of `condition`; fail when the time is over."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{condition} did not hold within {seconds:.0f} s")
        pause.wait(0.05)
    return value


@pytest.fixture
def worker(ray_cluster):
    terms = Terms(
        owner=service.owner(),
        cluster=service.cluster(ray_cluster.ray),
        backends={"default"},
        queues={"default"},
        concurrency=4,
        lease=timedelta(seconds=60),
        redact=(),
    )
    worker = Worker(terms, RayFleet(), timezone.now)
    yield worker
    wait_until(lambda: worker.step(claiming=False) or worker.is_idle, 90)
