"""The page of one run as its template is given it: rows of words, bars and marks."""

from dataclasses import dataclass

from django_ray.management.terminal import words
from django_ray.management.terminal.status import Freshness
from django_ray.management.terminal.words import NONE, clock, count
from django_ray.protocol.summary import NodeCounts, Summary
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.failures import Failures
from django_ray.readers.picture import Reading
from django_ray.readers.portrait import Portrait
from django_ray.readers.stages import Stages
from django_ray.web import (
    bars,
    facts,
    howfar,
    marks,
    names,
    notice,
    rows,
    statusline,
    steps,
)
from django_ray.web.bars import Bar
from django_ray.web.facts import Fact
from django_ray.web.marks import Mark
from django_ray.web.notice import Notice
from django_ray.web.rows import CauseRow, Row, StageRow
from django_ray.web.statusline import Said
from django_ray.web.steps import Step


@dataclass(frozen=True, slots=True)
class Count:
    """One of the seven counts."""

    mark: Mark
    number: str
    is_none: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Script:
    """What the script begins with: digits alone, whatever numbers read like."""

    now: str
    attempt: str
    attempts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Who the run is, how fresh, how complete, and how far."""

    name: str
    task: str
    public_id: str
    attempt: str
    attempts: str
    is_earlier: bool
    queue: str
    strategy: str
    policy: str
    started: str
    mark: Mark
    fresh: Said
    complete: Said
    percent: str
    whole: str
    said: str
    bar: Bar
    counts: tuple[Count, ...]
    facts: tuple[Fact, ...]
    is_stale: bool
    script: Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything the template shows."""

    head: Head
    error: str
    notice: Notice
    steps: tuple[Step, ...]
    stages: tuple[StageRow, ...]
    stages_said: str
    causes: tuple[CauseRow, ...]
    causes_said: str
    nodes: tuple[Row, ...]
    nodes_said: str
    cut: str
    cut_rest: str
    absent: str


def compose(portrait: Portrait) -> Page:
    """Return the page of a portrait."""
    reading = portrait.reading
    now = words.milliseconds(reading.read_at)
    labels = names.of(portrait.stages)
    found, summary = portrait.failures, reading.summary
    whole, rest = _cut(reading)
    return Page(
        head=_head(portrait, now),
        error=portrait.error,
        notice=notice.compose(portrait),
        steps=steps.compose(reading),
        stages=rows.of_stages(portrait.stages, labels),
        stages_said="" if portrait.stages is None else _stages_said(portrait.stages),
        causes=()
        if found is None
        else tuple(rows.of_cause(each, labels, now) for each in found.items),
        causes_said="" if found is None else causes_said(found),
        nodes=tuple(rows.of_node(row, labels, now) for row in portrait.nodes),
        nodes_said="" if summary is None else _nodes_said(portrait, summary),
        cut=whole,
        cut_rest=rest,
        absent=_absent(reading),
    )


def _head(portrait: Portrait, now: int) -> Head:
    reading = portrait.reading
    execution, summary = reading.execution, reading.summary
    stale = statusline.freshness(reading) is Freshness.Stale
    begun = execution.started_at
    return Head(
        name=execution.name,
        task=execution.task_path,
        public_id=str(execution.public_id),
        attempt=count(execution.attempt_number),
        attempts=count(portrait.attempts),
        is_earlier=execution.attempt_number < portrait.attempts,
        queue=execution.queue_name,
        strategy="" if summary is None else summary.strategy,
        policy=execution.policy or "",
        started="" if begun is None else clock(words.milliseconds(begun), now),
        mark=marks.of_execution(
            execution.state, is_reported=summary is not None, is_stale=stale
        ),
        fresh=statusline.fresh(reading),
        complete=statusline.complete(reading),
        percent=howfar.percent(summary),
        whole=howfar.whole(summary),
        said=howfar.said(summary),
        bar=bars.draw(
            None if summary is None else summary.node_counts,
            0 if summary is None else howfar.total(summary),
            bars.HEAD,
        ),
        counts=_counts(None if summary is None else summary.node_counts),
        facts=facts.compose(reading),
        is_stale=stale,
        script=Script(str(now), str(execution.attempt_number), str(portrait.attempts)),
    )


def _counts(counts: NodeCounts | None) -> tuple[Count, ...]:
    return tuple(
        Count(
            marks.of_node(state),
            NONE if counts is None else count(counts.of(state)),
            not (counts and counts.of(state)),
            marks.MEANINGS[state],
        )
        for state in bars.ORDER
    )


def _stages_said(stages: Stages) -> str:
    number = len(stages.items)
    said = "1 stage" if number == 1 else f"{count(number)} stages"
    return f"{said}, active first"


def causes_said(found: Failures) -> str:
    """Say how many failures are kept, and under how many causes they stand."""
    if not found.failed:
        return "Nothing failed."
    causes = (
        "1 cause" if found.causes_total == 1 else f"{count(found.causes_total)} causes"
    )
    if found.more:
        return f"{count(found.failed)} failed; the first {count(found.examined)} by cause, {causes}"
    kept = f"{count(found.examined)} of {count(found.failed)} kept with detail"
    if found.examined < found.failed:
        return f"{kept}; {count(found.failed - found.examined)} counted only"
    return f"{kept}, {causes}"


def _nodes_said(portrait: Portrait, summary: Summary) -> str:
    shown, kept = len(portrait.nodes), summary.retained_nodes
    if shown < kept:
        return f"{count(shown)} of {count(kept)} kept, newest change first"
    return f"all {count(kept)} kept, newest change first"


def _cut(reading: Reading) -> tuple[str, str]:
    """Name what is whole, then what is cut. Nothing where nothing is."""
    summary = reading.summary
    if summary is None or reading.availability is not DetailAvailability.TRUNCATED:
        return "", ""
    whole = f"The counts and stages cover all {words.nodes(summary.discovered_nodes)}."
    if summary.retained_nodes == summary.discovered_nodes:
        return whole, "Some of what its nodes said is left out, or was not reported."
    rest = (
        "Node graph, node list and failure details cover the first "
        f"{count(summary.retained_nodes)} registered, with "
        f"{count(summary.retained_edges)} of {count(summary.discovered_edges)} edges."
    )
    return whole, rest


def _absent(reading: Reading) -> str:
    """Say why there is neither graph nor list; nothing where there is."""
    summary = reading.summary
    if reading.availability is DetailAvailability.OMITTED_BY_POLICY and summary:
        return (
            "Only the summary is kept for this run, by its reporting policy "
            f"({summary.policy}). There is no graph, timeline or table."
        )
    if reading.availability is DetailAvailability.EXPIRED and summary:
        kept = (
            "1 day" if summary.retention_days == 1 else f"{summary.retention_days} days"
        )
        return f"The detail expired after the {kept} set for it. Counts and outcome remain."
    return _ABSENT.get(reading.availability, "")


_ABSENT = {
    DetailAvailability.DISABLED: (
        "Node reporting was off for this run. Its state and result are in the task."
    ),
    DetailAvailability.MISSING: (
        "The detail of this run is missing. The summary refers to rows that are not "
        "there. Tell an administrator; the counts remain true."
    ),
    DetailAvailability.CORRUPT: (
        "The detail of this run is damaged and not shown. Its check failed. "
        "The counts remain true."
    ),
}
