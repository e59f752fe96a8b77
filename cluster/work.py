"""Django tasks that scenarios enqueue, and what they run."""

import ray
from django.tasks import task

from django_ray.workflow import fan_out


@ray.remote(num_cpus=0.25)
def nothing(item: int) -> int:
    """Return the item."""
    return item


@task
def count(nodes: int) -> int:
    """Run so many nodes, and return how many came back."""
    return sum(1 for _ in fan_out(nothing, range(nodes)))
