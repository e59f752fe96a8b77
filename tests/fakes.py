"""Fakes of the product's own protocols; each holds state, none patches anything."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

from actors.account import Method
from actors.measures import BY_NAME, Kind
from django_ray.errors import StorageUnavailable
from django_ray.identity import RunIdentity
from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.events import Callback, answer
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import ActionKind, CallbackKind
from django_ray.progress.delta import (
    Fenced,
    Moved,
    Outcome,
    Publication,
    Published,
    Revisions,
)
from django_ray.progress.ledger import Ledger, Mark
from django_ray.progress.pages import Candidate
from django_ray.progress.standing import Standing
from django_ray.protocol import frames, records, summary
from django_ray.protocol.frames import Status
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.records import Detail
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import NodeState, ReportingPolicy, SelectionPolicy
from django_ray.storage.load import Begun
from django_ray.storage.stage import Staged

RUN_ID = "0b8f1d3e-6f0a-4c8e-9a51-3f4f5d2c7b10"
START_MS = 1_700_000_000_000
IDENTITY = RunIdentity(
    task_execution_pk=7, attempt_number=1, execution_generation=1, run_id=RUN_ID
)


def run_settings(
    policy: ReportingPolicy = ReportingPolicy.full, limits: Limits = V1
) -> RunSettings:
    """Return what the actors of the fakes' one run are told."""
    return RunSettings(
        identity=IDENTITY,
        policy=policy,
        strategy=SelectionPolicy.dynamic,
        plan_fingerprint="0" * 64,
        started_at_ms=START_MS,
        retention_days=7,
        limits=limits,
    )


class FakeClock:
    """Milliseconds that move only when told to."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, milliseconds: int) -> int:
        """Move on and return the time it is then."""
        self.now_ms += milliseconds
        return self.now_ms


class LiveClock(FakeClock):
    """The real time in milliseconds; it does not move when told to."""

    def __call__(self) -> int:
        return self.now_ms + time.monotonic_ns() // 1_000_000

    def advance(self, milliseconds: int) -> int:
        """Return the time it is."""
        return self()


class FakeCollector:
    """What a collector owes its producers, without a model: numbers, marks, statuses.

    `applied` are the records in order of arrival; `commit` confirms what is applied;
    `restart` forgets the producers as a new process would.
    """

    def __init__(self) -> None:
        self.epoch = 1
        self.interval_ms = 50
        self.status: Status | None = None
        self.reason = ""
        self.refused: Callable[[frames.Record], bool] | None = None
        self.unknown: tuple[bytes, ...] = ()
        self.frames: list[frames.Frame] = []
        self.applied: list[frames.Record] = []
        self._ledger = Ledger(V1)

    def commit(self) -> None:
        """Confirm all that is applied."""
        self._ledger.commit(self._ledger.marks())

    def restart(self, coordinator: Mark | None = None) -> None:
        """Forget every producer, under the next writer epoch; but for a stored mark."""
        self.epoch += 1
        self._ledger = Ledger(V1)
        if coordinator is not None:
            self._ledger.resume(coordinator, START_MS)

    def ingest(self, data: bytes) -> bytes:
        """Judge, apply and answer one frame."""
        frame = frames.decode(data)
        self.frames.append(frame)
        status = self._judge(frame)
        return frames.encode(
            frames.Acknowledgement(
                1,
                status,
                self.epoch,
                *self._ledger.numbers(frame.producer),
                self.interval_ms,
                self.reason,
                self.unknown if status is Status.OK else (),
            )
        )

    def _judge(self, frame: frames.Frame) -> Status:
        if self.refused is not None and any(map(self.refused, frame.records)):
            return Status.REFUSED
        status = self._ledger.judge(frame, self.epoch, START_MS)
        if self.status is not None:
            return self.status
        if status is Status.OK and not self._ledger.is_duplicate(frame):
            self._ledger.applied(frame)
            self.applied.extend(frame.records)
        return status


class FakeHandle:
    """A way to a collector whose calls are answered when polled.

    `away`: calls fail undelivered. `deaf`: delivered, but the answer is lost. `mute`: no
    call ends. `broken`: it raises, and its calls are gone. `late`: the one call that does
    not end yet. `most` is the largest number of frames that were in flight at once.
    """

    def __init__(self, ingest: Callable[[bytes], bytes]) -> None:
        self.ingest = ingest
        self.away = False
        self.deaf = False
        self.mute = False
        self.broken = False
        self._never = threading.Event()
        self.sizes: list[int] = []
        self.most = 0
        self.late: object | None = None
        self.calls: dict[object, bytes] = {}

    def send(self, frame: bytes) -> object:
        """Start a call."""
        if self.broken:
            raise RuntimeError("a handle of foreign make")
        ticket = object()
        self.calls[ticket] = frame
        self.sizes.append(len(frame))
        self.most = max(self.most, len(self.calls))
        return ticket

    def poll(
        self, tickets: Sequence[object], timeout_s: float
    ) -> list[tuple[object, bytes | None]]:
        """End the given calls, in order."""
        if self.broken:
            self.calls.clear()
            raise RuntimeError("a handle of foreign make")
        if self.mute:
            self._never.wait(timeout_s)
            return []
        ended = [ticket for ticket in tickets if ticket is not self.late]
        return [(ticket, self._finish(self.calls.pop(ticket))) for ticket in ended]

    def _finish(self, frame: bytes) -> bytes | None:
        if self.away:
            return None
        answer = self.ingest(frame)
        return None if self.deaf else answer


class FakeStore:
    """One run's storage in memory: revisions, rows, topology, under one writer epoch.

    `away`: unreachable. `lost`: the next commits are done and reported as failed.
    `fenced`: the run is another's. `fault`: raised by the next calls. `cost_ms` is what a
    publication takes on the clock.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.away = False
        self.lost = 0
        self.fenced = False
        self.fault: Exception | None = None
        self.cost_ms = 0
        self.calls: list[str] = []
        self.publications: list[Publication] = []
        self.times: list[int] = []
        self.rows: dict[int, Detail] = {}
        self.summary: Summary | None = None
        self.revisions = Revisions()
        self.writer_epoch = 0
        self.is_closed = False
        self._staged: dict[int, Candidate] = {}

    def begin(self) -> Begun | Fenced:
        """Raise the writer epoch."""
        self._enter("begin")
        if self.fenced:
            return Fenced("task")
        self.writer_epoch += 1
        return Begun(
            run_pk=1,
            writer_epoch=self.writer_epoch,
            revisions=self.revisions,
            rows=len(self.rows),
            bytes=0,
            manifest_id=None,
        )

    def load(self) -> Standing:
        """Return nothing: this store is no collector's second."""
        self._enter("load")
        return Standing()

    def stage(self, candidate: Candidate) -> Staged | Fenced | Moved:
        """Keep the one candidate."""
        self._enter("stage")
        version = candidate.manifest.version
        if self.fenced:
            return Fenced("task")
        if version <= self.revisions.topology:
            return Moved(self.revisions)
        self._staged = {version: candidate}
        return Staged(version)

    def publish(self, publication: Publication) -> Outcome:
        """Apply a publication that stands on the revisions held."""
        self._enter("publish")
        self.clock.advance(self.cost_ms)
        if self.fenced:
            return Fenced("task")
        if publication.base != self.revisions:
            return Moved(self.revisions)
        self._apply(publication)
        if self.lost:
            self.lost -= 1
            raise StorageUnavailable("The answer to a commit was lost.")
        return Published(len(self.rows), 0)

    def discard(self) -> None:
        """Forget the candidate."""
        self._enter("discard")
        self._staged = {}

    def close(self) -> None:
        """Note that the connections were given back."""
        self.is_closed = True

    def _enter(self, call: str) -> None:
        self.calls.append(call)
        if self.fault is not None:
            raise self.fault
        if self.away:
            raise StorageUnavailable

    def _apply(self, publication: Publication) -> None:
        if publication.candidate is not None:
            del self._staged[publication.candidate.manifest.version]
        rows = publication.rows
        for ordinal, record in zip(rows.ordinals, rows.records, strict=True):
            self.rows[ordinal] = records.decode_detail(record)
        self.summary = summary.decode(publication.summary)
        self.revisions = publication.after
        self.publications.append(publication)
        self.times.append(self.clock.now_ms)


class FakeAdapter:
    """An adapter whose engine does as it is told: `says` by action, else what is good.

    `dispatched` are the actions in order; each takes one millisecond of the clock.
    """

    GOOD: ClassVar = {
        ActionKind.VALIDATE: CallbackKind.VALIDATED,
        ActionKind.PREPARE: CallbackKind.PREPARED,
        ActionKind.ADMIT: CallbackKind.ADMITTED,
        ActionKind.SUBMIT: CallbackKind.SUBMITTED,
        ActionKind.CONSUME_OUTPUT: CallbackKind.OUTPUT_CONSUMED,
        ActionKind.RELEASE_CAPACITY: CallbackKind.CAPACITY_RELEASED,
        ActionKind.CANCEL: CallbackKind.CANCELLED,
        ActionKind.DRAIN_INVOCATION: CallbackKind.DRAINED,
        ActionKind.DRAIN_SESSION: CallbackKind.DRAINED,
        ActionKind.CHECK_HEALTH: CallbackKind.HEALTHY,
        ActionKind.TEARDOWN: CallbackKind.TORN_DOWN,
    }

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.says: dict[ActionKind, CallbackKind] = {}
        self.dispatched: list[Action] = []

    def dispatch(self, action: Action) -> Callback:
        """Answer the action."""
        self.dispatched.append(action)
        kind = self.says.get(action.kind, self.GOOD[action.kind])
        return answer(action, kind, self.clock.advance(1))


class FakeEngine(FakeAdapter):
    """A session's engine without one: two methods in a row, and as many slots as wanted.

    `during` is called when an action of a kind is performed, before it is answered.
    """

    def __init__(self, clock: FakeClock, outputs: int = 1) -> None:
        super().__init__(clock)
        self.error: BaseException | None = None
        self.values: dict[int, object] = {}
        self.settled: dict[int, tuple[int, ...]] = {}
        self.methods = (Method("a", None, ()), Method("b", None, (0,)))
        self.slots = (1,) * outputs
        self.during: dict[ActionKind, Callable[[], object]] = {}
        self.released = 0
        self._given: object = None

    def offer(self, value: object) -> None:
        """Take the next input."""
        self._given = value
        self.error = None
        self.values, self.settled = {}, {}

    def release(self) -> None:
        """Count how often the rest was to be ended."""
        self.released += 1

    def dispatch(self, action: Action) -> Callback:
        """Let a test do something meanwhile, then answer."""
        meanwhile = self.during.get(action.kind)
        if meanwhile is not None:
            meanwhile()
        told = super().dispatch(action)
        if told.kind is CallbackKind.OUTPUT_CONSUMED and action.output is not None:
            self.values[action.output] = self._given
            self.settled[action.output] = ()
        return told


class FakeNews:
    """Keeps what an owner tells."""

    def __init__(self) -> None:
        self.states: list[CompiledGraphSessionState] = []
        self.begun: list[int] = []
        self.ends: list[tuple[NodeState, ...]] = []

    def moved(self, state: CompiledGraphSessionState) -> None:
        """Note a state."""
        self.states.append(state)

    def began(self, number: int, _at_ms: int) -> None:
        """Note an invocation."""
        self.begun.append(number)

    def ended(
        self, states: tuple[NodeState, ...], _at_ms: int, _error: BaseException | None
    ) -> None:
        """Note its end."""
        self.ends.append(states)


class FakeMeter:
    """Keeps what is told, as Ray's metrics would come to; strict about the table."""

    def __init__(self) -> None:
        self.counters: Counter[tuple[str, str]] = Counter()
        self.gauges: dict[tuple[str, str], float] = {}
        self.observed: list[tuple[str, float]] = []

    def add(self, name: str, number: float, value: str = "") -> None:
        """Add to a counter."""
        assert number >= 0
        if number:
            assert BY_NAME[name].kind is Kind.counter
            self.counters[name, BY_NAME[name].closed(value)] += int(number)

    def set(self, name: str, number: float, value: str = "") -> None:
        """Set a gauge."""
        assert BY_NAME[name].kind is Kind.gauge
        self.gauges[name, BY_NAME[name].closed(value)] = number

    def observe(self, name: str, number: float) -> None:
        """Keep one observation."""
        assert BY_NAME[name].kind is Kind.histogram
        self.observed.append((name, number))
