"""Tasks of the end-to-end tests."""

import os

import ray
from django.tasks import task

from django_ray.workflow import fan_out, run

SECRET = "hunter2-of-the-tests"


@ray.remote
def double(number):
    return 2 * number


@ray.remote
def add(*numbers):
    return sum(numbers)


@task
def doubled_sum(count):
    """One node a number, and one that adds them up."""
    refs = list(fan_out(double, range(count), refs=True))
    return run(add.bind(*refs))


@ray.remote(max_retries=0)
def refuse():
    raise ValueError(f"postgresql://root:{SECRET}@db/census is not reachable")


@task
def failing_leaf():
    return run(refuse.bind())


@task
def failing():
    raise ValueError(f"cannot log in with password={SECRET}")


@task
def unstorable():
    return {"text": "a\x00b"}


@task
def interrupted():
    raise KeyboardInterrupt


@task
def leaving():
    raise SystemExit(3)


@task
def crashing():
    """Do some work, then take the process down."""
    list(fan_out(double, range(3)))
    os._exit(3)


@task(takes_context=True)
def attempt(context):
    return [context.attempt, context.task_result.id]
