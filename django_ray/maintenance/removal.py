"""Removes what is due of one run, in short transactions under the one lock order.

Each step locks the execution, the run and its manifests, asks again whether the run is
due, and removes a bounded part: a cascade over 25,000 rows would be one long statement, and
the execution's row may be shared with a live run. The manifest goes first, so that from then
on every reader says EXPIRED, however much is still there. No summary and no outcome is
touched.

The locks leave keys free, as the fence's do: a stale writer that stages meanwhile looks its
run up when it commits, holding its candidate's row. It must get its answer: that the run is
still there, or, once it was removed, that it is not, and then nothing of it is left.
"""

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import LiteralString, assert_never

from django.db import connections, transaction

from django_ray.maintenance import candidates
from django_ray.maintenance.candidates import Kind, Target

DETAIL_ROWS = 1_000
PAGES = 128
"""How much one statement removes: milliseconds of work, at most a whole topology of pages."""

type Rest = Callable[[float], object]
"""Called between two steps with the seconds the last one took."""

BOUNDS: LiteralString = """
SELECT set_config('lock_timeout', '5s', true),
    set_config('statement_timeout', '30s', true),
    set_config('enable_seqscan', 'off', true)
"""

LOCK_EXECUTION: LiteralString = """
SELECT 1 FROM django_ray_execution WHERE id = %(execution)s FOR NO KEY UPDATE
"""

LOCK_RUN: LiteralString = """
SELECT 1 FROM django_ray_run
WHERE id = %(run)s AND execution_id = %(execution)s
FOR NO KEY UPDATE
"""

LOCK_MANIFESTS: LiteralString = """
SELECT id FROM django_ray_manifest WHERE run_id = %(run)s ORDER BY id FOR UPDATE
"""

DELETE_DETAILS: LiteralString = """
DELETE FROM django_ray_node_detail
WHERE run_id = %(run)s
  AND ordinal < coalesce(
    (SELECT d.ordinal FROM django_ray_node_detail AS d WHERE d.run_id = %(run)s
     ORDER BY d.ordinal OFFSET %(most)s LIMIT 1),
    2147483648
  )
"""

DELETE_PAGES: LiteralString = """
DELETE FROM django_ray_page WHERE id IN (
    SELECT p.id FROM django_ray_page AS p WHERE p.run_id = %(run)s LIMIT %(most)s
)
"""

DELETE_MANIFESTS: LiteralString = """
DELETE FROM django_ray_manifest WHERE run_id = %(run)s
"""

DELETE_RUN: LiteralString = "DELETE FROM django_ray_run WHERE id = %(run)s"

DELETE_CANDIDATE: LiteralString = """
DELETE FROM django_ray_manifest
WHERE run_id = %(run)s AND NOT published AND created_at <= %(before)s
"""

DELETE_UNREFERENCED: LiteralString = """
DELETE FROM django_ray_page WHERE id IN (
    SELECT p.id FROM django_ray_page AS p
    WHERE p.run_id = %(run)s
      AND p.created_at <= %(before)s
      AND p.digest NOT IN (
        SELECT substring(m.page_digests FROM 32 * n + 1 FOR 32)
        FROM django_ray_manifest AS m, generate_series(0, m.page_count - 1) AS n
        WHERE m.run_id = %(run)s
      )
    LIMIT %(most)s
)
"""

COUNT_PAGES: LiteralString = """
SELECT count(*) FROM django_ray_page WHERE run_id = %(run)s
"""

COUNT_UNREFERENCED: LiteralString = """
SELECT count(*) FROM django_ray_page AS p
WHERE p.run_id = %(run)s
  AND p.created_at <= %(before)s
  AND p.digest NOT IN (
    SELECT substring(m.page_digests FROM 32 * n + 1 FOR 32)
    FROM django_ray_manifest AS m, generate_series(0, m.page_count - 1) AS n
    WHERE m.run_id = %(run)s AND (m.published OR %(most)s > 0)
  )
"""

FORGET_FAILURE: LiteralString = """
DELETE FROM django_ray_cleanup_failure WHERE run_id = %(run)s AND kind = %(kind)s
"""


@dataclass(slots=True)
class Removed:
    """What was removed of one run so far: of the class itself, and below it."""

    items: int = 0
    rows: int = 0
    pages: int = 0

    def add(self, other: "Removed") -> None:
        """Count what one more committed step removed."""
        self.items += other.items
        self.rows += other.rows
        self.pages += other.pages


def go_on(_worked: float) -> None:
    """Take no rest."""


def remove(
    kind: Kind,
    using: str,
    target: Target,
    now: dt.datetime,
    most: int,
    *,
    to: Removed,
    rest: Rest = go_on,
) -> None:
    """Remove what is due of one run, adding to `to` as each step commits.

    Of unreferenced pages at most `most`. It rests after each step, holding nothing. Nothing
    is added when the run is not due any more. Raises what the database raises: the step
    that failed is rolled back, and what earlier ones removed stays so.
    """
    step = _Step(kind, using, target, now)
    ended = False
    while not ended:
        began = time.perf_counter()
        with transaction.atomic(using=using, durable=True):
            step.hold()
            if not candidates.is_due(kind, using, now, target.run_pk):
                return
            part, ended = _part(kind, step, most - to.items)
        to.add(part)
        rest(time.perf_counter() - began)


def preview(
    kind: Kind, using: str, target: Target, now: dt.datetime, most: int
) -> Removed:
    """Count what `remove` would remove, without a lock; an estimate while writers write."""
    step = _Step(kind, using, target, now)
    match kind:
        case Kind.expired_runs:
            return Removed(items=1, rows=target.rows, pages=step.count(COUNT_PAGES))
        case Kind.stale_candidates:
            return Removed(items=1, pages=step.count(COUNT_UNREFERENCED))
        case Kind.unreferenced_pages:
            return Removed(items=min(most, step.count(COUNT_UNREFERENCED, most)))
        case Kind.empty_shells:
            return Removed(items=1)
        case _:
            assert_never(kind)


def bound(using: str) -> None:
    """Bound how long the statements of the open transaction wait and work.

    And let them go by key, whatever the statistics of a table that was emptied say.
    """
    with connections[using].cursor() as cursor:
        cursor.execute(BOUNDS)


@dataclass(frozen=True, slots=True)
class _Step:
    """Statements about one run that is due for one class, as of one moment."""

    kind: Kind
    using: str
    target: Target
    now: dt.datetime

    def hold(self) -> None:
        """Lock what the run's writers lock, in their order; what is gone is gone."""
        bound(self.using)
        for statement in (LOCK_EXECUTION, LOCK_RUN, LOCK_MANIFESTS):
            self.execute(statement)

    def execute(self, statement: LiteralString, most: int = 0) -> int:
        """Run one statement; return how many rows it removed."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(statement, self._parameters(most))
            return int(cursor.rowcount)

    def count(self, statement: LiteralString, most: int = 0) -> int:
        """Return the one number a statement answers."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(statement, self._parameters(most))
            (number,) = cursor.fetchone()
        return int(number)

    def _parameters(self, most: int) -> dict[str, int | str | dt.datetime]:
        return {
            "execution": self.target.execution_pk,
            "run": self.target.run_pk,
            "kind": self.kind,
            "before": candidates.stale_before(self.now),
            "most": most,
        }


def _part(kind: Kind, step: _Step, most: int) -> tuple[Removed, bool]:
    """Remove one part; say whether nothing of the target is left to do."""
    match kind:
        case Kind.expired_runs:
            return _run_part(step)
        case Kind.stale_candidates:
            return _candidate(step), True
        case Kind.unreferenced_pages:
            wanted = min(PAGES, most)
            pages = step.execute(DELETE_UNREFERENCED, wanted)
            step.execute(FORGET_FAILURE)
            return Removed(items=pages), pages < wanted or pages == most
        case Kind.empty_shells:
            return Removed(items=step.execute(DELETE_RUN)), True
        case _:
            assert_never(kind)


def _run_part(step: _Step) -> tuple[Removed, bool]:
    step.execute(DELETE_MANIFESTS)
    rows = step.execute(DELETE_DETAILS, DETAIL_ROWS)
    if rows == DETAIL_ROWS:
        return Removed(rows=rows), False
    pages = step.execute(DELETE_PAGES, PAGES)
    if pages == PAGES:
        return Removed(rows=rows, pages=pages), False
    # What is left cascades: the stage row.
    return Removed(items=step.execute(DELETE_RUN), rows=rows, pages=pages), True


def _candidate(step: _Step) -> Removed:
    items, pages = step.execute(DELETE_CANDIDATE), 0
    # A candidate is 16 MiB at the most, so its pages may go in one transaction.
    while part := step.execute(DELETE_UNREFERENCED, PAGES):
        pages += part
    step.execute(FORGET_FAILURE)
    return Removed(items=items, pages=pages)
