"""`manage.py ray_cancel`: cancels an execution, waiting or running."""

import uuid

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from django_ray.management.asking import asking
from django_ray.tasks import requests
from django_ray.tasks.requests import Requested, Unreconciled
from django_ray.tasks.transitions import Recorded, Stale


class Command(BaseCommand):
    """Asks, and says what becomes of it; it does not wait for a run to end."""

    help = "Cancel an execution: at once while it waits, by its worker while it runs."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the argument."""
        parser.add_argument("id", type=uuid.UUID, help="what enqueue() returned as id")

    def handle(self, *, id: uuid.UUID, **_: object) -> None:
        """Cancel; an execution that has ended, or is not there, is an error."""
        with asking(returncode=1):
            asked = requests.cancel(id, now=timezone.now())
        match asked:
            case None:
                raise CommandError("There is no such execution.")
            case Stale():
                raise CommandError("It has ended.")
            case Unreconciled():
                raise CommandError("It is in RECONCILE: see ray_reconcile.")
            case Recorded():
                self.stdout.write("CANCELLED")
            case Requested():
                self.stdout.write("Cancellation is asked for: its worker ends the run.")
