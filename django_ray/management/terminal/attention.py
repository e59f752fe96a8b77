"""What is wrong, in at least two lines, kept even when all is well."""

from rich.text import Text

from django_ray.management.terminal import words
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.shapes import ALERT, Part
from django_ray.management.terminal.words import count
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers.picture import Failure, Picture, Running, Stage

LEAST_LINES = 2
SLOW_FACTOR = 3
SLOW_ENDED = 10


def compose(picture: Picture, pen: Pen, room: int) -> list[Text]:
    """Return at least two lines and at most `room`: failures first, then slowness."""
    lines = [*_ending(picture), *_failures(picture, room), *_slowness(picture)]
    lines = lines[: max(room, LEAST_LINES)]
    while len(lines) < LEAST_LINES:
        lines.append([("", "")])
    return [pen.line(*parts) for parts in lines]


def _ending(picture: Picture) -> list[list[Part]]:
    """Say why the run ended, or that it is about to, where the counts do not."""
    execution = picture.reading.execution
    if execution.is_undecided:
        said = f"Its effects are not known. Decide: ray_reconcile {execution.public_id}"
        lines: list[list[Part]] = [[(said, ALERT)]]
        return [*lines, [(picture.error, "red")]] if picture.error else lines
    if not execution.has_ended:
        asked = execution.cancel_requested_at
        if asked is None:
            return []
        now = words.milliseconds(picture.reading.read_at)
        ago = words.age(now - words.milliseconds(asked))
        return [[(f"Cancellation was asked for {ago} ago.", ALERT)]]
    text = {
        ExecutionState.CANCELLED: "Cancelled on request.",
        ExecutionState.TIMED_OUT: "Ended by its time limit.",
        ExecutionState.LOST: "Lost: its process or host on Ray was gone.",
    }.get(execution.state, "")
    said = " ".join(part for part in (text, picture.error) if part)
    return [[(said, "red")]] if said else []


def _failures(picture: Picture, room: int) -> list[list[Part]]:
    summary = picture.reading.summary
    if summary is None:
        known = picture.reading.execution.has_ended
        return [] if known else [[("Nothing is known of its nodes yet.", "")]]
    failed = summary.node_counts.failed
    if not failed:
        return [[("Nothing failed.", "")]]
    head = f"✗ {count(failed)} failed"
    if summary.node_counts.skipped:
        head += f", {count(summary.node_counts.skipped)} skipped behind"
    now = words.milliseconds(picture.reading.read_at)
    shown = picture.failures[: max(room - 2, 1)]
    lines = [[(head, "red")], *(_failure(failure, now) for failure in shown)]
    if not shown:
        lines.append([("  Counted; none of them is kept with detail.", "")])
    return lines


def _failure(failure: Failure, now_ms: int) -> list[Part]:
    when = "" if failure.ended_ms is None else words.clock(failure.ended_ms, now_ms)
    try_ = "" if failure.try_ is None else f"try {count(failure.try_)}"
    facts = [part for part in (when, failure.node_id, try_) if part]
    return [("  " + "  ".join(facts), ""), (f"  {cause(failure)}", "red")]


def cause(failure: Failure) -> str:
    """Return class and text in one, as far as they are known."""
    return ": ".join(part for part in (failure.kind, failure.text) if part)


def _slowness(picture: Picture) -> list[list[Part]]:
    summary = picture.reading.summary
    execution = picture.reading.execution
    if summary is None or execution.has_ended or execution.is_undecided:
        return []
    if not picture.running:
        return [[(_idle(summary), "")]]
    now = words.milliseconds(picture.reading.read_at)
    stages = {stage.index: stage for stage in picture.stages}
    for node in picture.running:
        if is_slow(node, stages.get(node.stage), now):
            return [[(f"Slow: {_long(node, stages.get(node.stage), now)}", ALERT)]]
    first = picture.running[0]
    text = f"Longest: {_long(first, stages.get(first.stage), now)}"
    return [[(text, "")]]


def _idle(summary: Summary) -> str:
    if not summary.discovered_nodes:
        return "The run has not reported a node yet."
    if summary.node_counts.running:
        return "The running nodes are counted; none of them is kept."
    return "No node takes long just now."


def _long(node: Running, stage: Stage | None, now_ms: int) -> str:
    text = f"{node.node_id}, {words.duration(now_ms - node.started_ms)}"
    if stage is None or stage.p95_ms is None:
        return text
    return f"{text} where its stage usually takes {words.duration(stage.p95_ms)}"


def is_slow(node: Running, stage: Stage | None, now_ms: int) -> bool:
    """Claim more than three times the stage's p95, once ten of it have ended."""
    if stage is None or stage.p95_ms is None or stage.counts.ended < SLOW_ENDED:
        return False
    return now_ms - node.started_ms > SLOW_FACTOR * stage.p95_ms
