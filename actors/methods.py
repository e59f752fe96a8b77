"""`report()` inside a method of an actor: which run that is of, and which node.

A class cannot be wrapped, so nobody tells a method its place. Its node is known by its Ray
task, which the coordinator tells the collector. Its run is that of the host from which the
actor stems: the coordinator has left word with the cluster, under the host's id. An actor
made elsewhere, or detached, stems from no host: there `report()` does nothing.
"""

import functools
import logging
import time

import ray

from actors import internals, reports
from actors.reports import FIRST_TRY
from actors.voice import Voice

VOICES = 256
"""Methods at once in one process whose refused reports are told once each."""

ASK_AGAIN_S = 1.0
"""A run that is not known may be later: it is told when it first calls a method."""

logger = logging.getLogger(__name__)


class _Process:
    """The run this actor's process belongs to, looked up once."""

    def __init__(self) -> None:
        self._run: bytes | None = None
        self._asked_s: float | None = None

    def run(self) -> bytes | None:
        """Return what is told of the run, None where there is none."""
        now = time.monotonic()
        due = self._asked_s is None or now - self._asked_s > ASK_AGAIN_S
        if self._run is None and due:
            self._asked_s = now
            host = internals.root_actor()
            self._run = None if host is None else internals.recall(host)
        return self._run


_process = _Process()


def current() -> Voice | None:
    """Return the method of this thread, as it reports; None outside of one.

    A helper thread of a method has none: it has no name, and a task of its own.
    """
    context = ray.get_runtime_context()
    if context.get_actor_id() is None or not context.get_task_name():
        return None
    try:
        run = _process.run()
    except Exception:
        # Ray's own store is away; a report is never worth an error.
        logger.debug("An actor could not ask for its run.", exc_info=True)
        return None
    task = context.get_task_id()
    if run is None or task is None:
        return None
    return _voice(run, task, internals.attempt())


@functools.lru_cache(maxsize=VOICES)
def _voice(run: bytes, task: str, attempt: int) -> Voice:
    return Voice(reports.of(run), bytes.fromhex(task), FIRST_TRY, attempt)
