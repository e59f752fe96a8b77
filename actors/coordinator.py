"""Drives one run: what it submits, what of it is in flight, and its end.

The outer task makes one coordinator and makes it current while the user's function runs:

    producer = Producer(..., kind=ProducerKind.coordinator,
                        resync=lambda: coordinator.resync())
    coordinator = Coordinator(settings, producer, max_in_flight=64, clock=now_ms)
    producer.start()
    with activate(coordinator):
        ...                                    # `workflow` finds it by `current`
    coordinator.end("SUCCEEDED", None)         # True when the end is committed

Under the policy `disabled` the producer is None: graphs are checked all the same, nothing
is wrapped and nothing reported. Threads of the outer task share the coordinator. Contract
4.10-4.12.
"""

import logging
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, cast

import ray

from actors import functions, internals, leaf, reports
from actors.dispositions import Dispositions, Note
from actors.functions import Function, Functions
from actors.internals import Actor, Body, Options
from actors.journal import Journal, Reporter
from actors.reports import FIRST_TRY
from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.protocol import frames
from django_ray.protocol.plan import RunSettings

SETTLE_S = 10.0
"""How long the end waits to be committed. Contract 4.12."""

REFERENCES = 1_000_000
"""References handed to the user whose nodes are remembered; the oldest are forgotten."""

TASKS_A_CPU = 4
"""How many tasks a CPU of the cluster has in flight unless the caller says otherwise."""

Outcome = Literal["SUCCEEDED", "FAILED", "CANCELLED"]

logger = logging.getLogger(__name__)


class Cancellable(Protocol):
    """Work of this run in flight."""

    def cancel(self) -> None: ...


class Coordinator(Journal):
    """One run as the outer task drives it; every method may be called by any thread."""

    def __init__(
        self,
        settings: RunSettings | None,
        producer: Reporter | None,
        *,
        max_in_flight: int,
        clock: Callable[[], int],
        note: Note | None = None,
    ) -> None:
        internals.require(ray.__version__)
        super().__init__(settings, producer, clock)
        self.max_in_flight = require_window(max_in_flight)
        self.settings = settings
        self.is_observed = producer is not None
        self.dispositions = Dispositions(note)
        self._head = b"" if settings is None else _head(settings)
        self._calls = 0
        self._functions = Functions(observed=self.is_observed)
        self._handed: dict[bytes, int] = {}
        self._work: dict[int, Cancellable] = {}
        self._actors: weakref.WeakSet[Actor] = weakref.WeakSet()
        self._host: bytes | None = None
        self._has_announced = False

    def begin(self) -> int:
        """Return the number of one more call of `run` or `fan_out`, from 1."""
        with self._lock:
            self._calls += 1
            return self._calls

    def place(self, ordinal: int) -> bytes:
        """Return the first argument of a wrapped function for a node."""
        return leaf.place(self._head, ordinal, FIRST_TRY)

    def function(self, body: Body, options: Options, *, named: bool) -> Function:
        """Return the one remote function of a body under its options."""
        return self._functions.of(body, options, named=named)

    def hand_out(self, references: Iterable["ray.ObjectRef[object]"], of: int) -> None:
        """Remember the node of references that the user is given."""
        with self._lock:
            for reference in references:
                self._handed[reference.binary()] = of
            while len(self._handed) > REFERENCES:
                del self._handed[next(iter(self._handed))]

    @property
    def has_handed_out(self) -> bool:
        """Claim that an argument may hold a reference to one of the run's nodes."""
        return bool(self._handed)

    def nodes_of(self, references: Iterable["ray.ObjectRef[object]"]) -> list[int]:
        """Return the nodes behind references, leaving out what this run did not make."""
        found = (self._handed.get(reference.binary()) for reference in references)
        return [ordinal for ordinal in found if ordinal is not None]

    def announce(self) -> None:
        """Leave word of the run where the methods of its actors find it, once."""
        if self._producer is None or self._has_announced:
            return
        self._has_announced = True
        try:
            self._host = internals.root_actor()
            if self._host is not None:
                internals.remember(self._host, self._head)
        except Exception:
            # Ray's own store is away: then those methods' reports are not heard.
            logger.warning("A run could not be announced to its actors.")

    def keep(self, actors: Iterable[Actor]) -> None:
        """Note actors that end with the run, unless they have ended by then."""
        self._actors.update(actors)

    def opened(self, work: Cancellable) -> None:
        """Note work that the run's end cancels; raise GraphRefused when it has ended."""
        with self._lock:
            if self.stopped:
                raise GraphRefused("the run has ended")
            self._work[id(work)] = work

    def closed(self, work: Cancellable) -> None:
        """Forget work that is over."""
        with self._lock:
            self._work.pop(id(work), None)

    def end(self, outcome: Outcome, error: BaseException | None) -> bool:
        """Cancel what is in flight, report the end, and wait until it is committed.

        Every node has ended by then: what a thread left behind is told as cancelled.
        False when it is not committed in time or the run is fenced off: the summary is
        then derived by the lifecycle. True also where nothing is reported.
        """
        self.stop()
        with self._lock:
            open_ = tuple(self._work.values())
        for work in open_:
            work.cancel()
        functions.end_actors(tuple(self._actors))
        if self._producer is None:
            return True
        failure = None if error is None else self.classify(error)
        with self._lock:
            self._cancel_rest()
            self._producer.end(frames.End(outcome, self._clock(), failure))
        committed = self._producer.settle(SETTLE_S)
        self._withdraw()
        return committed

    def _withdraw(self) -> None:
        """Take back the word left by `announce`; who ends the host does so otherwise."""
        if self._host is None:
            return
        try:
            internals.forget(self._host)
        except Exception:
            # Ray's own store is away: the run has ended all the same.
            logger.warning("A run's word to its actors could not be taken back.")


def _head(settings: RunSettings) -> bytes:
    """Return what every leaf of a run is told of it."""
    run = settings.identity
    return reports.encode(
        reports.Run(
            run.run_id,
            run.execution_generation,
            settings.redact,
            settings.detailed_nodes,
        )
    )


def unobserved() -> Coordinator:
    """Return a coordinator of one call outside a run: it checks, and reports nothing."""
    return Coordinator(None, None, max_in_flight=default_window(), clock=reports.now_ms)


def default_window() -> int:
    """Return how many tasks a call has in flight by default. Architecture 5.11."""
    resources = cast("dict[str, float]", ray.cluster_resources())  # type: ignore[no-untyped-call]
    return max(1, int(TASKS_A_CPU * resources.get("CPU", 1.0)))


def require_window(max_in_flight: object) -> int:
    """Return a positive number of tasks as it is; raise ConfigurationError otherwise."""
    if type(max_in_flight) is not int or max_in_flight < 1:
        raise ConfigurationError("max_in_flight is not a positive integer.")
    return max_in_flight


def current() -> Coordinator | None:
    """Return the run of this process; leaves, and code outside a run, have none."""
    return _active.coordinator


@contextmanager
def activate(coordinator: Coordinator) -> Iterator[None]:
    """Make a run the process's own while its user function runs."""
    before, _active.coordinator = _active.coordinator, coordinator
    try:
        yield
    finally:
        _active.coordinator = before


class _Active:
    def __init__(self) -> None:
        self.coordinator: Coordinator | None = None


_active = _Active()
