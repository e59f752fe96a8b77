"""How far a run has come that has not reported yet: from the queue to its first report.

One that waits for its next attempt has left the way behind it.
"""

import datetime as dt
from dataclasses import dataclass

from django_ray.management.terminal import words
from django_ray.management.terminal.words import age, clock
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers.picture import Reading


@dataclass(frozen=True, slots=True)
class Step:
    """One step; its symbol is that of done, under way, or still to come."""

    symbol: str
    tone: str
    word: str
    text: str
    time: str


def compose(reading: Reading) -> tuple[Step, ...]:
    """Return the steps of a run that has not reported; none for any other."""
    execution = reading.execution
    waits_again = execution.state is ExecutionState.RETRY_WAIT
    if reading.summary is not None or execution.has_ended or waits_again:
        return ()
    now = words.milliseconds(reading.read_at)
    known = (
        ("Queued", f"on queue {execution.queue_name}", execution.enqueued_at),
        ("Claimed by a worker", "which holds its lease", execution.claimed_at),
        (
            "Task started on Ray",
            "it may work before it registers a node",
            execution.started_at,
        ),
        ("First report", "soon after the task registers its first node", None),
    )
    found: list[Step] = []
    before: dt.datetime | None = None
    for word, text, at in known:
        found.append(_step(word, text, at, before, now))
        before = at
    return tuple(found)


def _step(
    word: str, text: str, at: dt.datetime | None, before: dt.datetime | None, now: int
) -> Step:
    if at is not None:
        return Step(
            "succeeded", "succeeded", word, text, clock(words.milliseconds(at), now)
        )
    if before is not None:
        since = age(now - words.milliseconds(before))
        return Step("waiting", "accent", word, text, f"{since} so far")
    return Step("pending", "pending", word, text, "not yet")
