"""What the compiled sessions of an attempt leave for its retry, known even if it is lost.

Before a session's first input is sent, the attempt's row is told what would hold if nothing
were heard of it any more; when no session is open, what became of them. Contract 3.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from django_ray.lifecycle import disposition
from django_ray.lifecycle.vocabulary import RetryDisposition

logger = logging.getLogger(__name__)

Note = Callable[[RetryDisposition], None]
"""Writes a disposition into the attempt's row; raises where it is not committed."""

UNHEARD = RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED
"""What holds of an attempt that may have sent an input and tells nothing of it."""


class Served(Protocol):
    """A session that was sent an input."""

    @property
    def retry(self) -> RetryDisposition: ...


class Dispositions:
    """The retry disposition of one attempt; every method may be called by any thread."""

    def __init__(self, note: Note | None) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._open: dict[int, Served] = {}
        self._past: RetryDisposition | None = None

    @property
    def current(self) -> RetryDisposition | None:
        """Return what holds if the attempt fails now, None where no input was sent."""
        with self._lock:
            told = [session.retry for session in self._open.values()]
            if self._past is not None:
                told.append(self._past)
            return disposition.strictest(told) if told else None

    def begin(self, session: Served) -> None:
        """Note, before a session's first input is sent, that one may have been.

        Raises what the note raises: the input is then not to be sent.
        """
        with self._lock:
            if id(session) in self._open:
                return
            if self._note is not None and not self._open:
                self._note(UNHEARD)
            self._open[id(session)] = session

    def end(self, session: Served) -> None:
        """Note what became of a session that is closed; one without an input is nothing.

        Where that cannot be written the row keeps what is stricter.
        """
        with self._lock:
            if self._open.pop(id(session), None) is None:
                return
            past = [] if self._past is None else [self._past]
            self._past = disposition.strictest([*past, session.retry])
            if self._note is not None and not self._open:
                self._try(self._note, self._past)

    def _try(self, note: Note, past: RetryDisposition) -> None:
        try:
            note(past)
        except Exception:
            # The attempt's outcome tells it again, unless the attempt is lost before.
            logger.warning("A retry disposition could not be noted.", exc_info=True)
