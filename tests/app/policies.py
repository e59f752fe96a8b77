"""Access policies of a project, for the tests."""

from django.core.exceptions import PermissionDenied
from django.db import connection

TOLD = []


def everybody(viewer, execution):
    return True


def nearly(viewer, execution):
    return "yes"


def awaited(viewer, execution):
    class Awaitable:
        def __await__(self):
            yield

    return Awaitable()


def denies(viewer, execution):
    raise PermissionDenied


def tells_the_time_out(viewer, execution):
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        TOLD[:] = [cursor.fetchone()[0]]
    return False


def of_queue_mine(viewer, execution):
    """Grants the executions of one queue, one by one, to everybody."""
    return execution is not None and execution.queue_name == "mine"
