"""Starts what a scenario runs on, and leaves nothing behind.

PostgreSQL is the embedded one or that of `DATABASE_URL`, migrated by Django; Ray is a
local one, started only when a scenario asks.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psycopg

from cluster import services
from django_ray.storage import pool

if TYPE_CHECKING:
    from actors.local import Address


class Harness:
    """A PostgreSQL of the scenarios' tables, Django set up, and Ray on request."""

    def __init__(self, *, ray: bool) -> None:
        self._wants_ray = ray
        self._stack = ExitStack()
        self.url = ""
        self.server_version = ""
        self.ray: Address | None = None

    def __enter__(self) -> Self:
        with self._stack:
            folder = Path(
                self._stack.enter_context(
                    tempfile.TemporaryDirectory(
                        prefix="drc-", ignore_cleanup_errors=True
                    )
                )
            )
            self.url = self._stack.enter_context(services.postgresql(folder / "data"))
            os.environ["DATABASE_URL"] = self.url
            self._set_up_django()
            with psycopg.connect(self.url) as connection:
                self.server_version = str(connection.info.server_version)
            if self._wants_ray:
                self._start_ray()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Open a connection as the writer's pool does; it ends with the harness."""
        conn = self._stack.enter_context(psycopg.connect(self.url, autocommit=True))
        pool.configure(conn)
        return conn

    def _set_up_django(self) -> None:
        os.environ["DJANGO_SETTINGS_MODULE"] = "cluster.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

    def _start_ray(self) -> None:
        from actors import remote
        from actors.local import LocalRay, node_environment

        settings = os.environ["DJANGO_SETTINGS_MODULE"]
        environment = node_environment(
            os.environ, database_url=self.url, settings_module=settings
        )
        local = LocalRay(
            num_cpus=os.cpu_count() or 2, environment=environment, dashboard=False
        )
        self.ray = self._stack.enter_context(local)
        os.environ.update(self.ray.credentials)
        remote.connect(self.ray.ray, settings_module=settings, log_to_driver=False)
        self._stack.callback(remote.disconnect)
