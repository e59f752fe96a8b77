"""The head of a frame: who, how fresh, how complete; how far."""

from rich.text import Text

from django_ray.management.terminal import left, safe, shapes, status, words
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.shapes import QUIET, Part
from django_ray.management.terminal.words import count
from django_ray.protocol.summary import NodeCounts, Summary, share
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers.picture import Execution, Picture, Reading

GAP = "  "


def compose(picture: Picture, pace: str, pen: Pen) -> list[Text]:
    """Return the head: the same lines in every state, so that nothing moves."""
    reading = picture.reading
    return [
        pen.line(*_identity(picture, pen.width)),
        pen.line(*status.fresh_line(picture)),
        pen.line(*status.complete_line(reading)),
        pen.line(*_bar(reading, pen.width)),
        *_counts(reading, pen),
        pen.line(*_facts(picture, pace)),
    ]


def _identity(picture: Picture, width: int) -> list[Part]:
    execution = picture.reading.execution
    summary = picture.reading.summary
    mark, style = shapes.EXECUTIONS[execution.state]
    known = (status.Freshness.Stale, status.Freshness.Silent)
    last = ", last known" if status.freshness(picture) in known else ""
    strategy = f"{summary.strategy} · {summary.policy}" if summary is not None else ""
    attempt = _attempt(execution)
    rest = " · ".join(part for part in (attempt, strategy) if part)
    state = f"{mark} {execution.state}{last}"
    name = safe.middle(safe.clean(execution.name), max(width // 3, 12))
    whole, short = str(execution.public_id), str(execution.public_id)[:8]
    room = width - len(state) - len(rest) - safe.cells(name) - 3 * len(GAP)
    return [
        (name + GAP, "bold"),
        (state + GAP, f"bold {style}"),
        ((whole if room >= len(whole) else short) + GAP, "bold"),
        (rest, ""),
    ]


def _attempt(execution: Execution) -> str:
    """Say which try it is, and of how many, unless it was retried by hand past them."""
    number, most = execution.attempt_number, execution.max_attempts
    of = "" if most is None or not 1 <= number <= most else f" of {count(most)}"
    return f"attempt {count(number)}{of}"


def _bar(reading: Reading, width: int) -> list[Part]:
    summary = reading.summary
    if summary is None:
        return [(f"{words.NONE} %".rjust(5) + GAP, "bold"), *_empty(width - 7)]
    done, of = share(summary)
    whole = words.percent(summary.percent, done)
    said = _said(summary)
    room = min(width - 7 - len(GAP) - len(said), 100)
    return [
        (whole.rjust(5) + GAP, "bold"),
        *shapes.bar(summary.node_counts, of, room),
        (GAP + said, ""),
    ]


def _empty(room: int) -> list[Part]:
    return shapes.bar(NodeCounts(), 0, min(room, 70))


def _said(summary: Summary) -> str:
    """Return what the percent is of."""
    done, of = share(summary)
    word = "ended" if summary.terminal is None else "succeeded"
    return f"{count(done)} of {count(of)} {word}"


def _counts(reading: Reading, pen: Pen) -> list[Text]:
    """Return the seven counts in one line, or in two where one is too narrow."""
    counts = reading.summary.node_counts if reading.summary else None
    chips = [_chip(shape, counts) for shape in shapes.SHAPES]
    needed = sum(safe.cells(mark[0] + word[0]) for mark, word in chips)
    split = 4 if needed + 1 + len(GAP) * (len(chips) - 1) > pen.width else len(chips)
    return [_joined(row, pen) for row in (chips[:split], chips[split:]) if row]


def _joined(chips: list[tuple[Part, Part]], pen: Pen) -> Text:
    parts = [part for chip in chips for part in ((GAP, ""), *chip)]
    return pen.line((" ", ""), *parts[1:])


def _chip(shape: shapes.Shape, counts: NodeCounts | None) -> tuple[Part, Part]:
    number = counts.of(shape.state) if counts is not None else None
    said = words.NONE if number is None else count(number)
    # A zero is no news: it has no colour.
    return (
        (f"{shape.mark} ", shape.style if number else QUIET),
        (f"{said} {shape.state.lower()}", "" if number else QUIET),
    )


def _facts(picture: Picture, pace: str) -> list[Part]:
    reading = picture.reading
    execution, summary = reading.execution, reading.summary
    facts = [_elapsed(reading), pace]
    if summary is not None and execution.state is ExecutionState.RUNNING:
        facts += [_left(picture, summary), _running(summary)]
    elif summary is not None and summary.hosts:
        facts.append(f"on {_hosts(summary)}")
    return [(" " + "   ".join(fact for fact in facts if fact), "")]


def _elapsed(reading: Reading) -> str:
    execution = reading.execution
    begun, limit = execution.started_at, execution.timeout_seconds
    if begun is None:
        return ""
    until = execution.finished_at or reading.read_at
    took = words.duration(words.milliseconds(until) - words.milliseconds(begun))
    if execution.has_ended:
        return f"took {took}"
    return took if limit is None else f"{took} of {words.duration(1_000 * limit)}"


def _left(picture: Picture, summary: Summary) -> str:
    """Say nothing rather than why not: a line is short, and this is its first to go."""
    found = left.estimate(summary)
    is_live = status.freshness(picture) is status.Freshness.Live
    return f"{found} min left" if is_live and isinstance(found, left.Left) else ""


def _running(summary: Summary) -> str:
    text = f"{count(summary.node_counts.running)} running"
    return f"{text}, {_hosts(summary)} seen" if summary.hosts else text


def _hosts(summary: Summary) -> str:
    return "1 host" if summary.hosts == 1 else f"{count(summary.hosts)} hosts"
