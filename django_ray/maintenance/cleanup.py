"""One pass of cleanup: expired runs, stale candidates, unreferenced pages, empty shells.

Dry by default. Of each class at most a batch is examined, and every candidate is asked
again under its locks. What fails is recorded beside its run and tried after all that never
failed; it stops nothing. Two passes at once take turns at a run, and the second finds it
done. Contract 2 and 5, ADR-0004.
"""

import datetime as dt
import logging
import time
from dataclasses import dataclass, field
from typing import cast

from django.db import (
    DatabaseError,
    Error,
    connections,
    transaction,
)
from django.db.models import F

from django_ray.away import is_away
from django_ray.errors import StorageUnavailable
from django_ray.maintenance import candidates, removal
from django_ray.maintenance.candidates import Kind, Target
from django_ray.maintenance.removal import Removed, Rest
from django_ray.models.progress import CleanupFailure
from django_ray.protocol import text

DIAGNOSTICS = 20
"""So many failures are told one by one; all are counted."""

DIAGNOSTIC = 200


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One failure: no value and no text of it, only an error's class and its SQLSTATE."""

    kind: Kind
    run_id: str
    reason: str
    recorded: bool


@dataclass(slots=True, kw_only=True)
class Swept:
    """What a pass did about one class; in a dry run, what it would do.

    `examined` counts pages where the class is of pages, else runs. What was `spared` was
    due without a lock and not any more under it. `is_full`: there may be more.
    """

    kind: Kind
    examined: int = 0
    removed: Removed = field(default_factory=Removed)
    spared: int = 0
    failed: int = 0
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One pass, bounded whatever it met."""

    deleting: bool
    swept: tuple[Swept, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def failed(self) -> int:
        """Count the failures of all classes."""
        return sum(swept.failed for swept in self.swept)


def clean(
    *,
    using: str,
    now: dt.datetime,
    delete: bool,
    batch_size: int,
    rest: Rest = removal.go_on,
) -> Report:
    """Make one pass over the database `using`, as of `now`; remove only if told to.

    Opens a transaction for each step of each run, so it is not called inside one, and
    rests between two of them as it is told. Raises StorageUnavailable when PostgreSQL is
    gone; what was removed until then stays so.
    """
    one = _Pass(using, now, delete, batch_size, rest)
    try:
        swept = tuple(one.sweep(kind) for kind in Kind)
    except Error as exc:
        if not is_away(exc):
            raise
        raise StorageUnavailable from exc
    return Report(deleting=delete, swept=swept, diagnostics=tuple(one.diagnostics))


def unhurried(worked: float) -> None:
    """Rest three times as long as was worked: a pass takes a quarter of one process.

    What it removes nobody waits for; the live runs beside it wait for every commit.
    """
    time.sleep(3 * worked)


def database_now(using: str) -> dt.datetime:
    """Return the database's clock; raise StorageUnavailable when it does not answer."""
    try:
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT now()")
            (now,) = cursor.fetchone()
    except Error as exc:
        if not is_away(exc):
            raise
        raise StorageUnavailable from exc
    return cast(dt.datetime, now)


class _Pass:
    """The settings of one pass, and the failures it tells one by one."""

    def __init__(
        self, using: str, now: dt.datetime, delete: bool, batch_size: int, rest: Rest
    ) -> None:
        self._rest = rest
        self._using = using
        self._now = now
        self._delete = delete
        self._batch_size = batch_size
        self.diagnostics: list[Diagnostic] = []

    def sweep(self, kind: Kind) -> Swept:
        """Examine a batch of one class, and remove what is due of it."""
        swept = Swept(kind=kind)
        # Found before anything is removed, so that what fails is not found again.
        targets = list(candidates.find(kind, self._using, self._now, self._batch_size))
        for target in targets:
            room = self._batch_size - swept.examined
            if room <= 0:
                break
            swept.examined += self._examine(swept, target, room)
        swept.is_full = swept.examined >= self._batch_size
        return swept

    def _examine(self, swept: Swept, target: Target, room: int) -> int:
        """Deal with one target; return how much of the batch it took."""
        found = Removed()
        if self._delete:
            self._remove(swept, target, room, found)
        else:
            found = removal.preview(swept.kind, self._using, target, self._now, room)
        swept.removed.add(found)
        return max(found.items, 1)

    def _remove(self, swept: Swept, target: Target, room: int, found: Removed) -> None:
        try:
            removal.remove(
                swept.kind,
                self._using,
                target,
                self._now,
                room,
                to=found,
                rest=self._rest,
            )
        except Exception as exc:
            swept.failed += 1
            self._failed(swept.kind, target, exc)
        else:
            swept.spared += not found.items

    def _failed(self, kind: Kind, target: Target, exc: Exception) -> None:
        """Tell of a failure, and record it so that its run comes last next time."""
        reason = reason_of(exc)
        logger.warning("Cleanup of %s failed at a run: %s", kind, reason)
        connection = connections[self._using]
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        recorded = self._record(kind, target, reason)
        if len(self.diagnostics) < DIAGNOSTICS:
            self.diagnostics.append(
                Diagnostic(
                    kind=kind, run_id=target.run_id, reason=reason, recorded=recorded
                )
            )

    def _record(self, kind: Kind, target: Target, reason: str) -> bool:
        failures = CleanupFailure.objects.using(self._using)
        try:
            with transaction.atomic(using=self._using, durable=True):
                removal.bound(self._using)
                failures.update_or_create(
                    run_id=target.run_pk,
                    defaults={
                        "kind": kind,
                        "failures": F("failures") + 1,
                        "failed_at": self._now,
                        "diagnostic": reason,
                    },
                    create_defaults={
                        "kind": kind,
                        "failures": 1,
                        "failed_at": self._now,
                        "diagnostic": reason,
                    },
                )
        except DatabaseError as exc:
            if connections[self._using].connection is None:
                # Not the run's fault: without a database every other one fails too.
                raise StorageUnavailable from exc
            logger.warning("A failure of cleanup could not be recorded.")
            return False
        return True


def reason_of(exc: Exception) -> str:
    """Return an error's class, and the SQLSTATE of what PostgreSQL said."""
    state = getattr(exc.__cause__, "sqlstate", None)
    name = type(exc).__name__
    return text.label(f"{name} {state}" if state else name, DIAGNOSTIC)
