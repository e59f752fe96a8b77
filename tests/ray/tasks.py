"""Tasks of the end-to-end tests."""

import os

import ray
from django.tasks import task

from django_ray.workflow import fan_out, preview, report, run

SECRET = "hunter2-of-the-tests"
TOKEN = "ghp_" + "0123456789" * 3


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


def head(values):
    return {"rows": len(values), "note": f"password={SECRET}", TOKEN: 1}


@ray.remote
@preview(head)
def listed(number):
    report(0, number, message="begun")
    report(number, number, message=f"last of {number}", metrics={TOKEN: number})
    return list(range(number))


@ray.remote
@preview("tests.ray.tasks.head")
def joined(*lists):
    return [item for each in lists for item in each]


@task
def previewed(count):
    """So short that each leaf ends long before its process would report."""
    return len(run(joined.bind(*fan_out(listed, range(1, count), refs=True))))


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
