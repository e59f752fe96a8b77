"""Ends detached actors whose run is no longer current. Contract 4.7.

An actor is judged by its name alone, run id and generation, against the rows. Actors of
runs that no row ever had are another installation's, and are let be.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from actors.names import ActorName
from django_ray.identity import is_run_id
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.tasks.transitions import ACTIVE

logger = logging.getLogger(__name__)


class Directory(Protocol):
    """The detached actors of a cluster."""

    def detached(self) -> list[ActorName]:
        """Return every detached actor of ours."""

    def kill(self, name: ActorName) -> bool:
        """End an actor; False when it was gone."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one pass found: actors ended, left because current, and of unknown runs."""

    ended: int
    current: int
    unknown: int


def reconcile(directory: Directory) -> Reconciled:
    """End every detached actor of a run that does not own its row any more."""
    # Listed before the rows are read: a run that starts in between is not in the list,
    # and one that is in the list had its row before its actors.
    listed = [name for name in directory.detached() if is_run_id(name.run_id)]
    run_ids = {name.run_id for name in listed}
    known = _known(run_ids)
    current = _current(run_ids)
    ended = kept = unknown = 0
    for name in listed:
        if name.run_id not in known:
            unknown += 1
        elif (name.run_id, name.generation) in current:
            kept += 1
        else:
            ended += _end(directory, name)
    return Reconciled(ended, kept, unknown)


def _end(directory: Directory, name: ActorName) -> int:
    try:
        return int(directory.kill(name))
    except Exception:
        # One actor that cannot be ended must not keep the others.
        logger.warning("A %s could not be ended.", name.kind, exc_info=True)
        return 0


def _known(run_ids: Iterable[str]) -> set[str]:
    attempts = TaskAttempt.objects.filter(run_id__in=run_ids)
    return {str(run_id) for run_id in attempts.values_list("run_id", flat=True)}


def _current(run_ids: Iterable[str]) -> set[tuple[str, int]]:
    rows = RayTaskExecution.objects.filter(
        run_id__in=run_ids, state__in=ACTIVE
    ).values_list("run_id", "execution_generation")
    return {(str(run_id), generation) for run_id, generation in rows}
