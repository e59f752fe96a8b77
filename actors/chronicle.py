"""What an owner tells of its sessions: noted at the price of a few assignments.

The owner's thread notes; the producer's own thread asks, as often as its collector lets it,
and only then is a snapshot encoded. So thousands of invocations a second cost no more
reporting than one. A failed method is never coalesced away by the next invocation.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable

from actors.telling import COUNTED, OUTCOME, REUSED
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import EffectState, SessionState
from django_ray.protocol import frames
from django_ray.protocol.failures import classified
from django_ray.protocol.redaction import Redactor
from django_ray.protocol.vocabulary import NodeState

FAILURES = 256
"""Failed invocations that wait to be told; past it the oldest is forgotten."""


class Chronicle:
    """The latest of one owner; `nudge` is called when there is something to ask for.

    Nodes are told once `first`, the ordinal of the first method, is known.
    """

    def __init__(self, redact: tuple[str, ...], nudge: Callable[[], None]) -> None:
        self.first: int | None = None
        self.tallies: Counter[str] = Counter()
        self._served = 0
        self._reached: set[SessionState] = set()
        self._redactor = Redactor(redact)
        self._nudge = nudge
        self._lock = threading.Lock()
        self._state: CompiledGraphSessionState | None = None
        self._is_new = False
        self._number = 0
        self._began_ms = 0
        self._methods = 0
        self._ended: tuple[NodeState, ...] = ()
        self._ended_ms = 0
        self._failures: deque[list[frames.State]] = deque(maxlen=FAILURES)
        self._told: tuple[int, tuple[NodeState, ...]] = (0, ())

    def counts(self, methods: int) -> None:
        """Note how many methods the graph has."""
        self._methods = methods

    def moved(self, state: CompiledGraphSessionState) -> None:
        """Note the session's next state."""
        with self._lock:
            self._count(self._state, state)
            self._state, self._is_new = state, True
        self._nudge()

    def began(self, number: int, at_ms: int) -> None:
        """Note that an invocation's input was submitted."""
        with self._lock:
            self._number, self._began_ms = number, at_ms
            self._ended = ()

    def ended(
        self, states: tuple[NodeState, ...], at_ms: int, error: BaseException | None
    ) -> None:
        """Note how each method ended in the invocation that began last."""
        with self._lock:
            self._ended, self._ended_ms = states, at_ms
            if NodeState.FAILED in states and self.first is not None:
                self._failures.append(
                    self._nodes(states, self._ended_ms, self._failure(error))
                )
                self._told = (self._number, states)
        self._nudge()

    def _count(
        self, before: CompiledGraphSessionState | None, state: CompiledGraphSessionState
    ) -> None:
        """Count sessions by how far they came, invocations by outcome, and reuses."""
        if before is None or before.identity != state.identity:
            before, self._served = None, 0
            self._reached.clear()
        if state.state in COUNTED and state.state not in self._reached:
            # A session that drains an invocation is READY once more.
            self._reached.add(state.state)
            self.tallies[state.state] += 1
        was_open = before is not None and before.in_progress is not None
        if was_open and state.in_progress is None:
            self.tallies[f"{OUTCOME}{state.outcome}"] += 1
            if state.effect is EffectState.MAY_HAVE_STARTED:
                self.tallies[REUSED] += self._served > 0
                self._served += 1

    def records(self) -> Iterable[frames.Record]:
        """Return what has changed since the last call."""
        with self._lock:
            found: list[frames.Record] = [
                record for records in self._failures for record in records
            ]
            self._failures.clear()
            ended = bool(self._ended)
            states = self._ended or (NodeState.RUNNING,) * self._methods
            told = (self._number, states)
            if self.first is not None and self._number and told != self._told:
                at_ms = self._ended_ms if ended else self._began_ms
                found += self._nodes(states, at_ms, None)
                self._told = told
            is_new, self._is_new = self._is_new, False
            state = self._state
        if state is not None and is_new:
            found.append(frames.Session(lifecycle_snapshot(state)))
        return found

    def _nodes(
        self,
        states: tuple[NodeState, ...],
        at_ms: int,
        failure: frames.Failure | None,
    ) -> list[frames.State]:
        return [
            frames.State(
                ordinal,
                self._number,
                frames.FIRST_TRY,
                state,
                at_ms,
                self._began_ms,
                error=failure if state is NodeState.FAILED else None,
            )
            for ordinal, state in enumerate(states, self.first or 0)
        ]

    def _failure(self, error: BaseException | None) -> frames.Failure:
        if error is None:
            outcome = None if self._state is None else self._state.outcome
            return frames.Failure(outcome or "UNKNOWN", "")
        return classified(error, self._redactor)
