"""Notes in an attempt's row what holds for its retry, whatever the user's code is in.

The user's function may be inside a transaction that it rolls back, or in an event loop: so
the note is made by a thread of its own, on a connection of its own. Contract 3.
"""

import threading
import time
from collections.abc import Callable

from django.db import connection, connections, transaction
from django.db.utils import InterfaceError, OperationalError

from django_ray.errors import GraphRefused, StorageUnavailable
from django_ray.identity import RunIdentity
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.models.executions import TaskAttempt
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.tasks import transitions

PATIENCE_S = 60.0
"""How long PostgreSQL is waited for."""

STEP_S = 0.5


def note_of(identity: RunIdentity) -> Callable[[RetryDisposition], None]:
    """Return what notes a disposition for exactly this run, while it owns its row.

    It has committed when it returns. It raises GraphRefused where the run is over, and
    StorageUnavailable when PostgreSQL did not answer for a minute; its note may then have
    been made all the same.
    """

    def note(disposition: RetryDisposition) -> None:
        noted = _apart(lambda: _insist(identity, disposition))
        if noted is None:
            raise StorageUnavailable
        if not noted:
            raise GraphRefused("the run has ended")

    return note


def _apart(act: Callable[[], bool | None]) -> bool | None:
    """Act in a thread of its own; a fault of it is None."""
    said: list[bool | None] = []

    def work() -> None:
        try:
            said.append(act())
        finally:
            connections.close_all()

    thread = threading.Thread(target=work, name="django-ray-note", daemon=True)
    thread.start()
    while thread.is_alive():
        # A cancellation of Ray's wakes no wait without an end.
        thread.join(STEP_S)
    return said[0] if said else None


def _insist(identity: RunIdentity, disposition: RetryDisposition) -> bool | None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            return _note(identity, disposition)
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(STEP_S)
    return None


def _note(identity: RunIdentity, disposition: RetryDisposition) -> bool:
    with transaction.atomic():
        if transitions.lock(identity, (ExecutionState.RUNNING,)) is None:
            return False
        TaskAttempt.objects.filter(run_id=identity.run_id).update(
            retry_disposition=disposition
        )
    return True
