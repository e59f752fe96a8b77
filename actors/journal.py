"""Registers a run's nodes and tells the collector their states, in one order.

One lock gives ordinals in the order in which the collector hears of them, and lets no state
of a node come behind the run's end. Contract 4.1, 4.3, 4.10.
"""

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ray.exceptions import TaskCancelledError

from actors import leaf
from actors.reports import FIRST_TRY
from django_ray.errors import GraphRefused
from django_ray.progress.counters import Counters
from django_ray.progress.graph import Graph
from django_ray.progress.growth import Declared
from django_ray.progress.rollup import Stages
from django_ray.protocol import failures, frames
from django_ray.protocol.limits import V1
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.redaction import Redactor
from django_ray.protocol.vocabulary import NODE_STATES, TERMINAL_NODE_STATES, NodeState

LABELS = 1_024
"""Labels and stages remembered as redacted: many nodes share one."""

OPEN_STATES = frozenset(NODE_STATES) - TERMINAL_NODE_STATES


class Reporter(Protocol):
    """What the coordinator uses of its producer."""

    def declare(self, call: int, number: int) -> None: ...

    def node(self, node: frames.Node) -> None: ...

    def task(self, ordinal: int, task_id: bytes) -> None: ...

    def state(self, state: frames.State) -> None: ...

    def progress(self, progress: frames.Progress) -> None: ...

    def preview(self, preview: frames.Preview) -> None: ...

    def session(self, session: frames.Session) -> None: ...

    def end(self, end: frames.End) -> None: ...

    def settle(self, timeout_s: float) -> bool: ...


class Journal:
    """The nodes of one run as its coordinator reports them, from any thread.

    Without a producer graphs are checked all the same, and nothing is told.
    """

    def __init__(
        self,
        settings: RunSettings | None,
        producer: Reporter | None,
        clock: Callable[[], int],
    ) -> None:
        self.stopped = False
        self._producer = producer
        self._clock = clock
        limits = V1 if settings is None else settings.limits
        self._limits = limits
        self._detailed = 0 if settings is None else settings.detailed_nodes
        self._redactor = Redactor(() if settings is None else settings.redact)
        self._known_label = functools.lru_cache(LABELS)(self._label)
        # Re-entrant: a generator that is collected cancels its tasks wherever it is.
        self._lock = threading.RLock()
        self._graph = Graph(limits)
        self._declared = Declared()
        self._counters = Counters()
        self._stages = Stages(limits)
        self._tasks: dict[int, bytes] = {}

    def declare(self, call: int, number: int) -> None:
        """Say how many nodes a call will register; more than there can be is the most."""
        number = min(number, frames.MAXIMUM_ORDINAL)
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

    def submitted(self, ordinal: int, task_id: bytes | None) -> None:
        """Report that a node's task was given to Ray; its id, where that names the node."""
        if self._producer is None:
            return
        if task_id is not None:
            with self._lock:
                self._tasks[ordinal] = task_id
                self._producer.task(ordinal, task_id)
        self._put(ordinal, NodeState.SUBMITTED, self._clock())

    def succeeded(self, ordinal: int, status: leaf.Status | None) -> None:
        """Report a node's success, with the times of its own process."""
        if self._producer is not None:
            self._put(ordinal, NodeState.SUCCEEDED, self._clock(), status)

    def failed(self, ordinal: int, error: BaseException) -> None:
        """Report a node's failure, or that it was cancelled where that is its error."""
        if self._producer is None:
            return
        status = leaf.status_of(failures.own(error))
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

    @contextmanager
    def in_a_row(self) -> Iterator[None]:
        """Give consecutive ordinals to what this thread registers meanwhile."""
        with self._lock:
            yield

    def mirror(self, first: int, states: Iterable[NodeState]) -> None:
        """Note the states of an owner's nodes, which it reports itself.

        So what a restarted collector is told by the run holds them as well.
        """
        with self._lock:
            if self._producer is not None and not self.stopped:
                for ordinal, state in enumerate(states, first):
                    self._counters.put(ordinal, state, FIRST_TRY)

    def lost(
        self,
        first: int,
        states: Iterable[NodeState],
        invocation: int,
        failure: frames.Failure,
        snapshot: bytes,
    ) -> None:
        """Report in the place of an owner that is gone: its nodes, and its session."""
        if self._producer is None:
            return
        with self._lock:
            for ordinal, state in enumerate(states, first):
                said = failure if state is NodeState.FAILED else None
                at_ms = self._clock()
                self._counters.put(ordinal, state, FIRST_TRY)
                self._producer.state(
                    frames.State(
                        ordinal, invocation, FIRST_TRY, state, at_ms, error=said
                    )
                )
            self._producer.session(frames.Session(snapshot))

    def classify(self, error: BaseException) -> frames.Failure:
        """Return an error as it may be stored: its class, and redacted bounded text."""
        return failures.classified(error, self._redactor)

    def stop(self) -> None:
        """Let nothing more be registered or submitted, in any thread."""
        self.stopped = True

    def resync(self) -> Iterator[frames.Record]:
        """Yield what a restarted collector is to know of all calls and all nodes.

        With the Ray tasks by which nodes are known, of those that have ended the detailed
        ones: what such a method said last may still be on its way.
        """
        with self._lock:
            calls = tuple(self._declared.calls())
            chunks = tuple(self._counters.chunks(self._limits.frame_cut // 4))
            # A collector with no room for all of them forgets the first.
            tasks = sorted(self._tasks.items(), key=lambda each: self._is_open(each[0]))
        yield from (frames.Declare(*call) for call in calls)
        yield from chunks
        yield from (frames.Task(*task) for task in tasks)

    def _cancel_rest(self) -> None:
        """Report every node that has not ended as cancelled; it stays so."""
        counters = self._counters
        if not any(map(counters.count, OPEN_STATES)):
            return
        for ordinal in range(len(counters)):
            if self._is_open(ordinal):
                self.cancelled(ordinal)

    def _is_open(self, ordinal: int) -> bool:
        return self._counters.state(ordinal) in OPEN_STATES

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
            if not self._is_open(ordinal):
                # Seen to end by one thread while another cancelled it.
                return
            self._counters.put(ordinal, state, FIRST_TRY)
            if state in TERMINAL_NODE_STATES and ordinal >= self._detailed:
                self._tasks.pop(ordinal, None)
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
