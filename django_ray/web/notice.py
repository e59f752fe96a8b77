"""The attention slot: what is wrong, or that nothing is, in a fixed place.

First why a run waits, ended or fell silent, then its failures, then what runs unusually
long. A line is made of parts, so that nothing a user wrote is ever more than text.
"""

from dataclasses import dataclass

from django_ray.management.terminal import status, words
from django_ray.management.terminal.status import Freshness
from django_ray.management.terminal.words import age, clock, count, duration
from django_ray.protocol.summary import NodeCounts, Summary
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ReportingPolicy,
)
from django_ray.readers.failures import Cause, Failures
from django_ray.readers.picture import Execution, Reading, Running
from django_ray.readers.portrait import Portrait
from django_ray.readers.stages import Stage
from django_ray.web import statusline

UNREPORTED_MS = 30_000
SLOW_FACTOR = 3
SLOW_ENDED = 10


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a line: `strong`, `text`, `code`, or `node` for a node's id."""

    kind: str
    text: str


Line = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """The lines, and the ground they stand on: `bad`, `warn` or `plain`."""

    tone: str
    symbol: str
    lines: tuple[Line, ...]


def compose(portrait: Portrait) -> Notice:
    """Return the slot's lines: at least one, each with one example at most."""
    reading = portrait.reading
    freshness = statusline.freshness(reading)
    lines = [*_asked(reading), *_ended(portrait)]
    summary = reading.summary
    if summary is None:
        lines += _unreported(reading)
    else:
        lines += _reported(portrait, summary, freshness)
    tone, symbol = _ground(reading, freshness)
    return Notice(tone, symbol, tuple(lines))


def _reported(portrait: Portrait, summary: Summary, freshness: Freshness) -> list[Line]:
    """Say what failed, then what runs long; silence comes before «Nothing failed»."""
    failed = _failed(summary, portrait.failures)
    if freshness is not Freshness.Stale:
        return failed + _long(portrait, summary)
    silent = _silent(portrait.reading, summary)
    return failed + silent if summary.node_counts.failed else silent + failed


def strong(text: str, *rest: Part) -> Line:
    """Return a line that begins bold."""
    return (Part("strong", text), *rest)


def _text(text: str) -> Part:
    return Part("text", text)


def _ground(reading: Reading, freshness: Freshness) -> tuple[str, str]:
    summary = reading.summary
    bad = (ExecutionState.FAILED, ExecutionState.TIMED_OUT)
    if reading.execution.is_undecided:
        return "warn", "warning"
    if reading.execution.state in bad or (summary and summary.node_counts.failed):
        return "bad", "failed"
    if freshness in (Freshness.Stale, Freshness.Late):
        return "warn", "clock"
    if reading.execution.state is ExecutionState.LOST:
        return "warn", "warning"
    if summary is None and _waits_long(reading):
        return "warn", "clock"
    if reading.availability in (DetailAvailability.MISSING, DetailAvailability.CORRUPT):
        return "warn", "warning"
    return "plain", "check" if summary is not None else "waiting"


def _asked(reading: Reading) -> list[Line]:
    execution, summary = reading.execution, reading.summary
    if execution.has_ended or execution.cancel_requested_at is None:
        return []
    ago = _since(reading, words.milliseconds(execution.cancel_requested_at))
    counts = summary.node_counts if summary else NodeCounts()
    ending = counts.running + counts.submitted
    rest = [_text(f"{words.nodes(ending)} may still be ending.")] if ending else []
    return [strong(f"Cancellation was asked for {age(ago)} ago.", *rest)]


def _ended(portrait: Portrait) -> list[Line]:
    """Say how the run ended, where its counts do not, and with which error."""
    reading = portrait.reading
    execution, summary = reading.execution, reading.summary
    if execution.is_undecided:
        error: list[Line] = [(Part("code", portrait.error),)] if portrait.error else []
        return [_UNDECIDED, *error]
    if not execution.has_ended:
        return []
    said = _END.get(execution.state, "")
    if said and execution.finished_at is not None:
        now = words.milliseconds(reading.read_at)
        said = f"{said} at {clock(words.milliseconds(execution.finished_at), now)}."
    rest: list[Part] = []
    if summary is not None and summary.terminal is not None:
        rest += _derived(summary, execution.state)
    lines = [strong(said, *rest)] if said else []
    if portrait.error:
        lines.append((Part("code", portrait.error),))
    return lines


_UNDECIDED = strong(
    "What its compiled graph has done is not known.",
    _text("It waits for an operator, and for"),
    Part("code", "manage.py ray_reconcile"),
)

_END = {
    ExecutionState.SUCCEEDED: "Succeeded",
    ExecutionState.CANCELLED: "Cancelled on request",
    ExecutionState.TIMED_OUT: "Ended by its time limit",
    ExecutionState.LOST: "Lost: its process or host on Ray was gone; this was noticed",
    ExecutionState.FAILED: "Failed",
}


def _derived(summary: Summary, state: ExecutionState) -> list[Part]:
    counts = summary.node_counts
    if summary.terminal is None or not summary.terminal.derived:
        if state is ExecutionState.CANCELLED:
            total = words.nodes(summary.discovered_nodes)
            return [_text(f"{count(counts.succeeded)} of {total} had succeeded.")]
        return []
    if state is ExecutionState.SUCCEEDED:
        return [_text("The end was confirmed by the task, not by a last report.")]
    if state is ExecutionState.LOST:
        return [_text("What ran then is unknown.")]
    return [_text("The counts are the last seen ones.")]


def _unreported(reading: Reading) -> list[Line]:
    """Say why nothing is known of any node."""
    execution = reading.execution
    if reading.availability is DetailAvailability.CORRUPT:
        return [strong("The summary of this run is damaged and not shown.")]
    if execution.has_ended:
        if execution.policy is ReportingPolicy.disabled:
            text = "Its state and result are in the task."
            return [strong("Node reporting was off for this run.", _text(text))]
        if execution.started_at is None:
            return [strong(f"{_unstarted(execution)} was not started.")]
        said = "No summary of this run is stored."
        return [strong(said, _text("Its result is in the task."))]
    state = execution.state
    if state is ExecutionState.QUEUED:
        return [_queued(reading)]
    if state in _BEFORE:
        return [_BEFORE[state]]
    if execution.policy is ReportingPolicy.disabled:
        text = "Its state and result are in the task."
        return [strong("Node reporting is off for this run.", _text(text))]
    if execution.policy is ReportingPolicy.terminal_only:
        return [strong("One summary comes with the end, by policy.")]
    since = _since(reading, words.milliseconds(execution.started_at or reading.read_at))
    if since >= UNREPORTED_MS:
        text = "Look at its worker's log, then at this run's collector."
        return [strong(f"No report for {age(since)}.", _text(text))]
    text = "The graph, timeline and table appear here with the first report."
    said = "The run has started and has not reported a node yet."
    return [strong(said, _text(text))]


def _unstarted(execution: Execution) -> str:
    between = execution.attempt_number > 0 and execution.run_id is None
    return "The next attempt" if between else "The run"


_BEFORE = {
    ExecutionState.CLAIMED: strong(
        "A worker has claimed it.", _text("The run has not started.")
    ),
    ExecutionState.RETRY_WAIT: strong(
        "Waits to be tried again.", _text("The next attempt starts later.")
    ),
}


def _waits_long(reading: Reading) -> bool:
    execution = reading.execution
    if execution.state is ExecutionState.QUEUED:
        waited = _since(reading, words.milliseconds(execution.enqueued_at))
        return waited >= status.UNCLAIMED_MS
    if execution.started_at is None or execution.has_ended:
        return False
    quiet = (ReportingPolicy.terminal_only, ReportingPolicy.disabled)
    since = _since(reading, words.milliseconds(execution.started_at))
    return since >= UNREPORTED_MS and execution.policy not in quiet


def _queued(reading: Reading) -> Line:
    queue = reading.execution.queue_name
    waited = _since(reading, words.milliseconds(reading.execution.enqueued_at))
    if waited < status.UNCLAIMED_MS:
        text = f"Waits for a worker on queue {queue}."
        return strong(f"Queued for {age(waited)}.", _text(text))
    return strong(
        f"No worker has claimed it for {age(waited)}.",
        _text("Is"),
        Part("code", "manage.py ray_worker"),
        _text(f"running for queue {queue}?"),
    )


def _silent(reading: Reading, summary: Summary) -> list[Line]:
    now = words.milliseconds(reading.read_at)
    heard = age(status.silence(reading, summary))
    then = clock(summary.observed_at_ms, now)
    alive, said = status.worker(reading)
    text = f"{said[:1].upper()}{said[1:]}."
    if alive:
        text += (
            " So the run may go on unseen; a collector that restarts catches up by"
            " itself and loses no state."
        )
    return [
        strong(
            f"The collector has been silent for {heard}. The figures are from {then}."
        ),
        (_text(text),),
    ]


def _failed(summary: Summary, found: Failures | None) -> list[Line]:
    counts = summary.node_counts
    if not counts.failed:
        return (
            [strong("Nothing failed.")]
            if summary.discovered_nodes
            else [_nothing(summary)]
        )
    head = f"{count(counts.failed)} failed"
    if counts.skipped:
        head += f", {count(counts.skipped)} skipped behind"
    if found is None or not found.items:
        text = "Counted; none of them is kept with detail."
        return [strong(f"{head}.", _text(text))]
    lines = [strong(f"{head}.", *_example(found, found.items[0]))]
    if not found.more and found.examined < found.failed:
        kept, rest = count(found.examined), count(found.failed - found.examined)
        text = f"{kept} of the {count(found.failed)} failures kept in detail; {rest} counted only."
        lines.append((_text(text),))
    return lines


def _nothing(summary: Summary) -> Line:
    if summary.terminal is None:
        return strong("The run has not reported a node yet.")
    text = "That is a valid end; its result is in the task."
    return strong("This run registered no node.", _text(text))


def _example(found: Failures, cause: Cause) -> tuple[Part, ...]:
    text = cause.text if found.examined > 1 else cause.examples[0].text
    said = Part("code", ": ".join(part for part in (cause.kind, text) if part))
    if found.examined > 1:
        say = f"{count(cause.nodes)} of {count(found.examined)} say"
        return (_text(say), said)
    return (Part("node", cause.examples[0].id), _text("ended with"), said)


def _long(portrait: Portrait, summary: Summary) -> list[Line]:
    execution = portrait.reading.execution
    if execution.has_ended or execution.is_undecided:
        return []
    if not portrait.running:
        if summary.node_counts.running:
            return [(_text("The running nodes are counted; none of them is kept."),)]
        return [(_text("No node takes long just now."),)]
    now = words.milliseconds(portrait.reading.read_at)
    stages = (
        {stage.index: stage for stage in portrait.stages.items}
        if portrait.stages
        else {}
    )
    for node in portrait.running:
        if _is_slow(node, stages.get(node.stage), now):
            return [
                strong("Runs unusually long:", *_ran(node, stages.get(node.stage), now))
            ]
    first = portrait.running[0]
    ran = _ran(first, stages.get(first.stage), now)
    return [strong("Nothing runs unusually long.", _text("Longest:"), *ran)]


def _ran(node: Running, stage: Stage | None, now: int) -> tuple[Part, ...]:
    text = f"for {duration(now - node.started_ms)}"
    if stage is not None and stage.p95_ms is not None:
        text += f" where its stage usually takes {duration(stage.p95_ms)}"
    return (Part("node", node.node_id), _text(text))


def _is_slow(node: Running, stage: Stage | None, now: int) -> bool:
    if stage is None or stage.p95_ms is None or stage.node_counts.ended < SLOW_ENDED:
        return False
    return now - node.started_ms > SLOW_FACTOR * stage.p95_ms


def _since(reading: Reading, then: int) -> int:
    return max(words.milliseconds(reading.read_at) - then, 0)
