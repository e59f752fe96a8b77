"""Executions of the tests of the app: enqueued, claimed, started."""

from datetime import UTC, datetime, timedelta

from django.db.models.functions import Now
from django.tasks.base import Task

from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.tasks import transitions
from django_ray.tasks.transitions import Held
from tests.app import taskbook

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
LEASE = timedelta(seconds=60)


def claim(owner: str = "worker", **changes: object) -> Held | None:
    terms = {
        "owner": owner,
        "cluster": "here",
        "backends": ["default"],
        "queues": ["default"],
        "lease": LEASE,
        "now": NOW,
    }
    return transitions.claim(**{**terms, **changes})


def claimed(task: Task = taskbook.plain) -> Held:
    task.enqueue()
    held = claim()
    assert held is not None
    return held


def running(task: Task = taskbook.plain) -> Held:
    held = claimed(task)
    started = transitions.start(held.identity, now=NOW, again=False)
    assert isinstance(started, transitions.Recorded)
    return held


def adopt(owner: str = "another", **changes: object) -> transitions.Orphan | None:
    terms = {
        "owner": owner,
        "cluster": "here",
        "backends": ["default"],
        "queues": ["default"],
        "lease": LEASE,
        "watched": [],
    }
    return transitions.adopt(**{**terms, **changes})


def abandon(ago: timedelta = timedelta(seconds=1)) -> None:
    """Let every lease have ended so long ago."""
    ExecutionLease.objects.update(expires_at=Now() - ago)


def come_due() -> None:
    """Let the time have come that every execution waits for."""
    RayTaskExecution.objects.update(run_after=Now() - timedelta(seconds=1))


def row(held: Held) -> RayTaskExecution:
    return RayTaskExecution.objects.get(pk=held.identity.task_execution_pk)
