"""How a run is ended from outside: asked to, then by force, then whatever its host says.

A worker decides it from the row, so whoever adopts the run decides it again. Architecture 2.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Q
from django.db.models.functions import Now

from django_ray.models.executions import RayTaskExecution
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
    timed_out = "timed_out"


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


def decide(watched: Collection[int]) -> dict[int, Why]:
    """Return which of these executions are to be ended, and why. One statement.

    A time-out is measured from the attempt's start to now on the clock of the database; a
    cancellation comes before it.
    """
    rows = (
        RayTaskExecution.objects.filter(pk__in=watched)
        .filter(Q(cancel_requested_at__isnull=False) | Q(started_at__isnull=False))
        .annotate(read_at=Now())
        .values_list(
            *("pk", "cancel_requested_at", "started_at"),
            *("options__timeout_seconds", "read_at"),
        )
    )
    decided: dict[int, Why] = {}
    for pk, cancel_requested_at, started_at, timeout, read_at in rows:
        if cancel_requested_at is not None:
            decided[pk] = Why.cancelled
        elif _is_over(started_at, timeout, read_at):
            decided[pk] = Why.timed_out
    return decided


def _is_over(started_at: datetime, timeout: object, read_at: datetime) -> bool:
    # A row whose options do not parse has none: its run fails for itself.
    if type(timeout) is not int:
        return False
    return read_at - started_at >= timedelta(seconds=timeout)
