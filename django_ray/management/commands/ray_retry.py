"""`manage.py ray_retry`: runs an execution once more that ended without success."""

import uuid

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_ray.management.asking import asking
from django_ray.tasks import requests
from django_ray.tasks.requests import Unreconciled
from django_ray.tasks.transitions import Recorded, Stale


class Command(BaseCommand):
    """Makes the execution ready; a worker claims it."""

    help = "Run an execution once more that is FAILED, LOST, TIMED_OUT or CANCELLED."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the argument."""
        parser.add_argument("id", type=uuid.UUID, help="what enqueue() returned as id")

    def handle(self, *, id: uuid.UUID, **_: object) -> None:
        """Retry; an execution that goes on, succeeded or is not there is an error."""
        with asking(returncode=1):
            asked = requests.retry(id)
        match asked:
            case None:
                raise CommandError("There is no such execution.")
            case Stale():
                raise CommandError("It goes on, or has succeeded.")
            case Unreconciled():
                raise CommandError("It is in RECONCILE: see ray_reconcile.")
            case Recorded():
                self.stdout.write("It is ready to run once more; a worker claims it.")
