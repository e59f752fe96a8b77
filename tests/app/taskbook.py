"""Tasks that the tests of the app enqueue; nothing runs them."""

from django.tasks import task


@task
def plain(*args, **kwargs):
    return None


@task(takes_context=True)
def contextual(context, number):
    return number


def no_task():
    return None
