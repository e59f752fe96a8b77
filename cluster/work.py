"""Django tasks that scenarios enqueue, and what they run."""

import os
import time

import psycopg
import ray
from django.tasks import TaskContext, task

from django_ray.tasks.options import ray_options
from django_ray.workflow import fan_out

PATIENCE_S = 60.0
EFFECT = "INSERT INTO cluster_effect (execution, attempt, node) VALUES (%s, %s, %s)"


@ray.remote(num_cpus=0.25)
def nothing(item: int) -> int:
    """Return the item."""
    return item


@task
def count(nodes: int) -> int:
    """Run so many nodes, and return how many came back."""
    return sum(1 for _ in fan_out(nothing, range(nodes)))


@ray.remote(num_cpus=0.25, max_retries=0)
def effect(row: tuple[str, int, int]) -> None:
    """Leave one row behind; where it is not known whether there is one, fail."""
    with _connected() as conn:
        conn.execute(EFFECT, row)
    time.sleep(0.05)


def _connected() -> psycopg.Connection[tuple[object, ...]]:
    """Connect, also over an absence of the server."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@task(takes_context=True)
@ray_options(max_attempts=20, backoff_seconds=0)
def effects(context: TaskContext[[int], int], nodes: int) -> int:
    """Run so many nodes that each leave a row, and return how many came back."""
    execution, attempt = context.task_result.id, context.attempt
    items = ((execution, attempt, node) for node in range(nodes))
    return sum(1 for _ in fan_out(effect, items))
