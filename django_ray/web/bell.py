"""One LISTEN of a server process, and whoever waits for a run to be published.

Every publication notifies the channel `django_ray` with the run's public id and revision.
A thread of its own listens through Django's connection for as long as somebody waits, and
rings each on his own event loop. A ring says that it is worth asking, and nothing else:
what is there is told by a reader. When the connection was away, everybody is rung.
"""

import asyncio
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import Error, InterfaceError, OperationalError, connection

CHANNEL = "django_ray"
WAIT_SECONDS = 1.0
"""How long the thread waits before it looks whether anybody still does."""

logger = logging.getLogger(__name__)


class Waiter:
    """Somebody who waits for one run, on the event loop he was made on."""

    def __init__(self, public_id: uuid.UUID, who: str) -> None:
        self.public_id = str(public_id)
        self.who = who
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._revision: int | None = None

    async def wait(self) -> int | None:
        """Return the latest revision rung since the last one; None: it is not known."""
        await self._rung.wait()
        self._rung.clear()
        return self._revision

    def ring(self, revision: int | None) -> None:
        """Wake the waiter, from any thread."""
        # A loop that was closed has nobody left who waits on it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake, revision)

    def _wake(self, revision: int | None) -> None:
        self._revision = revision
        self._rung.set()


class Bell:
    """The waiters of one process, and the thread that listens while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def waiting(self, waiter: Waiter) -> Iterator[None]:
        """Ring `waiter` while the block lasts."""
        with self._lock:
            self._waiters.add(waiter)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._listen, name="django-ray-bell", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    def waits(self, who: str) -> int:
        """Count how often somebody waits."""
        with self._lock:
            return sum(waiter.who == who for waiter in self._waiters)

    def join(self) -> None:
        """Wait until the thread has ended; it does so soon after the last waiter."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _listen(self) -> None:
        pause = threading.Event()
        while self._is_wanted():
            try:
                with connection.cursor() as cursor:
                    cursor.execute(f"LISTEN {CHANNEL}")
                self._ring(None, None)
                while self._is_wanted():
                    with connection.wrap_database_errors:
                        self._hear()
                # Who has come since then has started a thread of his own.
                return
            except (OperationalError, InterfaceError):
                pause.wait(WAIT_SECONDS)
            except Exception:
                # A server that has just failed over refuses LISTEN; without this thread
                # nobody of this process would ever be rung again.
                logger.exception(
                    "Listening for publications failed; it is tried again."
                )
                pause.wait(WAIT_SECONDS)
            finally:
                self._close()

    def _close(self) -> None:
        """Leave nothing of the bell to whom a pool gives the connection next."""
        if connection.connection is not None:
            with suppress(Error), connection.cursor() as cursor:
                cursor.execute("UNLISTEN *")
        connection.close()

    def _hear(self) -> None:
        for notice in connection.connection.notifies(timeout=WAIT_SECONDS):
            public_id, _, revision = notice.payload.partition(" ")
            self._ring(public_id, int(revision) if revision.isdecimal() else None)

    def _ring(self, public_id: str | None, revision: int | None) -> None:
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            if public_id is None or waiter.public_id == public_id:
                waiter.ring(revision)

    def _is_wanted(self) -> bool:
        with self._lock:
            if not self._waiters:
                # Under the lock: who comes now starts another thread.
                self._thread = None
            return bool(self._waiters)


BELL = Bell()
"""The bell of this process."""
