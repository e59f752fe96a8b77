"""Stages, nodes and causes of failures as rows of words, bars and marks."""

from dataclasses import dataclass

from django_ray.management.terminal.shapes import stage_state
from django_ray.management.terminal.words import NONE, clock, count, duration
from django_ray.protocol.records import Detail, Omitted
from django_ray.protocol.vocabulary import NodeState
from django_ray.readers import details
from django_ray.readers.details import NodeRow
from django_ray.readers.failures import Cause, FailedNode
from django_ray.readers.stages import Stage, Stages
from django_ray.web import bars, marks
from django_ray.web.bars import Bar
from django_ray.web.marks import Mark
from django_ray.web.names import NOBODY, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage."""

    mark: Mark
    name: str
    tag: str
    label: str
    bar: Bar
    ended: str
    total: str
    running: str
    failed: str
    p50: str
    p95: str
    kept: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One node in a table; what was not reported is a word or a dash."""

    mark: Mark
    id: str
    stage: str
    stage_label: str
    try_: str
    started: str
    ended: str
    ran: str
    host: str
    last_word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One cause of failures with its newest nodes."""

    nodes: str
    kind: str
    text: str
    place: str
    examples: tuple[Row, ...]
    more: str


def of_stages(stages: Stages | None, labels: dict[int, Name]) -> tuple[StageRow, ...]:
    """Return the stages: failed first, then what is under way, waits, and is done."""
    if stages is None:
        return ()
    return tuple(
        StageRow(
            mark=marks.of_stage(each.node_counts),
            name=labels[each.index].name,
            tag=labels[each.index].tag,
            label=each.label,
            bar=bars.draw(each.node_counts, each.node_counts.total, bars.ROW),
            ended=count(each.node_counts.ended),
            total=count(each.node_counts.total),
            running=_or_none(each.node_counts.running),
            failed=_or_none(each.node_counts.failed),
            p50=duration(each.p50_ms),
            p95=duration(each.p95_ms),
            kept=count(each.kept),
        )
        for each in sorted(stages.items, key=_order)
    )


def _order(stage: Stage) -> tuple[int, int]:
    """Failed ones first, then what is under way, what waits, and what is done."""
    return _RANK.get(stage_state(stage.node_counts), 4), stage.index


_RANK = {
    NodeState.FAILED: 0,
    NodeState.RUNNING: 1,
    NodeState.SUBMITTED: 2,
    NodeState.PENDING: 3,
}


def _or_none(number: int) -> str:
    return count(number) if number else NONE


def of_cause(cause: Cause, labels: dict[int, Name], now: int) -> CauseRow:
    """Return a cause with its newest nodes."""
    left = cause.nodes - len(cause.examples)
    return CauseRow(
        nodes=count(cause.nodes),
        kind=cause.kind,
        text=cause.text if cause.nodes > 1 else cause.examples[0].text,
        place=_place(cause, labels, now),
        examples=tuple(_example(each, labels, now) for each in cause.examples),
        more=f"and {count(left)} more" if left else "",
    )


def _place(cause: Cause, labels: dict[int, Name], now: int) -> str:
    stages = [labels.get(index, NOBODY).name for index in cause.stages]
    parts = [f"in {_named(stages, cause.stages_total)}"] if any(stages) else []
    if cause.hosts:
        only = " only" if cause.hosts_total == 1 and cause.nodes > 1 else ""
        parts.append(_named(list(cause.hosts), cause.hosts_total) + only)
    if cause.first_ms is not None and cause.last_ms is not None:
        first, last = clock(cause.first_ms, now), clock(cause.last_ms, now)
        parts.append(first if first == last else f"{first} to {last}")
    return " · ".join(parts)


def _named(names: list[str], whole: int) -> str:
    more = f" and {count(whole - len(names))} more" if whole > len(names) else ""
    return ", ".join(names) + more


def _example(node: FailedNode, labels: dict[int, Name], now: int) -> Row:
    return Row(
        mark=marks.of_node(NodeState.FAILED),
        id=node.id,
        stage=labels.get(node.stage, NOBODY).name,
        stage_label=labels.get(node.stage, NOBODY).label,
        try_=count(node.try_),
        started=_time(node.started_ms, now),
        ended=_time(node.ended_ms, now),
        ran=_ran(node.started_ms, node.ended_ms),
        host=node.host or NONE,
        last_word=node.text,
    )


def of_node(row: NodeRow, labels: dict[int, Name], now: int) -> Row:
    """Return a kept node; what was not reported is a dash."""
    detail = row.detail
    started, ended = details.given(detail.started_ms), details.given(detail.ended_ms)
    return Row(
        mark=marks.of_node(row.state),
        id=row.id,
        stage=labels.get(row.stage, NOBODY).name,
        stage_label=labels.get(row.stage, NOBODY).label,
        try_=count(detail.try_),
        started=_time(started, now),
        ended=_time(ended, now),
        ran=_ran(started, now if row.state is NodeState.RUNNING else ended),
        host=details.given(detail.host) or NONE,
        last_word=_last_word(detail),
    )


def _last_word(detail: Detail) -> str:
    if detail.state is NodeState.FAILED:
        return ": ".join(part for part in details.fault(detail) if part)
    message = detail.message
    if isinstance(message, Omitted):
        return f"message not kept: {message.omitted}"
    current, whole = details.given(detail.current), details.given(detail.total)
    far = ""
    if current is not None:
        far = f"{current:,g}" if whole is None else f"{current:,g} of {whole:,g}"
    return ", ".join(part for part in (details.given(message), far) if part)


def _time(ms: int | None, now: int) -> str:
    return NONE if ms is None else clock(ms, now)


def _ran(started: int | None, ended: int | None) -> str:
    return (
        NONE if started is None or ended is None else duration(max(ended - started, 0))
    )
