"""Reports a run to its collector: coalesces, sends in the window, repeats, falls silent.

Contract 4.4, 4.5 and 6. Any thread may report: a report encodes one record, keeps it and
returns; it never waits for the collector and never raises. One driver, the producer's own
thread or a test, calls `step`, which takes the answers and sends what is due.

What is held is bounded by what exists. A coordinator holds what is not committed: a record
for each node and its latest state, and what each leaf with detail said last. A worker process holds at most `WORKER_SLOTS` latest
values, together under 8 MiB; past it the oldest is given up and counted.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from actors.clock import BACKOFF_LAST_MS
from actors.kept import Kept, Key
from actors.link import HEADER, CollectorHandle, Link
from django_ray.protocol import frames
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.limits import Limits
from django_ray.protocol.vocabulary import RANKS, NodeState

WORKER_SLOTS = 1_024
"""Latest values, and leaves noted as running, that a worker process holds at most."""

COORDINATOR_SLOTS = frames.MAXIMUM_ORDINAL
POLL_S = 0.5
"""The thread's longest wait on the handle."""

STOP_S = 2.0
TELL_MS = 1_000
"""How often a producer tells its counts at the most."""

LASTING_STATES = frozenset((NodeState.FAILED, NodeState.CANCELLED))

logger = logging.getLogger(__name__)


class Producer:
    """One process's reports of one run."""

    def __init__(
        self,
        *,
        run_id: str,
        generation: int,
        kind: ProducerKind,
        producer: bytes,
        handle: CollectorHandle,
        limits: Limits,
        clock: Callable[[], int],
        resync: Callable[[], Iterable[frames.Record]] = tuple,
        pull: Callable[[], Iterable[frames.Record]] | None = None,
        tell: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        worker = kind is ProducerKind.worker
        self.tallies: Counter[str] = Counter()
        self._limits = limits
        self._most = (limits.worker_frame if worker else limits.frame) - HEADER
        self._clock = clock
        self._resync = resync
        self._pull = pull
        self._tell = tell
        self._told_ms = 0
        self._nudged = False
        self._kept = Kept(WORKER_SLOTS if worker else COORDINATOR_SLOTS)
        self._link = Link(
            run_id=run_id,
            generation=generation,
            kind=kind,
            producer=producer,
            handle=handle,
            limits=limits,
            kept=self._kept,
            tallies=self.tallies,
            resync=self._resync_records,
        )
        self._running: dict[int, frames.State] = {}
        self._watch = False
        self._events = self._sessions = 0
        self._urgent = False
        self._idle = False
        self._endless = False
        self._stopping = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def declare(self, call: int, number: int) -> None:
        """Say how many nodes a call will register. Contract 4.10."""
        self._add(frames.Declare(call, number))

    def node(self, node: frames.Node) -> None:
        """Report a registered node; the caller reports them by rising ordinal."""
        self._add(node)

    def task(self, ordinal: int, task_id: bytes) -> None:
        """Report the Ray task that runs a node."""
        self._add(frames.Task(ordinal, task_id))

    def state(self, state: frames.State) -> None:
        """Report a node's state; a newer state of the node takes its place."""
        order = state.invocation << 31 | state.try_
        rank = order << 2 | RANKS[state.state]
        self._put(state.ordinal, rank, state, state.state in LASTING_STATES)

    def progress(self, progress: frames.Progress) -> None:
        """Report how far a leaf is; a newer report of the leaf takes its place."""
        target = progress.target
        key = ~target if isinstance(target, int) else target
        order = progress.invocation << 31 | progress.try_
        self._put(key, order << 63 | progress.sequence, progress, False)

    def holds_progress(self, target: int) -> bool:
        """Claim that a leaf's latest report is not known committed."""
        return self._kept.holds(~target)

    def preview(self, preview: frames.Preview) -> None:
        """Report what is shown of a node's output; of each try the first is kept."""
        order = preview.invocation << 31 | preview.try_
        self._put(("preview", preview.ordinal), order, preview, False)

    def event(self, event: frames.Event) -> None:
        """Report an event; the latest 32 are kept until they are committed."""
        self._events += 1
        place = self._events % self._limits.events
        self._put(("event", place), self._events, event, False)

    def session(self, session: frames.Session) -> None:
        """Report a compiled session's snapshot; a newer one takes its place."""
        self._sessions += 1
        self._put(("session", 0), self._sessions, session, False)

    def nudge(self) -> None:
        """Say that `pull` has news, at the price of a flag: it is asked when one is due."""
        self._nudged = True
        self._rouse()

    def end(self, end: frames.End) -> None:
        """Report the run's end, at once."""
        self._add(end)
        self._hurry()

    def running(
        self, ordinal: int, try_: int, started_ms: int, host: str | None = None
    ) -> None:
        """Note that a leaf has begun here: said only when it outlasts the interval."""
        if self._link.silent or len(self._running) >= WORKER_SLOTS:
            return
        self._running[ordinal] = frames.State(
            ordinal, 0, try_, NodeState.RUNNING, started_ms, started_ms, host
        )
        self._watch = True
        if self._endless:
            self._wake.set()

    def ended(self, ordinal: int) -> None:
        """Note that a leaf has ended here; its end is the coordinator's to report."""
        self._running.pop(ordinal, None)

    @property
    def silent(self) -> bool:
        """Claim that the collector wants no more of this producer."""
        return self._link.silent

    @property
    def gone(self) -> bool:
        """Claim that it is silent because there is no collector any more."""
        return self._link.gone

    @property
    def has_uncommitted(self) -> bool:
        """Claim that a frame was sent whose commit is not known."""
        return self._kept.uncommitted

    @property
    def backlog(self) -> int:
        """Count the records not known committed, so that a caller may pace itself."""
        return len(self._kept)

    def settle(self, timeout_s: float) -> bool:
        """Wait until all that was reported is committed; say False if it is not."""
        self._hurry()
        return self._kept.settled.wait(timeout_s) and not self._link.silent

    def start(self) -> None:
        """Send from a daemon thread until `stop`, or until silent."""
        self._thread = threading.Thread(
            target=self._drive, name="django-ray-producer", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread, without waiting for what is not committed; never hang."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_S)

    def step(self, now_ms: int) -> None:
        """Take the answers that are there and send what is due; for the one driver."""
        self._link.collect(now_ms, 0.0)
        self.take_news()
        self._say_running(now_ms)
        self._link.send(now_ms, self._urgent)
        if not self._kept.queued:
            self._urgent = False
        if now_ms - self._told_ms >= TELL_MS:
            self._told_ms = now_ms
            self._tell_counts()

    def take_news(self) -> None:
        """Report what `pull` gives, if there was a nudge since the last time."""
        if not self._nudged or self._pull is None:
            return
        self._nudged = False
        for record in self._pull():
            if isinstance(record, frames.State):
                self.state(record)
            elif isinstance(record, frames.Session):
                self.session(record)

    def _add(self, record: frames.Record) -> None:
        data = self._encode(record)
        if data is not None:
            self._kept.add(data)
            self._rouse()

    def _put(self, key: Key, rank: int, record: frames.Record, lasting: bool) -> None:
        data = self._encode(record)
        if data is not None:
            if not self._kept.put(key, rank, data, lasting):
                self.tallies["stale"] += 1
            self._rouse()

    def _encode(self, record: frames.Record) -> bytes | None:
        """Encode one record; one that cannot be sent is counted, never raised."""
        if self._link.silent:
            return None
        try:
            data = frames.encode(record)
        except Exception:
            # What the encoder refuses is its caller's mistake, not its caller's end.
            self._leave_out("malformed")
            return None
        if len(data) > self._most:
            self._leave_out("oversized")
            return None
        return data

    def _leave_out(self, reason: str) -> None:
        if not self.tallies[reason]:
            logger.warning("A progress record is left out: %s.", reason)
        self.tallies[reason] += 1

    def _resync_records(self) -> Iterable[bytes]:
        encoded = map(self._encode, self._resync())
        return [data for data in encoded if data is not None]

    def _rouse(self) -> None:
        """Wake the thread when it waits with nothing to send; else it costs no signal."""
        if self._idle:
            self._wake.set()

    def _hurry(self) -> None:
        self._urgent = True
        self._wake.set()

    def _say_running(self, now_ms: int) -> None:
        """Report the leaves that have outlasted the interval, once each."""
        latest = now_ms - self._link.interval_ms
        for ordinal, state in tuple(self._running.items()):
            if state.at_ms <= latest and self._running.pop(ordinal, None) is not None:
                self.state(state)

    def _drive(self) -> None:
        while not self._stopping and not self._link.silent:
            try:
                self._wait()
                self.step(self._clock())
            except Exception:
                # A fault here must neither end the run's reporting nor spin.
                logger.exception("The producer failed; it goes on.")
                self._wake.wait(BACKOFF_LAST_MS / 1_000)
        self._tell_counts()

    def _tell_counts(self) -> None:
        kept = self._kept
        merged = {"coalesced": kept.coalesced, "dropped": kept.dropped}
        counts = {**self.tallies, **merged}
        if self._tell is not None and any(counts.values()):
            self._tell(counts)

    def _wait(self) -> None:
        """Wait for an answer, a report, or the moment when something is due."""
        link = self._link
        if link.in_flight:
            due = link.due_in(self._clock(), self._urgent)
            limit = POLL_S if due is None else min(POLL_S, due / 1_000)
            if link.has_room:
                limit = min(limit, link.interval_ms / 1_000)
            link.collect(self._clock(), limit)
            return
        # The flags are raised before the look, so that a report in between wakes us.
        self._idle = not self._kept.queued
        self._endless = self._idle
        due = link.due_in(self._clock(), self._urgent)
        if self._running or self._watch:
            self._watch = self._endless = False
            due = link.interval_ms if due is None else min(due, link.interval_ms)
        if due != 0 and not (self._stopping or self._nudged):
            self._wake.wait(None if due is None else due / 1_000)
        self._idle = self._endless = False
        self._wake.clear()
