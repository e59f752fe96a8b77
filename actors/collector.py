"""Applies a run's frames and answers each; a plain class, made remote by `remote`.

One lock guards the run's picture. The actor's thread holds it while it applies a frame, the
publisher's thread while it takes what changed and while it marks that committed: never
while a frame is parsed, rows are encoded or anything is stored. Contract 4.4 to 4.7.

A mark is committed only by a publication that held nothing back: a node that waits for its
topology is not in PostgreSQL, so its producer must keep it although counters went on.

A collector whose run another has written before starts over from what that one stored, as
soon as it is read back: what it was told until then is told again. Contract 4.6.
"""

import logging
import threading
from collections import Counter
from dataclasses import dataclass, replace

import msgspec

from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.progress.delta import Delta
from django_ray.progress.ledger import Ledger, Mark, Marks
from django_ray.progress.model import Model
from django_ray.progress.pace import Pace
from django_ray.progress.standing import Standing
from django_ray.protocol import frames
from django_ray.protocol.frames import Acknowledgement, Frame, ProducerKind, Status
from django_ray.protocol.limits import V1
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import ReportingPolicy

REASONS = 32
"""Distinct reasons that are counted by name; any further ones as `other`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one publication has in hand: the changes, and the marks they carry."""

    delta: Delta
    marks: Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a collector has counted so far, and how it stands.

    `records` are by what became of each, `frames` by status and reason. `lag_ms` is how old
    the oldest frame is that no publication has covered; `resumed` that another wrote the run
    before.
    """

    nodes: NodeCounts
    records: dict[str, int]
    frames: dict[str, int]
    frame_bytes: int
    producers: int
    lag_ms: int
    resumed: bool
    fenced: bool


class Collector:
    """One run's progress, in one process."""

    def __init__(self, settings: RunSettings, pace: Pace, now_ms: int) -> None:
        self.settings = settings
        self._pace = pace
        self._wake = threading.Event()
        self._watched = False
        self._news = False
        self._held = False
        self._lock = threading.Lock()
        self._model = Model(settings)
        self._ledger = Ledger(settings.limits)
        self._tallies: Counter[str] = Counter()
        self._epoch = 0
        self._fenced: str | None = None
        self._heard_ms = now_ms
        self._longest_ms = 0
        self._bytes = 0
        self._resumed = False
        self._waits_ms: int | None = None
        self._taken_ms: int | None = None
        self._is_terminal_only = settings.policy is ReportingPolicy.terminal_only

    def ingest(self, data: bytes, now_ms: int) -> Acknowledgement:
        """Apply one frame and answer it; whatever the bytes are, never raise."""
        self._bytes += len(data)
        if self._fenced is not None:
            return self._refusal(Status.FENCED, self._fenced)
        try:
            frame = frames.decode(data)
            self._require_own(frame)
        except LimitExceeded as exc:
            return self._refusal(Status.REFUSED, exc.boundary)
        except ProtocolError as exc:
            return self._refusal(Status.REFUSED, exc.reason)
        with self._lock:
            ended = self.has_ended
            answer = self._judge(frame, now_ms)
            self._news = True
            if self._waits_ms is None:
                self._waits_ms = now_ms
            if self._watched or self.has_ended is not ended:
                self._wake.set()
        return answer

    def refuse(self, boundary: str) -> Acknowledgement:
        """Answer a frame that was not read at all, since it is over a limit."""
        if self._fenced is not None:
            return self._refusal(Status.FENCED, self._fenced)
        return self._refusal(Status.REFUSED, boundary)

    def opened(self, writer_epoch: int) -> None:
        """Note the epoch under which this collector writes; answers carry it."""
        with self._lock:
            self._epoch = writer_epoch

    def resume(self, standing: Standing, writer_epoch: int, now_ms: int) -> None:
        """Go on, under this epoch, from what another collector of the run has stored."""
        model, ledger = Model(self.settings), Ledger(self.settings.limits)
        model.resume(standing)
        left = standing.bequest
        mark = None
        if left is not None and left.producer:
            mark = Mark(bytes.fromhex(left.producer), left.applied)
        ledger.resume(mark, now_ms)
        with self._lock:
            self._model, self._ledger = model, ledger
            self._resumed = True
            self._held = True
            self._epoch = writer_epoch

    def fence(self, reason: str) -> None:
        """Answer FENCED from now on: this run is no longer this collector's."""
        with self._lock:
            self._fenced = self._fenced or reason
        self._wake.set()

    def take(self, now_ms: int) -> Taken | None:
        """Hand out what changed and is not handed out yet; None when nothing did.

        What was applied and changed nothing is committed with what it repeats.
        """
        with self._lock:
            self._news = False
            marks = self._ledger.marks()
            delta = self._model.take(now_ms)
            self._taken_ms, self._waits_ms = self._waits_ms, None
            if delta is not None:
                return Taken(_marked(delta, self._ledger.coordinator), marks)
            self._taken_ms = None
            if self._model.is_over or not (self._held or self._is_terminal_only):
                self._ledger.commit(marks)
        return None

    def settle(self, taken: Taken) -> None:
        """Note that what was taken is committed."""
        with self._lock:
            self._model.settle(taken.delta)
            self._taken_ms = None
            self._held = bool(taken.delta.waiting)
            if not self._held:
                self._ledger.commit(taken.marks)

    def restore(self, taken: Taken) -> None:
        """Take back what could not be published: it is changed again."""
        with self._lock:
            self._model.restore(taken.delta)
            if self._taken_ms is not None:
                self._taken_ms, self._waits_ms = None, self._taken_ms

    def wait(self, timeout_ms: int, *, watch: bool) -> None:
        """Wait for the run's end, the fence or `rouse`; when watching, for any frame.

        So a publisher that rests after a publication is not woken by every frame.
        """
        with self._lock:
            self._watched = watch
            ready = watch and self._news
        if not ready:
            self._wake.wait(timeout_ms / 1_000)
        with self._lock:
            self._watched = False
            self._wake.clear()

    def rouse(self) -> None:
        """End a wait now."""
        self._wake.set()

    @property
    def changed_rows(self) -> int:
        """Count the detail rows that a publication would write now, at the most."""
        with self._lock:
            return self._model.changed_rows

    def silence_ms(self, now_ms: int) -> int:
        """Return how long the coordinator has said nothing."""
        return max(0, now_ms - self._heard_ms)

    @property
    def longest_interval_ms(self) -> int:
        """Return the longest interval that a producer was told so far."""
        return self._longest_ms

    @property
    def has_ended(self) -> bool:
        """Claim that the coordinator has told the run's end."""
        return self._model.ended is not None

    @property
    def is_over(self) -> bool:
        """Claim that the run's end is committed."""
        return self._model.is_over

    @property
    def is_fenced(self) -> bool:
        """Claim that this run is another's now."""
        return self._fenced is not None

    def status(self, now_ms: int) -> dict[str, int | str]:
        """Return a few facts for a dashboard or a log line."""
        with self._lock:
            counts = self._model.tallies | self._tallies
            return {
                **counts,
                "fenced": self._fenced or "",
                "producers": len(self._ledger),
                "silence_ms": self.silence_ms(now_ms),
                "writer_epoch": self._epoch,
            }

    def facts(self, now_ms: int) -> Facts:
        """Return what metrics tell of this collector."""
        with self._lock:
            oldest = self._waits_ms if self._taken_ms is None else self._taken_ms
            return Facts(
                nodes=self._model.counts,
                records=dict(self._model.tallies),
                frames=dict(self._tallies),
                frame_bytes=self._bytes,
                producers=len(self._ledger),
                lag_ms=0 if oldest is None else max(0, now_ms - oldest),
                resumed=self._resumed,
                fenced=self.is_fenced,
            )

    def _require_own(self, frame: Frame) -> None:
        identity = self.settings.identity
        if frame.run_id != identity.run_id:
            raise ProtocolError("foreign_run")
        if frame.generation != identity.execution_generation:
            raise ProtocolError("foreign_generation")

    def _judge(self, frame: Frame, now_ms: int) -> Acknowledgement:
        self._count("frames")
        if frame.kind is ProducerKind.coordinator:
            self._heard_ms = now_ms
        status = self._ledger.judge(frame, self._epoch, now_ms)
        unknown: list[bytes] = []
        reason = ""
        if status is not Status.OK:
            self._count(status.lower())
        elif self._ledger.is_duplicate(frame):
            self._count("duplicate_frames")
        else:
            try:
                status, unknown = self._apply(frame, now_ms)
            except Exception:
                # A fault of the model must not end the run: the frame stays unapplied.
                status, reason = Status.REFUSED, "fault"
                if not self._tallies[reason]:
                    logger.exception("A frame could not be applied.")
                self._count(reason)
        applied, committed = self._ledger.numbers(frame.producer)
        return Acknowledgement(
            1,
            status,
            self._epoch,
            applied,
            committed,
            self._interval_ms(frame.kind),
            reason,
            tuple(unknown),
        )

    def _apply(self, frame: Frame, now_ms: int) -> tuple[Status, list[bytes]]:
        """Apply the records; return the Ray tasks that no node is known for yet."""
        tallies = self._model.tallies
        early, left_out = tallies["early"], tallies["unknown_node"]
        unknown = self._model.apply_all(frame.records, now_ms)
        if (
            frame.kind is not ProducerKind.coordinator
            and tallies["unknown_node"] > left_out
        ):
            # No room for what came before its node: its own process has it, and waits.
            self._count("postponed")
            return self._ledger.postpone(frame), []
        self._ledger.applied(frame)
        if tallies["early"] > early:
            # In no row yet, and kept in this process alone.
            self._ledger.hold(frame.producer)
        elif self._model.is_over or not self._model.has_early:
            self._ledger.release()
        return Status.OK, unknown

    def _refusal(self, status: Status, reason: str) -> Acknowledgement:
        """Answer a frame that was not read, under a reason of bounded variety."""
        with self._lock:
            self._count(status.lower())
            self._count(reason)
            interval = self._interval_ms(ProducerKind.worker)
            epoch = self._epoch
        return Acknowledgement(
            1, status, epoch, 0, 0, interval, reason[: V1.metric_key]
        )

    def _interval_ms(self, kind: ProducerKind) -> int:
        told = self._pace.interval_ms(kind, len(self._ledger))
        self._longest_ms = max(self._longest_ms, told)
        return told

    def _count(self, key: str) -> None:
        known = key in self._tallies or len(self._tallies) < REASONS
        self._tallies[key if known else "other"] += 1


def _marked(delta: Delta, mark: Mark | None) -> Delta:
    """Let a delta say up to which frame of the coordinator all is in it."""
    if mark is None:
        return delta
    left = msgspec.structs.replace(
        delta.bequest, producer=mark.producer.hex(), applied=mark.applied
    )
    return replace(delta, bequest=left)
