"""One consistent, read-only snapshot for all the statements of one answer.

So no answer holds rows of one publication under the revision of another. Contract 5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError, connection, transaction

from django_ray.errors import StorageUnavailable


@contextmanager
def snapshot() -> Iterator[None]:
    """Open the outermost transaction, frozen at its first statement."""
    with answering(), transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def answering() -> Iterator[None]:
    """Raise StorageUnavailable where PostgreSQL does not answer."""
    try:
        yield
    except (OperationalError, InterfaceError) as exc:
        # A broken connection stays so until it is closed; the next read gets a new one.
        if not connection.in_atomic_block:
            connection.close()
        raise StorageUnavailable from exc
