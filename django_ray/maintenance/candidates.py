"""What cleanup may remove: every class of it, found without a lock, in bounded statements.

A class is a predicate over the runs that own their execution no longer. The same predicate
chooses the candidates and is asked again under the locks, so a current run is never among
them, whatever its expiry says. Contract 2, 4.8 and 5.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import LiteralString

from django.db import connections
from django.db.models import (
    DateTimeField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.functions import Coalesce

from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    TopologyPage,
    WorkflowRun,
)
from django_ray.protocol.limits import V1
from django_ray.tasks.transitions import CURRENT

WINDOW = 200
"""So many runs one statement looks at: no index leads to what is looked for, because an
index of what changes would cost every publication."""

ORPHANED: LiteralString = """
SELECT DISTINCT orphan.run_id FROM (
    SELECT p.run_id, p.digest FROM django_ray_page AS p
    WHERE p.run_id = ANY (%(runs)s) AND p.created_at <= %(before)s
    EXCEPT
    SELECT m.run_id, substring(m.page_digests FROM 32 * n + 1 FOR 32)
    FROM django_ray_manifest AS m, generate_series(0, m.page_count - 1) AS n
    WHERE m.run_id = ANY (%(runs)s)
) AS orphan
"""


class Kind(StrEnum):
    """The four classes, in the order a pass takes them."""

    expired_runs = "expired runs"
    stale_candidates = "stale candidates"
    unreferenced_pages = "unreferenced pages"
    empty_shells = "empty shells"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A run that is due for one class, as it was without a lock."""

    execution_pk: int
    run_pk: int
    run_id: str
    rows: int


type Runs = QuerySet[WorkflowRun]
type Finder = Callable[[str, dt.datetime, Runs], Iterator[Runs]]
"""Yields those of `runs` that are due, in parts of one bounded statement each."""


def find(kind: Kind, using: str, now: dt.datetime, limit: int) -> Iterator[Target]:
    """Yield at most `limit` targets: first what never failed, the oldest runs first.

    Then what did, the longest not tried first: so nothing that fails for ever keeps the
    rest from its turn.
    """
    runs = inactive(using)
    fresh = _targets(kind, using, now, runs.filter(cleanup_failure=None), limit)
    left = limit
    for target in islice(fresh, limit):
        left -= 1
        yield target
    if not left:
        return
    again = runs.filter(cleanup_failure__isnull=False)
    tried = dict(again.values_list("pk", "cleanup_failure__failed_at"))
    failed = sorted(
        _targets(kind, using, now, again, None),
        key=lambda target: (tried.get(target.run_pk, now), target.run_pk),
    )
    yield from failed[:left]


def is_due(kind: Kind, using: str, now: dt.datetime, run_pk: int) -> bool:
    """Claim that the run is due: asked again under the locks that keep it so."""
    runs = inactive(using).filter(pk=run_pk)
    return any(part.exists() for part in FINDERS[kind](using, now, runs))


def inactive(using: str) -> Runs:
    """Return the runs that can publish no more: their execution ended, or is another's.

    A run that lost its execution never gets it back, so this can only become true.
    """
    current = RayTaskExecution.objects.filter(
        pk=OuterRef("execution_id"), run_id=OuterRef("run_id"), state__in=CURRENT
    )
    return WorkflowRun.objects.using(using).filter(~Exists(current))


def stale_before(now: dt.datetime) -> dt.datetime:
    """Return when a topology that nobody published must have been written to be stale."""
    return now - dt.timedelta(seconds=V1.orphan_seconds)


def _targets(
    kind: Kind, using: str, now: dt.datetime, runs: Runs, limit: int | None
) -> Iterator[Target]:
    fields = ("execution_id", "pk", "run_id", "detail_rows")
    for part in FINDERS[kind](using, now, runs):
        for execution_pk, run_pk, run_id, rows in part.values_list(*fields)[:limit]:
            yield Target(
                execution_pk=execution_pk, run_pk=run_pk, run_id=str(run_id), rows=rows
            )


def _expired(_using: str, now: dt.datetime, runs: Runs) -> Iterator[Runs]:
    # A run whose end never gave it an expiry must not stay for ever: what it was to be
    # kept counts from its attempt's end.
    ended = TaskAttempt.objects.filter(run_id=OuterRef("run_id")).values("finished_at")
    due = ExpressionWrapper(
        Coalesce(Subquery(ended[:1]), F("created_at"))
        + F("retention_days") * Value(dt.timedelta(days=1)),
        output_field=DateTimeField(),
    )
    for window in _windows(runs):
        yield (
            runs.filter(pk__in=window)
            .annotate(due=Coalesce(F("expires_at"), due))
            .filter(due__lte=now)
            .order_by("due", "pk")
        )


def _stale(_using: str, now: dt.datetime, runs: Runs) -> Iterator[Runs]:
    pending = TopologyManifest.objects.filter(
        run=OuterRef("pk"), published=False, created_at__lte=stale_before(now)
    )
    yield runs.filter(Exists(pending)).order_by("pk")


def _orphaned(using: str, now: dt.datetime, runs: Runs) -> Iterator[Runs]:
    for window in _windows(runs):
        with connections[using].cursor() as cursor:
            cursor.execute(ORPHANED, {"runs": window, "before": stale_before(now)})
            found = [run_pk for (run_pk,) in cursor.fetchall()]
        if found:
            yield runs.filter(pk__in=found).order_by("pk")


def _shells(_using: str, _now: dt.datetime, runs: Runs) -> Iterator[Runs]:
    for window in _windows(runs):
        yield runs.filter(
            Q(detail_rows=0, detail_bytes=0, events=None, session=None),
            *(
                ~Exists(model.objects.filter(run=OuterRef("pk")))
                for model in (NodeDetail, TopologyManifest, TopologyPage, RunStages)
            ),
            pk__in=window,
        ).order_by("pk")


def _windows(runs: Runs) -> Iterator[list[int]]:
    after = 0
    while window := list(
        runs.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:WINDOW]
    ):
        yield window
        after = window[-1]


FINDERS: dict[Kind, Finder] = {
    Kind.expired_runs: _expired,
    Kind.stale_candidates: _stale,
    Kind.unreferenced_pages: _orphaned,
    Kind.empty_shells: _shells,
}
