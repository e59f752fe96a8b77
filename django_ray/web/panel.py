"""One execution as a bar with its words: in a project's own page, and in the admin.

It shows what the summary holds and nothing else, so its size and cost are those of the
summary: no page, node or legacy snapshot is read for it. Contract 2.
"""

import uuid
from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse

from django_ray.management.terminal import words
from django_ray.management.terminal.status import Freshness
from django_ray.readers.picture import Reading
from django_ray.web import bars, howfar, marks, statusline
from django_ray.web.bars import Bar, Size
from django_ray.web.marks import Mark
from django_ray.web.statusline import Said

APP = "django_ray"
TEMPLATE = "django_ray/progress.html"
SIZE = Size(600, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What the template shows: texts as they were stored, to be escaped there.

    `attempt` is the one shown, and the only one to be shown where it is `is_pinned`. `source` is the address of the summary as JSON and `page`
    that of the run's page; either is empty where there is none, and an empty `source` is
    never polled.
    """

    name: str
    task: str
    attempt: int
    mark: Mark
    percent: str
    whole: str
    said: str
    bar: Bar
    fresh: Said
    complete: Said
    is_stale: bool
    now_ms: int
    is_pinned: bool
    source: str
    page: str


def compose(reading: Reading, *, source: str, page: str, pinned: bool = False) -> Panel:
    """Return the panel of a reading that its viewer may see."""
    execution, summary = reading.execution, reading.summary
    stale = statusline.freshness(reading) is Freshness.Stale
    return Panel(
        name=execution.name,
        task=execution.task_path,
        attempt=execution.attempt_number,
        mark=marks.of_execution(
            execution.state, is_reported=summary is not None, is_stale=stale
        ),
        percent=howfar.percent(summary),
        whole=howfar.whole(summary),
        said=howfar.said(summary),
        bar=bars.draw(
            None if summary is None else summary.node_counts,
            0 if summary is None else howfar.total(summary),
            SIZE,
        ),
        fresh=statusline.fresh(reading),
        complete=statusline.complete(reading),
        is_stale=stale,
        now_ms=words.milliseconds(reading.read_at),
        is_pinned=pinned,
        source="" if execution.has_ended else source,
        page=page,
    )


def address(name: str, public_id: uuid.UUID) -> str:
    """Return where the app's view of a run is; empty where the project mounts none."""
    try:
        return reverse(f"{APP}:{name}", args=[public_id])
    except NoReverseMatch:
        return ""
