"""Wakes idle workers: what becomes ready notifies, in its transaction, and they listen.

Delivered on commit, never before, and not at all after a rollback. A notice is a hint: it
may be lost with a connection, so a worker also looks for itself now and then.
"""

import time
from collections.abc import Collection

from django.db import connection
from django.db.utils import Error

from django_ray.away import is_away

CHANNEL = "django_ray_ready"


def wake(queue: str) -> None:
    """Notify, when this transaction commits, that something of a queue is ready."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, queue])


class Listener:
    """The one listening of a worker, on the connection its statements use."""

    def __init__(self, queues: Collection[str]) -> None:
        self._queues = queues
        self._listening: object = None

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; True when there may be something to claim.

        So it is after every connection that is new: what was said meanwhile is lost. While
        PostgreSQL is away it only waits.
        """
        try:
            connection.ensure_connection()
            wrapped = connection.connection
            is_new = wrapped is not self._listening
            if is_new:
                with connection.cursor() as cursor:
                    cursor.execute(f"LISTEN {CHANNEL}")
                self._listening = wrapped
                return True
            with connection.wrap_database_errors:
                notices = list(wrapped.notifies(timeout=seconds, stop_after=1))
        except Error as exc:
            if not is_away(exc):
                raise
            connection.close()
            time.sleep(seconds)
            return False
        return any(notice.payload in self._queues for notice in notices)
