"""How a run is ended from outside: asked to, then by force, then whatever its host says.

A worker decides it from the row, so whoever adopts the run decides it again. Architecture 2.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django_ray.tasks.transitions import Held
from django_ray.tasks.watch import Host

FORCE_AFTER = timedelta(seconds=10)
"""From the request to the end of the outer task's process."""

GIVE_UP_AFTER = timedelta(seconds=20)
"""From the request to the row's end without a word of the host: it is ended then."""

logger = logging.getLogger(__name__)


class Why(StrEnum):
    """The reason a summary names for an end from outside."""

    cancelled = "cancelled"


@dataclass(slots=True)
class Interruption:
    """A run that is being ended since a time, and how far that has gone."""

    why: Why
    since: datetime
    is_forced: bool = False


@dataclass(slots=True)
class Watched:
    """One run a worker watches."""

    held: Held
    host: Host
    interruption: Interruption | None = None

    def interrupt(self, why: Why, now: datetime) -> None:
        """Ask the outer task to end, once; the first reason stays."""
        if self.interruption is None:
            self.interruption = Interruption(why, now)
            self._cancel(force=False)

    def press(self, now: datetime) -> bool:
        """Use force when it is time; return True when nothing more can be waited for."""
        ending = self.interruption
        if ending is None:
            return False
        if not ending.is_forced and now - ending.since >= FORCE_AFTER:
            ending.is_forced = True
            self._cancel(force=True)
        return now - ending.since >= GIVE_UP_AFTER

    def _cancel(self, *, force: bool) -> None:
        try:
            self.host.cancel(force=force)
        except Exception:
            # What cannot be reached now is asked again by force, and given up at last.
            logger.warning("A run could not be interrupted.", exc_info=True)
