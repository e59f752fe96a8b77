"""Tasks that the tests of the app enqueue; nothing runs them."""

import functools

from django.tasks import task

from django_ray.tasks.options import ray_options


@task
def plain(*args, **kwargs):
    return None


@task
async def coroutine(number):
    return number


@task(takes_context=True)
def contextual(context, number):
    return number


@task
@ray_options(
    policy="terminal_only", limits={"name": "small", "values": {"retained_nodes": 10}}
)
def brief(*args, **kwargs):
    return None


@task
@ray_options(max_attempts=3, backoff_seconds=10, backoff_max_seconds=60)
def stubborn(*args, **kwargs):
    return None


def measured(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@task
@measured
@ray_options(retention_days=1)
def decorated():
    return None


def no_task():
    return None
