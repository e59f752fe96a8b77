"""The tasks of one call in flight: submits, waits, finds out how each ended, cancels.

Only references to the small status returns are waited for, and read where they lie: what a
task returned is never fetched to know that it is there.

Ray 2.60 can abort a process that cancels a task just after it was submitted. So
cancelling stops submission, lets `PAUSE_S` go by, then cancels what is in flight.
"""

import threading
import time
from collections.abc import Sequence
from typing import cast

import ray
from ray.exceptions import RayError

from actors import internals, leaf
from actors.coordinator import Coordinator, require_window
from actors.functions import Function, Method
from actors.values import Given, Reference, Stream, references

PAUSE_S = 0.1
"""From the last submission to the first cancellation."""

GRACE_S = 2.0
"""From the cancellation of tasks to the end of the worker processes that ignore it."""

FORCED_S = 1.0
WAIT_S = 1.0
"""The longest wait of ours, so that a stopped run is noticed."""

BATCH_S = 0.005
BATCH = 8
"""One share of the window is waited for at once, but never longer than `BATCH_S`: fewer
waits leave the coordinator's time to submission, and the rest of the window keeps every
worker busy."""

POLL_S = 0.002
"""How long ago the last look must be for another that does not wait."""


class Flight:
    """One submitted node: `value` is its reference, a list of them, or of a stream a tuple.

    `error` is set when it has ended without success.
    """

    __slots__ = (
        "ended",
        "error",
        "has_status",
        "is_method",
        "ordinal",
        "place",
        "stream",
        "value",
        "waited",
    )

    def __init__(self, ordinal: int, place: int) -> None:
        self.ordinal = ordinal
        self.place = place
        self.value: object = None
        self.waited: Reference | None = None
        self.stream: ray.ObjectRefGenerator[object] | None = None
        self.error: Exception | None = None
        self.ended = False
        self.has_status = False
        self.is_method = False

    @property
    def task_id(self) -> bytes:
        """Return the id of the Ray task."""
        return cast(Reference, self.waited).task_id().binary()

    @property
    def is_small(self) -> bool:
        """Claim that the task has succeeded and its one value is in this process."""
        return (
            self.ended
            and isinstance(self.value, ray.ObjectRef)
            and internals.is_inline(self.value)
        )

    def take(self, submitted: object, returns: int, has_status: bool) -> Reference:
        """Keep what Ray returned for the task; return the reference to wait for."""
        self.has_status = has_status
        if returns == leaf.STREAMING:
            self.stream = cast("ray.ObjectRefGenerator[object]", submitted)
            self.waited = self.stream.completed()
        elif isinstance(submitted, list):
            self.waited = submitted[-1]
            values = submitted[:-1] if has_status else submitted
            self.value = values if returns > 1 else values[0]
        else:
            self.waited = cast(Reference, submitted)
            self.value = self.waited if returns == 1 else None
        return self.waited


class Window:
    """The tasks of one call in flight; its caller's thread alone submits and waits."""

    def __init__(self, coordinator: Coordinator, max_in_flight: int | None) -> None:
        self.limit = (
            coordinator.max_in_flight
            if max_in_flight is None
            else require_window(max_in_flight)
        )
        self._coordinator = coordinator
        self._pending: dict[Reference, Flight] = {}
        # Re-entrant, and there at all, because the run's end cancels from its own thread.
        self._lock = threading.RLock()
        self._submitted_s = 0.0
        self._waited_s = 0.0
        self._cancelled = False
        coordinator.opened(self)

    @property
    def in_flight(self) -> int:
        """Count the tasks that have not ended."""
        return len(self._pending)

    @property
    def has_room(self) -> bool:
        """Claim that another task may be submitted."""
        return len(self._pending) < self.limit

    def submit(
        self,
        flight: Flight,
        function: Function | Method,
        args: Sequence[object],
        kwargs: dict[str, object],
    ) -> None:
        """Give a registered node to Ray; one that Ray does not take has failed."""
        coordinator = self._coordinator
        if self._is_over():
            coordinator.cancelled(flight.ordinal)
            raise KeyboardInterrupt
        flight.is_method = isinstance(function, Method)
        if flight.is_method:
            coordinator.announce()
        self._submitted_s = time.monotonic()
        try:
            if function.has_status:
                place = coordinator.place(flight.ordinal)
                submitted = function.remote(place, *args, **kwargs)
            else:
                submitted = function.remote(*args, **kwargs)
        except Exception as exc:
            # The arguments are the user's: one item of many must not stop the rest.
            self.fail(flight, exc)
            return
        waited = flight.take(submitted, function.returns, function.has_status)
        with self._lock:
            self._pending[waited] = flight
        coordinator.submitted(
            flight.ordinal, flight.task_id if flight.is_method else None
        )
        if self._is_over():
            # The end came while Ray took the task, and has not seen it.
            self.cancel()
            raise KeyboardInterrupt

    def fail(self, flight: Flight, error: Exception) -> None:
        """Report that a node has failed, also one that Ray never took."""
        flight.ended = True
        flight.error = error
        internals.mark_seen(list(references(flight.value)))
        flight.value = None
        if self._cancelled:
            self._coordinator.cancelled(flight.ordinal)
        else:
            self._coordinator.failed(flight.ordinal, error)

    def settle(self) -> list[Flight]:
        """Wait until tasks have ended, at most a second, and return those."""
        waiting = self._waiting()
        batch = len(waiting) // BATCH
        if batch > 1:
            ended, rest = _wait(waiting, batch, BATCH_S)
            if ended:
                if rest and len(ended) == batch:
                    ended += _wait(rest, len(rest), 0)[0]
                return self._close(ended)
        closed = self._close(_wait(waiting, 1, WAIT_S)[0])
        if self._is_over():
            raise KeyboardInterrupt
        return closed

    def poll(self) -> None:
        """Take note of tasks that have ended, unless that was done just now."""
        if self._is_over():
            raise KeyboardInterrupt
        if self._pending and time.monotonic() - self._waited_s > POLL_S:
            waiting = self._waiting()
            self._close(_wait(waiting, len(waiting), 0)[0])

    def cancel(self) -> None:
        """Cancel what is in flight and wait, within bounds, until it has ended.

        Nothing can be submitted from now on; called with nothing in flight it is free.
        """
        self._cancelled = True
        if self._pending:
            self._cancel()
        # Last: what interrupts this leaves the rest to the run's end.
        self._coordinator.closed(self)

    def _cancel(self) -> None:
        time.sleep(max(0.0, self._submitted_s + PAUSE_S - time.monotonic()))
        for force, patience in ((False, GRACE_S), (True, FORCED_S)):
            asked = [self._ask(waited, force) for waited in self._waiting()]
            if any(asked):
                self._drain(patience)
        with self._lock:
            for waited in self._waiting():
                flight = self._pending.pop(waited)
                flight.ended = True
                self._coordinator.cancelled(flight.ordinal)

    def _ask(self, waited: Reference, force: bool) -> bool:
        """Cancel one task; say False where there is nothing to ask for.

        A method that does not end by itself is abandoned: Ray ends no actor for it.
        """
        flight = self._pending.get(waited)
        if flight is None or (force and flight.is_method):
            return False
        _cancel(flight, force=force)
        return True

    def _drain(self, patience: float) -> None:
        until = time.monotonic() + patience
        while self._pending and (left := until - time.monotonic()) > 0:
            self._close(_wait(self._waiting(), 1, left)[0])

    def _waiting(self) -> list[Reference]:
        with self._lock:
            return list(self._pending)

    def _is_over(self) -> bool:
        """Claim that the run has ended meanwhile, in another thread than the caller's."""
        return self._cancelled or self._coordinator.stopped

    def _close(self, ended: Sequence[Reference]) -> list[Flight]:
        """Report the ends of tasks, and return those that were not known to have ended."""
        self._waited_s = time.monotonic()
        closed = []
        with self._lock:
            known = [ref for ref in ended if ref in self._pending]
            held = internals.raw(known)
            for ref, data in zip(known, held, strict=True):
                flight = self._pending[ref]
                if data is None or flight.stream is not None or not flight.has_status:
                    self._look(flight)
                else:
                    self._succeed(flight, leaf.decode_status(data))
                del self._pending[ref]
                closed.append(flight)
        return closed

    def _look(self, flight: Flight) -> None:
        """Find out how a task has ended whose status is not at hand."""
        try:
            status = self._status(flight)
        except Exception as exc:
            # Any error of the user's function comes out of here.
            self.fail(flight, exc)
        else:
            self._succeed(flight, status)

    def _status(self, flight: Flight) -> leaf.Status | None:
        ref = cast(Reference, flight.waited)
        if flight.stream is not None:
            _get(ref)
            items = tuple(flight.stream)
            flight.stream = None
            if flight.has_status:
                flight.value = Stream(items[:-1])
                return leaf.decode_status(cast(bytes, _get(items[-1])))
            flight.value = Stream(items)
            if not items:
                return None
            ref = items[-1]
        if flight.has_status:
            return leaf.decode_status(cast(bytes, _get(ref)))
        if internals.is_failure(ref):
            _get(ref)
        return None

    def _succeed(self, flight: Flight, status: leaf.Status | None) -> None:
        flight.ended = True
        self._coordinator.succeeded(flight.ordinal, status)


def fetch(value: object) -> object:
    """Return the values behind the references of a result; a stream keeps its own."""
    kind = type(value)
    if isinstance(value, ray.ObjectRef):
        return ray.get(value)
    if kind is Given:
        return cast(Given, value).value
    if kind is Stream:
        return tuple(cast(Stream, value))
    if kind is list:
        items = cast("list[object]", value)
        if all(isinstance(item, ray.ObjectRef) for item in items):
            return ray.get(cast("list[Reference]", items))
        return [fetch(item) for item in items]
    if kind is tuple:
        return tuple(fetch(item) for item in cast("tuple[object, ...]", value))
    if kind is dict:
        pairs = cast("dict[object, object]", value).items()
        return {fetch(key): fetch(item) for key, item in pairs}
    return value


def _wait(
    waiting: list[Reference], number: int, timeout: float
) -> tuple[list[Reference], list[Reference]]:
    if not waiting:
        # Ray refuses to wait for nothing, and the run's end may have taken it all.
        return [], []
    return ray.wait(waiting, num_returns=number, timeout=timeout, fetch_local=False)


def _get(ref: Reference) -> object:
    return ray.get(ref)


def _cancel(flight: Flight, *, force: bool) -> None:
    target = flight.stream if flight.stream is not None else flight.waited
    try:
        ray.cancel(cast(Reference, target), force=force)
    except RayError:
        # It has ended meanwhile, or its owner's record is gone: the wait tells.
        return
