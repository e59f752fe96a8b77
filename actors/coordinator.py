"""Registers the run's nodes, reports their states, and ends the run.

The outer task makes one coordinator and makes it current while the user's function runs:

    producer = Producer(..., kind=ProducerKind.coordinator,
                        resync=lambda: coordinator.resync())
    coordinator = Coordinator(settings, producer, max_in_flight=64, clock=now_ms)
    producer.start()
    with activate(coordinator):
        ...                                    # `workflow` finds it by `current`
    coordinator.end("SUCCEEDED", None)         # True when the end is committed

Under the policy `disabled` the producer is None: graphs are checked all the same, nothing
is wrapped and nothing reported. Threads of the outer task share the coordinator; one lock
gives ordinals in the order in which the collector hears of them. Contract 4.1, 4.10-4.12.
"""

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, cast

import ray
from ray.exceptions import RayTaskError, TaskCancelledError

from actors import internals, leaf, reports
from actors.internals import Body, Options
from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.progress.counters import Counters
from django_ray.progress.graph import Graph
from django_ray.progress.growth import Declared
from django_ray.progress.stages import Stages
from django_ray.protocol import frames
from django_ray.protocol.limits import V1
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.redaction import Redactor, compose
from django_ray.protocol.vocabulary import NODE_STATES, TERMINAL_NODE_STATES, NodeState

SETTLE_S = 10.0
"""How long the end waits to be committed. Contract 4.12."""

REFERENCES = 1_000_000
"""References handed to the user whose nodes are remembered; the oldest are forgotten."""

LABELS = 1_024
"""Labels and stages remembered as redacted: many nodes share one."""

TASKS_A_CPU = 4
"""How many tasks a CPU of the cluster has in flight unless the caller says otherwise."""

FIRST_TRY = 1

OPEN_STATES = frozenset(NODE_STATES) - TERMINAL_NODE_STATES

Outcome = Literal["SUCCEEDED", "FAILED", "CANCELLED"]


class Reporter(Protocol):
    """What the coordinator uses of its producer."""

    def declare(self, call: int, number: int) -> None: ...

    def node(self, node: frames.Node) -> None: ...

    def state(self, state: frames.State) -> None: ...

    def progress(self, progress: frames.Progress) -> None: ...

    def preview(self, preview: frames.Preview) -> None: ...

    def end(self, end: frames.End) -> None: ...

    def settle(self, timeout_s: float) -> bool: ...


class Cancellable(Protocol):
    """Work of this run in flight."""

    def cancel(self) -> None: ...


class Function:
    """A user's function as this run submits it."""

    __slots__ = ("body", "options", "remote", "returns")

    def __init__(self, body: Body, options: Options, *, observed: bool) -> None:
        self.body = body
        self.options = options
        self.returns = leaf.returns(body, options)
        make = leaf.wrap if observed else leaf.plain
        self.remote = make(body, options).remote


class Coordinator:
    """One run as the outer task drives it; every method may be called by any thread."""

    def __init__(
        self,
        settings: RunSettings | None,
        producer: Reporter | None,
        *,
        max_in_flight: int,
        clock: Callable[[], int],
    ) -> None:
        internals.require(ray.__version__)
        self.max_in_flight = require_window(max_in_flight)
        self.is_observed = producer is not None
        self.stopped = False
        self._producer = producer
        self._clock = clock
        limits = V1 if settings is None else settings.limits
        self._limits = limits
        redact = () if settings is None else settings.redact
        self._redactor = Redactor(redact)
        self._known_label = functools.lru_cache(LABELS)(self._label)
        self._head = b""
        if settings is not None:
            run_id = settings.identity.run_id
            generation = settings.identity.execution_generation
            self._head = reports.encode(
                reports.Run(run_id, generation, redact, settings.detailed_nodes)
            )
        # Re-entrant: a generator that is collected cancels its tasks wherever it is.
        self._lock = threading.RLock()
        self._calls = 0
        self._graph = Graph(limits)
        self._declared = Declared()
        self._counters = Counters()
        self._stages = Stages(limits)
        self._functions: dict[int, list[Function]] = {}
        self._handed: dict[bytes, int] = {}
        self._work: dict[int, Cancellable] = {}

    def begin(self) -> int:
        """Return the number of one more call of `run` or `fan_out`, from 1."""
        with self._lock:
            self._calls += 1
            return self._calls

    def declare(self, call: int, number: int) -> None:
        """Say how many nodes a call will register."""
        if self._producer is not None:
            with self._lock:
                self._declared.add(call, number)
                self._producer.declare(call, number)

    def register(
        self, node_id: str, label: str, stage: str, dependencies: Iterable[int]
    ) -> int:
        """Register a node and return its ordinal; raise GraphRefused for a taken id.

        Secrets are taken out first, so two ids that differ in them alone are one.
        """
        node_id = self.redacted(node_id)
        label, stage = self._short(label), self._short(stage)
        with self._lock:
            if self.stopped:
                raise GraphRefused("the run has ended")
            ordinal, node = self._graph.register(node_id, label, stage, dependencies)
            if node is None:
                raise GraphRefused("the id is taken by an earlier node")
            if self._producer is not None:
                self._counters.add(self._stages.index(node.stage))
                self._producer.node(node)
            return ordinal

    def redacted(self, node_id: str) -> str:
        """Return an id without secrets; one far too long as it is, to be refused."""
        if len(node_id) > 4 * self._limits.node_id:
            return node_id
        return self._redactor.text(node_id)

    def _short(self, value: str) -> str:
        known = len(value) <= self._limits.label
        return self._known_label(value) if known else self._label(value)

    def _label(self, value: str) -> str:
        return self._redactor.label(value, self._limits.label)

    def place(self, ordinal: int) -> bytes:
        """Return the first argument of a wrapped function for a node."""
        return leaf.place(self._head, ordinal, FIRST_TRY)

    def function(self, body: Body, options: Options, *, named: bool) -> Function:
        """Return the one remote function of a body under its options.

        Without its name where that names one node: names are then as many as nodes, each
        would be one more function to export, and Ray labels its metrics by them.
        """
        if not named and "name" in options:
            options = {key: options[key] for key in options if key != "name"}
        with self._lock:
            variants = self._functions.setdefault(id(body), [])
            for known in variants:
                if known.options is options or known.options == options:
                    return known
            variants.append(Function(body, options, observed=self.is_observed))
            return variants[-1]

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

    def submitted(self, ordinal: int) -> None:
        """Report that a node's task was given to Ray."""
        if self._producer is not None:
            self._put(ordinal, NodeState.SUBMITTED, self._clock())

    def succeeded(self, ordinal: int, status: leaf.Status | None) -> None:
        """Report a node's success, with the times of its own process."""
        if self._producer is not None:
            self._put(ordinal, NodeState.SUCCEEDED, self._clock(), status)

    def failed(self, ordinal: int, error: BaseException) -> None:
        """Report a node's failure, or that it was cancelled where that is its error."""
        if self._producer is None:
            return
        cause = _cause(error)
        status = leaf.status_of(cause)
        if isinstance(error, TaskCancelledError):
            self._put(ordinal, NodeState.CANCELLED, self._clock(), status)
            return
        failure = self.classify(error)
        self._put(ordinal, NodeState.FAILED, self._clock(), status, failure)

    def cancelled(self, ordinal: int) -> None:
        """Report that a node was cancelled by this run."""
        if self._producer is not None:
            self._put(ordinal, NodeState.CANCELLED, self._clock())

    def skipped(self, ordinal: int) -> None:
        """Report that a node will not run: something it depends on failed."""
        if self._producer is not None:
            self._put(ordinal, NodeState.SKIPPED, self._clock())

    def classify(self, error: BaseException) -> frames.Failure:
        """Return an error as it may be stored: its class, and redacted bounded text."""
        cause = _cause(error)
        try:
            message = str(cause)
        except Exception:
            # The error is the user's class, and so is its text.
            message = ""
        return compose(type(cause).__name__, message, self._redactor)

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

    def stop(self) -> None:
        """Let nothing more be registered or submitted, in any thread."""
        self.stopped = True

    def resync(self) -> Iterator[frames.Record]:
        """Yield what a restarted collector is to know of all calls and all nodes."""
        with self._lock:
            calls = tuple(self._declared.calls())
            chunks = tuple(self._counters.chunks(self._limits.frame_cut // 4))
        yield from (frames.Declare(*call) for call in calls)
        yield from chunks

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
        if self._producer is None:
            return True
        failure = None if error is None else self.classify(error)
        with self._lock:
            self._cancel_rest()
            self._producer.end(frames.End(outcome, self._clock(), failure))
        return self._producer.settle(SETTLE_S)

    def _cancel_rest(self) -> None:
        """Report every node that has not ended as cancelled; it stays so."""
        counters = self._counters
        if not any(map(counters.count, OPEN_STATES)):
            return
        for ordinal in range(len(counters)):
            if counters.state(ordinal) in OPEN_STATES:
                self.cancelled(ordinal)

    def _put(
        self,
        ordinal: int,
        state: NodeState,
        at_ms: int,
        status: leaf.Status | None = None,
        error: frames.Failure | None = None,
    ) -> None:
        if self._producer is None:
            return
        began, host, attempt = None, None, None
        if status is not None:
            at_ms, began = status.ended_ms, status.started_ms
            host, attempt = status.host, status.attempt
        record = frames.State(
            ordinal, 0, FIRST_TRY, state, at_ms, began, host, attempt, error
        )
        # Told under the lock as well: no state of a node comes behind the run's end.
        with self._lock:
            if self._counters.state(ordinal) in TERMINAL_NODE_STATES:
                # Seen to end by one thread while another cancelled it.
                return
            self._counters.put(ordinal, state, FIRST_TRY)
            if status is not None:
                self._pass_on(ordinal, status)
            self._producer.state(record)

    def _pass_on(self, ordinal: int, status: leaf.Status) -> None:
        """Report what a leaf said last: its own process may not live to say it."""
        if self._producer is None:
            return
        if status.report is not None and status.report.target == ordinal:
            self._producer.progress(status.report)
        if status.preview is not None:
            self._producer.preview(
                frames.Preview(ordinal, 0, FIRST_TRY, status.preview)
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


def _cause(error: BaseException) -> BaseException:
    """Return the user's own error where Ray has wrapped it."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        return error.cause
    return error
