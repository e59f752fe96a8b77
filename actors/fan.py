"""Runs one function over many items, and yields the results in the items' order.

Two bounds hold: so many tasks in flight, and so many results submitted and not consumed, so
that neither a slow item nor a slow consumer stalls the workers or fills the memory. Only
the consumer's thread submits. Contract 4.10 and 4.11.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import cast

from ray.dag import FunctionNode

from actors import ids, internals, leaf
from actors.coordinator import Coordinator, require_window
from actors.functions import Function, Method
from actors.values import Given, references
from actors.window import Flight, Window, fetch
from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.protocol import text

UNCONSUMED = 4
LEAST_UNCONSUMED = 64
"""Results submitted and not yet consumed: so many times the window, or this if larger."""

TOGETHER = 16
"""Small results fetched at once."""

FILL_S = 0.002
"""Items are taken for so long while a result is there: a slow source holds none back."""


class Slot:
    """One item of a fan-out: a flight, or the error that kept it from being one."""

    __slots__ = ("index", "outcome")

    def __init__(self, index: int, outcome: Flight | Exception) -> None:
        self.index = index
        self.outcome = outcome

    @property
    def is_ended(self) -> bool:
        """Claim that the item's result can be told."""
        return not isinstance(self.outcome, Flight) or self.outcome.ended


def fan_out(
    coordinator: Coordinator,
    function: object,
    items: Iterable[object],
    *,
    max_in_flight: int | None,
    key: Callable[[object], object] | None,
    group: str | None,
    refs: bool,
    fail: Callable[[int, str], object] | None,
) -> Iterator[object]:
    """Return an iterator of one task's result for each item, in the items' order.

    The call has its number at once; nothing is registered before the iterator is asked.
    `fail` makes what is yielded in a failed item's place; without it the error is raised.
    """
    if max_in_flight is not None:
        require_window(max_in_flight)
    if not isinstance(group, str | None):
        raise ConfigurationError("group is not text.")
    work = _work(coordinator, function)
    fan = Fan(coordinator, coordinator.begin(), work, items, key, group)
    return fan.results(max_in_flight, refs, fail)


@dataclass(frozen=True, slots=True)
class Work:
    """What is called with each item, its path, and the name its options give it."""

    function: Function | Method
    path: str
    name: str | None


def _work(coordinator: Coordinator, function: object) -> Work:
    bound = internals.bound(function)
    if bound is not None:
        actor, name, options = bound
        returns = leaf.number(options["num_returns"])
        path = ids.shown(f"{internals.class_path(actor)}.{name}")
        return Work(Method(actor, name, options, returns), path, ids.name(options))
    node = function.bind() if hasattr(function, "bind") else None
    if not isinstance(node, FunctionNode):
        raise GraphRefused(
            "fan_out takes a function made with ray.remote, or a method of an actor"
        )
    body, options = internals.body(node), internals.options(node)
    made = coordinator.function(body, options, named=True)
    return Work(made, ids.path(body), ids.name(options))


class _Thread(threading.local):
    """Tells threads apart without a lock; their numbers are used again."""

    def __init__(self) -> None:
        self.mark = object()


_thread = _Thread()


class Fan:
    """One fan-out on its way; its consumer's thread alone submits."""

    def __init__(
        self,
        coordinator: Coordinator,
        call: int,
        work: Work,
        items: Iterable[object],
        key: Callable[[object], object] | None,
        group: str | None,
    ) -> None:
        path = work.path
        self._coordinator = coordinator
        self._function = work.function
        self._call = call
        self._items = items
        self._key = key
        self._label = path if work.name is None else work.name
        self._stage = path if group is None else group
        self._name = text.label(path, ids.ID_PATH) if group is None else group
        self._order: deque[Slot] = deque()
        self._count = 0
        self._broken: Exception | None = None

    def results(
        self,
        max_in_flight: int | None,
        refs: bool,
        fail: Callable[[int, str], object] | None,
    ) -> Generator[object, None, None]:
        """Yield each item's result, or what `fail` makes of its error."""
        coordinator, order = self._coordinator, self._order
        source: Iterator[object] | None = iter(self._items)
        known = _size(self._items)
        if known is not None:
            coordinator.declare(self._call, known)
        window: Window | None = None
        consumer = _thread.mark
        try:
            window = Window(coordinator, max_in_flight)
            while True:
                window.poll()
                source = self._fill(window, source)
                if not order:
                    break
                while not order[0].is_ended:
                    window.settle()
                    source = self._fill(window, source)
                if not refs:
                    self._fetch_small()
                yield self._result(order.popleft(), refs, fail)
                consumer = _thread.mark
        finally:
            # The garbage collector ends a forgotten iterator on any thread, whatever
            # locks that holds: then all this is left to the run's end.
            if window is not None and consumer is _thread.mark:
                window.cancel()
                if source is not None or self._broken is not None:
                    coordinator.declare(self._call, self._count)
        if self._broken is not None:
            raise self._broken

    def _fill(
        self, window: Window, source: Iterator[object] | None
    ) -> Iterator[object] | None:
        """Submit while both bounds have room; return None when there are no more items."""
        order = self._order
        bound = max(UNCONSUMED * window.limit, LEAST_UNCONSUMED)
        until = time.monotonic() + FILL_S
        while source is not None and window.has_room and len(order) < bound:
            try:
                item = next(source)
            except StopIteration:
                return None
            except Exception as exc:
                # The items are the user's: what came before is yielded, then this.
                self._broken = exc
                return None
            order.append(self._submit(window, item))
            if time.monotonic() > until:
                window.poll()
                if order[0].is_ended:
                    break
        return source

    def _submit(self, window: Window, item: object) -> Slot:
        index, coordinator = self._count, self._coordinator
        self._count += 1
        sources: list[int] = []
        try:
            name = index if self._key is None else _checked(self._key(item))
            if coordinator.has_handed_out:
                sources = coordinator.nodes_of(references(item))
            ordinal = coordinator.register(
                f"{self._call}.{self._name}[{name}]", self._label, self._stage, sources
            )
        except Exception as exc:
            # The key is the user's: one item's fault is told in its place.
            return Slot(index, exc)
        flight = Flight(ordinal, index)
        window.submit(flight, self._function, (item,), {})
        return Slot(index, flight)

    def _fetch_small(self) -> None:
        """Fetch the next results together as far as they are there and small.

        Asked for one by one each costs twice as much; what is in the owner's memory is
        at most 100 KiB, so a few of them ahead of their turn weigh nothing.
        """
        flights = []
        for slot in itertools.islice(self._order, TOGETHER):
            flight = slot.outcome
            if not isinstance(flight, Flight) or not flight.is_small:
                break
            flights.append(flight)
        if len(flights) < 2:
            return
        try:
            values = fetch([flight.value for flight in flights])
        except Exception:
            # One of them cannot be unpickled here: its own turn will tell which.
            return
        for flight, value in zip(flights, cast("list[object]", values), strict=True):
            flight.value = Given(value)

    def _result(
        self, slot: Slot, refs: bool, fail: Callable[[int, str], object] | None
    ) -> object:
        outcome = slot.outcome
        if isinstance(outcome, Exception):
            error = outcome
        elif outcome.error is not None:
            error = outcome.error
        elif refs:
            self._coordinator.hand_out(references(outcome.value), outcome.ordinal)
            return outcome.value
        else:
            try:
                return fetch(outcome.value)
            except Exception as exc:
                # A result that was there and is lost, with the machine it lay on.
                error = exc
        if fail is None:
            raise error
        failure = self._coordinator.classify(error)
        return fail(slot.index, f"{failure.kind}: {failure.text}")


def _size(items: object) -> int | None:
    """Return how many items there are, None where they do not say."""
    try:
        return len(items) if isinstance(items, Sized) else None
    except Exception:
        # Only the percent needs it; a length may be out of bounds, or refuse to be told.
        return None


def _checked(key: object) -> str:
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    raise GraphRefused("a key is neither text nor an integer")
