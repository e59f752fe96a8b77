"""Everything the demo runs on: PostgreSQL, Ray, a worker, a web server, and their end."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actors.local import Address, LocalRay, node_environment
from cluster import services

SETTINGS = "examples.census.settings"
STOP_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Where things answer, while they run."""

    ray: Address
    web: str
    worker: subprocess.Popen[bytes]
    logs: Path


@contextlib.contextmanager
def stage(cpus: int) -> Iterator[Stage]:
    """Start all of it in a folder of its own; leave no process and no file behind."""
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="census-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = stack.enter_context(services.postgresql(folder / "data"))
        os.environ["DATABASE_URL"] = url
        os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
        environment = node_environment(
            os.environ, database_url=url, settings_module=SETTINGS
        )
        _migrate()
        ray = stack.enter_context(
            LocalRay(num_cpus=cpus, environment=environment, dashboard=True)
        )
        environment = {**environment, **ray.credentials}
        # Static files are served though DEBUG is off: it listens on this machine alone.
        port = _free_port()
        address = f"127.0.0.1:{port}"
        worker = stack.enter_context(
            _command(
                ["ray_worker", "--address", ray.ray, "--concurrency", "1"],
                environment,
                folder / "worker.log",
            )
        )
        stack.enter_context(
            _command(
                ["runserver", "--noreload", "--skip-checks", "--insecure", address],
                environment,
                folder / "web.log",
            )
        )
        yield Stage(ray, f"http://{address}", worker, folder)


def _migrate() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


@contextlib.contextmanager
def _command(
    words: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a management command beside this process, in a session of its own."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # A worker drains at the first request and leaves at the second.
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
