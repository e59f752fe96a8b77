"""`manage.py ray_reconcile`: decides what becomes of an execution in RECONCILE."""

import uuid

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from django_ray.management.asking import asking
from django_ray.tasks import requests
from django_ray.tasks.requests import Verdict
from django_ray.tasks.transitions import Recorded, Stale


class Command(BaseCommand):
    """Records an operator's decision, once; says the state that follows."""

    help = (
        "Decide of an execution whose compiled graph may have done something that nobody "
        "knows of: let it run once more, or end it as its last attempt ended."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; exactly one of the two decisions."""
        parser.add_argument("id", type=uuid.UUID, help="what enqueue() returned as id")
        verdict = parser.add_mutually_exclusive_group(required=True)
        verdict.add_argument(
            "--retry",
            dest="verdict",
            action="store_const",
            const=Verdict.retry,
            help="to do it again is right: a worker claims it",
        )
        verdict.add_argument(
            "--abandon",
            dest="verdict",
            action="store_const",
            const=Verdict.abandon,
            help="it is FAILED, LOST or TIMED_OUT, as its last attempt",
        )

    def handle(self, *, id: uuid.UUID, verdict: Verdict, **_: object) -> None:
        """Decide; an execution that is not in RECONCILE, or not there, is an error."""
        with asking(returncode=1):
            asked = requests.reconcile(id, verdict, now=timezone.now())
        match asked:
            case None:
                raise CommandError("There is no such execution.")
            case Stale():
                raise CommandError("It is not in RECONCILE.")
            case Recorded(execution):
                self.stdout.write(execution.state)
