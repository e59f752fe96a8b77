"""Executions of the tests of the app: enqueued, claimed, started."""

from datetime import UTC, datetime, timedelta

from django_ray.models.executions import RayTaskExecution
from django_ray.tasks import transitions
from django_ray.tasks.transitions import Held
from tests.app import taskbook

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
LEASE = timedelta(seconds=60)


def claim(owner: str = "worker", **changes: object) -> Held | None:
    terms = {
        "owner": owner,
        "backends": ["default"],
        "queues": ["default"],
        "lease": LEASE,
        "now": NOW,
    }
    return transitions.claim(**{**terms, **changes})


def claimed() -> Held:
    taskbook.plain.enqueue()
    held = claim()
    assert held is not None
    return held


def running() -> Held:
    held = claimed()
    started = transitions.start(held.identity, now=NOW, again=False)
    assert isinstance(started, transitions.Recorded)
    return held


def row(held: Held) -> RayTaskExecution:
    return RayTaskExecution.objects.get(pk=held.identity.task_execution_pk)
