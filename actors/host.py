"""The host: submits a run's outer task and keeps its outcome until the row has it.

It outlives the worker that made it, and holds neither Django nor user code: the outer task
raises nothing of the user's, so what it answers is bytes. Architecture 2, contract 4.12.
"""

import logging
from collections.abc import Callable

import ray
from ray.exceptions import RayError, RayTaskError

logger = logging.getLogger(__name__)

RUNNING = "running"
ENDED = "ended"
LOST = "lost"


class Host:
    """One run's host; every call returns at once."""

    def __init__(self, submit: "Callable[[], ray.ObjectRef[bytes]]") -> None:
        self._task = submit()

    def outcome(self) -> tuple[str, bytes]:
        """Return RUNNING, ENDED with the outcome's envelope, or LOST with a class name.

        Lost is an outer task whose process is gone, or whose environment never came up.
        """
        ready, _ = ray.wait([self._task], num_returns=1, timeout=0)
        if not ready:
            return RUNNING, b""
        try:
            return ENDED, ray.get(self._task)
        except RayError as exc:
            logger.warning("An outer task was lost: %s", exc)
            # A cancellation may come as the task's own error, around Ray's.
            told = exc.cause if isinstance(exc, RayTaskError) else exc
            return LOST, type(told).__name__.encode()

    def cancel(self, *, force: bool) -> None:
        """Interrupt the outer task; what it submitted is its own to cancel.

        A recursive cancel of a process that submits can abort it.
        """
        ray.cancel(self._task, recursive=False, force=force)
