"""The one conversation of a producer with its collector: numbers, window, answers, pace.

Contract 4.4 to 4.6. Records may be repeated, frames are not: when a call fails, all that is
not committed goes into new frames, in order. Whether its frame was applied cannot be known,
nor whether a later one was accepted behind a RESYNC that got lost; so no mark is believed
past a frame that is not answered. RESYNC does the same, and a coordinator tells the whole
of its run with it: its callback's records in front, two marks between and behind. A
collector that has not read back yet what the one before it stored asks to wait instead. A
refused frame is halved until the one record that does not pass is found, given up and
counted. A collector that another has replaced is left for that one.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec

from actors.clock import backoff_ms
from actors.kept import Kept
from django_ray.errors import ProtocolError
from django_ray.protocol import frames
from django_ray.protocol.frames import Acknowledgement, ProducerKind, Status
from django_ray.protocol.limits import Limits

COORDINATOR_INTERVAL_MS = 50
WORKER_INTERVAL_MS = 500
INTERVAL_LEAST_MS = 10
"""What an answer may not go below: an interval of nothing would be a loop."""

KEEPALIVE_MS = 5_000
"""A coordinator with nothing to say says so this often: its collector leaves otherwise."""

PATIENCE_MS = 60_000
"""A worker's collector is gone when every call to it has failed for so long."""

HEADER = 128
"""Bytes of a frame left for everything but its records."""

BACK_MS = 1_000
"""A coordinator's longest pause: its collector is to be back within seconds."""

REFUSALS = 16
"""Refusals in a row that end the conversation; halving 1,024 records takes eleven."""

REPLACED = "writer_epoch"
"""Why a collector is fenced off that another one of the same run has replaced."""

_NEWS = frames.encode(frames.NEWS)
_RESENT = frames.encode(frames.RESENT)

logger = logging.getLogger(__name__)


class CollectorHandle(Protocol):
    """The way to a collector; a ticket stands for one call in flight."""

    def send(self, frame: bytes) -> object:
        """Start the call and return its ticket; never block.

        None says that the collector was there and is gone for good.
        """

    def poll(
        self, tickets: Sequence[object], timeout_s: float
    ) -> list[tuple[object, bytes | None]]:
        """Return the finished tickets with their answers, None for a failed call."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A frame without an answer: its number, and how many records it carries."""

    number: int
    records: int


class Link:
    """Sends what is kept and takes the answers; only the producer's driver calls it."""

    def __init__(
        self,
        *,
        run_id: str,
        generation: int,
        kind: ProducerKind,
        producer: bytes,
        handle: CollectorHandle,
        limits: Limits,
        kept: Kept,
        tallies: Counter[str],
        resync: Callable[[], Iterable[bytes]],
    ) -> None:
        self._run_id = run_id
        self._generation = generation
        self._kind = kind
        self._producer = producer
        self._handle = handle
        self._limits = limits
        self._kept = kept
        self._tallies = tallies
        self._resync = resync
        worker = kind is ProducerKind.worker
        self._size = (limits.worker_frame if worker else limits.frame_cut) - HEADER
        self._window = (
            limits.coordinator_window
            if kind is ProducerKind.coordinator
            else limits.worker_window
        )
        self._records = limits.frame_records
        self._flights: dict[object, Flight] = {}
        self._number = self._epoch = self._floor = self._since = 0
        self._begins = False
        self._failures = self._resyncs = self._refusals = 0
        self._sent_ms: int | None = None
        self._failing_ms: int | None = None
        self._hold: tuple[int, int] | None = None
        self.interval_ms = WORKER_INTERVAL_MS if worker else COORDINATOR_INTERVAL_MS
        self.silent = False
        self.gone = False

    @property
    def in_flight(self) -> int:
        """Count the frames without an answer."""
        return len(self._flights)

    @property
    def has_room(self) -> bool:
        """Claim that the window admits another frame."""
        # A beginning goes alone: a frame that overtook it would be taken for it.
        return len(self._flights) < (1 if self._begins else self._window)

    def due_in(self, now_ms: int, urgent: bool) -> int | None:
        """Return in how many milliseconds `send` has something to do; None: not yet."""
        if not self.has_room:
            return None
        if self._hold is not None and (left := _left(*self._hold, now_ms)):
            return left
        waits = [
            self._left_of(interval, now_ms)
            for interval in (self._quiet_ms(), self._pace_ms(urgent))
            if interval is not None
        ]
        return min(waits, default=None)

    def collect(self, now_ms: int, timeout_s: float) -> None:
        """Wait at most `timeout_s` for answers, and do what they say."""
        tickets = list(self._flights)
        if not tickets:
            return
        try:
            finished = self._handle.poll(tickets, timeout_s)
        except Exception:
            # The handle is foreign code; its failure is that of every call in flight.
            logger.debug("Polling the collector failed.", exc_info=True)
            finished = [(ticket, None) for ticket in tickets]
        for ticket, data in finished:
            flight = self._flights.pop(ticket, None)
            if flight is not None:
                self._answer(flight, data, now_ms)

    def send(self, now_ms: int, urgent: bool) -> None:
        """Send what is due, as far as the window goes."""
        while not self.silent and self.has_room and self.due_in(now_ms, urgent) == 0:
            self._hold = None
            self._cut(now_ms)
        if not self.silent and not self.has_room and self._kept.queued:
            self._tallies["window_refusals"] += 1

    def _quiet_ms(self) -> int | None:
        """Return the longest silence this producer may keep, None for any."""
        if self._kept.uncommitted and not self._flights:
            return self.interval_ms
        if self._kind is ProducerKind.worker or self._flights:
            return None
        return KEEPALIVE_MS

    def _pace_ms(self, urgent: bool) -> int | None:
        """Return the distance to keep from the last frame, None with nothing to send.

        A full frame of a coordinator goes at once: the window alone limits it. Workers
        keep their interval whatever they hold, so that their number sets no rate.
        """
        kept = self._kept
        if not kept.queued:
            return None
        if self._kind is not ProducerKind.worker and (
            urgent or kept.queued >= self._records or kept.queued_bytes >= self._size
        ):
            return 0
        return self.interval_ms

    def _left_of(self, interval_ms: int, now_ms: int) -> int:
        if self._sent_ms is None:
            return 0
        return _left(self._sent_ms, interval_ms, now_ms)

    def _cut(self, now_ms: int) -> None:
        """Send the next frame, empty where there is only a sign of life to give."""
        self._number += 1
        bodies = self._kept.cut(self._number, self._size, self._records)
        # An encoder writes raw bytes as they are, so a record is encoded only once.
        records = cast("tuple[frames.Record, ...]", tuple(map(msgspec.Raw, bodies)))
        frame = frames.Frame(
            1,
            self._run_id,
            self._generation,
            self._producer,
            self._kind,
            self._number,
            self._epoch,
            records,
        )
        flight = Flight(self._number, len(bodies))
        self._sent_ms = now_ms
        try:
            ticket = self._handle.send(frames.encode(frame))
        except Exception:
            logger.debug("Calling the collector failed.", exc_info=True)
            self._fail(now_ms)
            return
        if ticket is None:
            self._lose()
        else:
            self._flights[ticket] = flight

    def _answer(self, flight: Flight, data: bytes | None, now_ms: int) -> None:
        answer = _parse(data)
        if answer is None:
            self._fail(now_ms)
            return
        replaced, opening = _is_replaced(answer), _is_opening(answer)
        if not replaced:
            self._failing_ms = None
        if not replaced and not opening:
            self._failures = 0
        self._epoch = answer.writer_epoch
        self.interval_ms = max(answer.interval_ms, INTERVAL_LEAST_MS)
        for target in answer.unknown:
            self._kept.repeat(target)
        open_ = (other.number - 1 for other in self._flights.values())
        self._kept.commit(min(answer.committed, self._number, *open_))
        if answer.status is Status.OK:
            self._resyncs = self._refusals = 0
            self._begins = self._begins and flight.number <= self._since
            self._records = min(2 * self._records, self._limits.frame_records)
        elif replaced:
            self._fail(now_ms)
        elif opening:
            self._delay(now_ms)
        else:
            self._heed(flight, answer, now_ms)

    def _heed(self, flight: Flight, answer: Acknowledgement, now_ms: int) -> None:
        """Do what a collector says that did not take a frame."""
        match answer.status:
            case Status.RESYNC:
                self._restart(flight, answer.applied, now_ms)
            case Status.REFUSED:
                self._refuse(flight, answer.reason)
            case _:
                self._hush(answer.status.lower())

    def _lose(self) -> None:
        """Fall silent because there is no collector any more."""
        self.gone = True
        self._hush("its collector is gone")

    def _hush(self, reason: str) -> None:
        """Fall silent for good, and hold nothing any more."""
        logger.info("A producer falls silent: %s.", reason)
        self.silent = True
        self._flights.clear()
        self._kept.close()

    def _fail(self, now_ms: int) -> None:
        """Make what is not committed new: the collector is dead or away, wait a while."""
        if not self._tallies["failed_calls"]:
            logger.warning("A frame did not reach the collector; it is tried again.")
        self._tallies["failed_calls"] += 1
        if self._is_past_patience(now_ms):
            self._lose()
            return
        self._delay(now_ms)

    def _delay(self, now_ms: int) -> None:
        """Let all that is not committed wait for a collector that takes it."""
        self._kept.requeue(0)
        self._begin()
        if self._hold is None:
            self._failures += 1
            self._hold = (now_ms, self._pause_ms(self._failures))

    def _pause_ms(self, failures: int) -> int:
        pause = backoff_ms(failures)
        return pause if self._kind is ProducerKind.worker else min(pause, BACK_MS)

    def _is_past_patience(self, now_ms: int) -> bool:
        """Note a failed call; claim that a worker's have failed for too long.

        A coordinator goes on: its run has no other way to be seen.
        """
        since = self._failing_ms
        if since is None or now_ms < since:
            since = self._failing_ms = now_ms
        return self._kind is ProducerKind.worker and now_ms - since >= PATIENCE_MS

    def _restart(self, flight: Flight, applied: int, now_ms: int) -> None:
        """Make all that is not committed new; once for the frames of one window."""
        if flight.number <= self._floor:
            return
        if self._kind is ProducerKind.coordinator:
            self._tell_all(applied)
        else:
            self._kept.forget(applied)
        self._begin()
        self._floor = self._number
        self._tallies["resyncs"] += 1
        self._resyncs += 1
        self._hold = (
            (now_ms, self._pause_ms(self._resyncs - 1)) if self._resyncs > 1 else None
        )

    def _tell_all(self, applied: int) -> None:
        try:
            first = list(self._resync())
        except Exception:
            logger.exception("The coordinator's resync failed; latest values are sent.")
            first = []
        self._kept.restart(applied, first, _NEWS, _RESENT)

    def _refuse(self, flight: Flight, reason: str) -> None:
        """Narrow a refused frame down to the record that is at fault."""
        if not self._tallies["refused_frames"]:
            logger.warning("The collector refused a frame: %.64s.", reason)
        self._tallies["refused_frames"] += 1
        self._refusals += 1
        self._begin()
        if self._refusals > REFUSALS:
            self._hush("refused")
        elif flight.records > 1:
            self._kept.requeue(flight.number)
            self._records = flight.records // 2
        else:
            self._kept.discard(flight.number)

    def _begin(self) -> None:
        """Note that the next frame may be taken for a beginning by the collector."""
        self._begins = True
        self._since = self._number


def _is_replaced(answer: Acknowledgement) -> bool:
    return answer.status is Status.FENCED and answer.reason == REPLACED


def _is_opening(answer: Acknowledgement) -> bool:
    return answer.status is Status.RESYNC and not answer.writer_epoch


def _parse(data: bytes | None) -> Acknowledgement | None:
    if data is None:
        return None
    try:
        return frames.decode_acknowledgement(data)
    except ProtocolError:
        return None


def _left(since_ms: int, delay_ms: int, now_ms: int) -> int:
    """Return what is left of a delay; none when the clock was set back behind it."""
    if now_ms < since_ms:
        return 0
    return max(0, since_ms + delay_ms - now_ms)
