"""How many nodes end a minute, as the watcher saw it, with the basis it rests on."""

from collections import deque
from dataclasses import dataclass, field

from django_ray.management.terminal import words
from django_ray.readers.picture import Reading

WINDOW_MS = 60_000
LEAST_MS = 2_000


@dataclass(slots=True)
class Pace:
    """The ended counts of the last minute of one run, each with its time."""

    _run: tuple[str, int] | None = None
    _seen: deque[tuple[int, int]] = field(default_factory=deque)

    def see(self, reading: Reading) -> None:
        """Take one reading in; another run starts anew."""
        summary = reading.summary
        if summary is None:
            return
        run = (summary.run.run_id, summary.run.execution_generation)
        if run != self._run:
            self._run = run
            self._seen.clear()
        now = summary.observed_at_ms
        if self._seen and now <= self._seen[-1][0]:
            return
        self._seen.append((now, summary.node_counts.ended))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_MS:
            self._seen.popleft()

    def say(self, reading: Reading) -> str:
        """Return the rate in words, or nothing where it would be a guess."""
        summary = reading.summary
        if summary is None:
            return ""
        if summary.terminal is not None or len(self._seen) < 2:
            until = summary.ended_at_ms or summary.observed_at_ms
            span = until - summary.started_at_ms
            return _rate(summary.node_counts.ended, span, "since the start")
        (first, before), (last, ended) = self._seen[0], self._seen[-1]
        basis = f"last {words.age(last - first)}"
        return _rate(max(ended - before, 0), last - first, basis)


def _rate(ended: int, span_ms: int, basis: str) -> str:
    if span_ms < LEAST_MS:
        return ""
    return f"{words.count(ended * 60_000 // span_ms)} a minute, {basis}"
