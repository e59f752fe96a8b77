"""Plain lines where there is no terminal: no colour, no redraw, nothing twice.

One line for each change of state, each failure not told yet, and each ten seconds.
"""

from dataclasses import dataclass, field

from django_ray.management.terminal import attention, safe, status, words
from django_ray.management.terminal.status import Freshness
from django_ray.protocol.summary import Summary, share
from django_ray.readers.picture import Failure, Picture, Reading

EVERY_MS = 10_000
REMEMBERED = 1_024


@dataclass(slots=True)
class Told:
    """What has been said, so that it is not said again."""

    unicode: bool
    _state: tuple[object, ...] = ()
    _at_ms: int = -EVERY_MS
    _failures: dict[tuple[int, str, int | None], None] = field(default_factory=dict)

    def lines(self, picture: Picture) -> list[str]:
        """Return the lines this picture is worth."""
        reading = picture.reading
        now = words.milliseconds(reading.read_at)
        word = status.freshness(picture)
        failures = [
            line for one in picture.failures[::-1] if (line := self._new(one, reading))
        ]
        state = (reading.execution.state, reading.execution.attempt_number, word)
        if state == self._state and now - self._at_ms < EVERY_MS:
            return failures
        self._state, self._at_ms = state, now
        return [*failures, self._write(reading, _told(picture, word))]

    def _new(self, failure: Failure, reading: Reading) -> str:
        node = (reading.execution.attempt_number, failure.node_id)
        key, first = (*node, failure.try_), (*node, None)
        # The first failure is known before its row says which try it was.
        told = key in self._failures or first in self._failures
        self._failures.pop(first, None)
        self._failures[key] = None
        if told:
            return ""
        if len(self._failures) > REMEMBERED:
            del self._failures[next(iter(self._failures))]
        try_ = "" if failure.try_ is None else f" try={failure.try_}"
        cause = attention.cause(failure)
        return self._write(reading, f"FAILED-NODE {failure.node_id}{try_} {cause}")

    def _write(self, reading: Reading, text: str) -> str:
        now = words.moment(words.milliseconds(reading.read_at))
        line = safe.clean(f"{now:%H:%M:%S}Z {reading.execution.name} {text}").rstrip()
        return line if self.unicode else safe.narrow(line)


def _told(picture: Picture, word: Freshness) -> str:
    reading = picture.reading
    execution, summary = reading.execution, reading.summary
    if word is Freshness.Silent:
        return "NO-ANSWER from the database"
    if summary is None:
        said = f"{execution.state} attempt={execution.attempt_number}"
        return f"{said} {picture.error}".rstrip()
    if word is Freshness.Stale:
        held, _ = status.worker(reading)
        silent = status.silence(reading, summary) // 1_000
        lease = "ok" if held else "over"
        return f"STALE rev={summary.revision} silent={silent}s worker-lease={lease}"
    said = f"{execution.state} {_numbers(reading, summary)}"
    return f"{said} {picture.error}".rstrip()


def _numbers(reading: Reading, summary: Summary) -> str:
    counts = summary.node_counts
    done, of = share(summary)
    word = "ended" if summary.terminal is None else "succeeded"
    parts = [
        f"rev={summary.revision}",
        f"{summary.percent}%",
        f"{word}={done}/{of}",
        f"failed={counts.failed}",
        f"running={counts.running}",
        f"kept={summary.retained_nodes}/{summary.discovered_nodes}",
    ]
    if not reading.execution.has_ended:
        parts.append(f"age={status.silence(reading, summary) / 1_000:.1f}s")
    return " ".join(parts)
