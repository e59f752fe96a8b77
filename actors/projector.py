"""Runs the projectors of a leaf's process, so that whatever they do the leaf goes on.

A projector is the user's code. It runs in a thread of its own, and its leaf waits for it
`PATIENCE_S` at most; one that was too slow once is not run again in this process, so that
it costs each process one wait and at most one busy thread. Contract 2.
"""

import functools
import importlib
import logging
import threading
from collections.abc import Callable

from django_ray.protocol import preview
from django_ray.protocol.redaction import Redactor

PATIENCE_S = 1.0
"""How long a leaf waits for its preview: generous, as a process waits so long but once."""

logger = logging.getLogger(__name__)


class Projector:
    """One projector in this process; leaves of several threads may share it."""

    def __init__(self, path: str, patience_s: float) -> None:
        self._path = path
        self._patience_s = patience_s
        self._function: Callable[[object], object] | None = None
        self._given_up: str | None = None
        self._told: set[str] = set()

    def preview(self, output: object, redactor: Redactor) -> bytes:
        """Return the preview of an output, or the marker that says why there is none."""
        if self._given_up is None and self._function is None:
            self._import()
        if self._given_up is not None:
            return preview.omitted(self._given_up)
        made: list[bytes] = []
        done = threading.Event()

        def work() -> None:
            try:
                made.append(self._made(output, redactor))
            finally:
                done.set()

        try:
            threading.Thread(
                target=work, name="django-ray-preview", daemon=True
            ).start()
        except RuntimeError:
            return self._omitted("preview_no_thread", None)
        if not done.wait(self._patience_s):
            self._given_up = "preview_slow"
            return self._omitted(self._given_up, None)
        return made[0] if made else self._omitted("preview_malformed", None)

    def _import(self) -> None:
        """Find the function, in the leaf's thread: an import is not to be abandoned."""
        module, _, name = self._path.rpartition(".")
        try:
            self._function = getattr(importlib.import_module(module), name)
        except (Exception, SystemExit) as exc:
            self._given_up = "preview_unavailable"
            self._tell(self._given_up, exc)

    def _made(self, output: object, redactor: Redactor) -> bytes:
        function = self._function
        try:
            projected = None if function is None else function(output)
        except BaseException as exc:
            # The projector is the user's, and in this thread nothing means anyone else.
            return self._omitted("preview_raised", exc)
        try:
            return preview.encode(projected, redactor)
        except BaseException as exc:
            # So are the classes of what it made.
            return self._omitted(preview.reason_of(exc), exc)

    def _omitted(self, reason: str, exc: BaseException | None) -> bytes:
        self._tell(reason, exc)
        return preview.omitted(reason)

    def _tell(self, reason: str, exc: BaseException | None) -> None:
        """Log each reason once, by the error's class alone: its text may hold secrets."""
        if reason not in self._told:
            self._told.add(reason)
            kind = "" if exc is None else f" ({type(exc).__name__})"
            logger.warning("%s makes no preview: %s%s", self._path, reason, kind)


@functools.cache
def of(path: str) -> Projector:
    """Return this process's projector of a path."""
    return Projector(path, PATIENCE_S)
