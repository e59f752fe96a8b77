"""`manage.py ray_worker`: claims tasks and runs them on Ray."""

import os
from contextlib import suppress

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.tasks import DEFAULT_TASK_QUEUE_NAME

from django_ray import conf
from django_ray.errors import ConfigurationError, StorageUnavailable
from django_ray.management.asking import migrated
from django_ray.models.executions import RayTaskExecution
from django_ray.readers import context


class Command(BaseCommand):
    """Parses what to serve, and serves it until told to stop."""

    help = "Claim tasks and run them on Ray, until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options; see --help."""
        where = parser.add_mutually_exclusive_group()
        where.add_argument(
            "--address",
            default=None,
            help="the Ray cluster to join (default: DJANGO_RAY['RAY_ADDRESS'])",
        )
        where.add_argument(
            "--local",
            action="store_true",
            help="start a Ray on this machine, and stop it at the end",
        )
        parser.add_argument(
            "--cpus",
            type=int,
            default=os.cpu_count() or 1,
            help="the local Ray's CPUs (default: the machine's)",
        )
        parser.add_argument(
            "--queue",
            action="append",
            dest="queues",
            help=f"a queue to serve; repeat it (default: {DEFAULT_TASK_QUEUE_NAME})",
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            default=4,
            help="how many executions at once (default: 4)",
        )

    def handle(
        self,
        *,
        address: str | None,
        local: bool,
        cpus: int,
        queues: list[str] | None,
        concurrency: int,
        **_options: object,
    ) -> None:
        """Serve."""
        # Ray is loaded by the command that runs it, not by the one that lists commands.
        from django_ray.tasks import service

        if concurrency < 1 or cpus < 1:
            raise CommandError("--concurrency and --cpus are positive numbers.")
        _require_tables()
        try:
            service.serve(
                address=None if local else address or conf.current().ray_address,
                cpus=cpus,
                queues=frozenset(queues or [DEFAULT_TASK_QUEUE_NAME]),
                concurrency=concurrency,
                say=lambda line: self.stdout.write(line),
            )
        except (ConfigurationError, ConnectionError) as exc:
            raise CommandError(str(exc)) from exc


def _require_tables() -> None:
    """Refuse to serve a database that was never migrated; one that is away is waited for."""
    with suppress(StorageUnavailable), migrated(returncode=1), context.answering():
        RayTaskExecution.objects.exists()
