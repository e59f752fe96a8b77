"""The owner: drives the lifecycle of a run's compiled sessions, one after another.

A plain class; `remote_owner` makes it an actor. It alone reduces, and it alone performs: an
event, the next state, the action that comes with it, its answer as the next event, until
nothing is pending. Control arrives on another thread while an action is being performed: it
is reduced at once, and what it asks for is performed when the action under way has ended.
What is reported of it never waits and never fails it. Lifecycle 5.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from actors.account import Method, ends
from django_ray.identity import RunIdentity
from django_ray.lifecycle import budgets, events
from django_ray.lifecycle.adapter import CompiledGraphLifecycleAdapter
from django_ray.lifecycle.budgets import Deadlines
from django_ray.lifecycle.events import Callback, Command
from django_ray.lifecycle.reducer import initial_session, reduce_lifecycle
from django_ray.lifecycle.results import Transition
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.terms import (
    LastInvocation,
    LifecycleCapacity,
    SessionIdentity,
)
from django_ray.lifecycle.vocabulary import (
    CommandKind,
    EffectState,
    InvocationState,
    Outcome,
    OutputState,
    SessionState,
)
from django_ray.protocol.vocabulary import NodeState

IDLE_S = 30.0
"""An idle session is torn down after so long: each of its actors burns a core."""

OVER = (SessionState.REJECTED, SessionState.TORN_DOWN, SessionState.QUARANTINED)

logger = logging.getLogger(__name__)


class Engine(CompiledGraphLifecycleAdapter, Protocol):
    """One session's adapter, and what its owner hands over and takes back beside it."""

    @property
    def error(self) -> BaseException | None:
        """Return the first error of the invocation, or of validation or preparation."""

    @property
    def values(self) -> Mapping[int, object]:
        """Return by slot the values consumed."""

    @property
    def settled(self) -> Mapping[int, tuple[int, ...]]:
        """Return by slot which methods may have raised what was settled."""

    @property
    def methods(self) -> tuple[Method, ...]:
        """Return the graph's methods, once it was validated."""

    @property
    def slots(self) -> tuple[int, ...]:
        """Return the place of the method behind each output."""

    def offer(self, value: object) -> None:
        """Take the input of the next invocation."""

    def release(self) -> None:
        """End what a session without a proven teardown has left."""


class News(Protocol):
    """Who reports what the owner does; nothing here waits or raises."""

    def moved(self, state: CompiledGraphSessionState) -> None:
        """Note the session's next state."""

    def began(self, number: int, at_ms: int) -> None:
        """Note that an invocation's input was submitted."""

    def ended(
        self, states: tuple[NodeState, ...], at_ms: int, error: BaseException | None
    ) -> None:
        """Note how each method ended in the invocation that began last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTerms:
    """What one owner is told: of which run, how many outputs, which deadlines.

    `outer_ms` is the absolute outer deadline; `idle_s` how long a session may stand idle.
    """

    run: RunIdentity
    graph_key: str
    outputs: int
    budgets: Deadlines
    outer_ms: int
    idle_s: float = IDLE_S


def begun(
    terms: OwnerTerms, epoch: int, before: LastInvocation | None, session_id: str
) -> CompiledGraphSessionState:
    """Return a NEW session of an owner; `before` is the last invocation of the run's."""
    return initial_session(
        identity=SessionIdentity(
            run=terms.run,
            graph_key=terms.graph_key,
            session_id=session_id,
            owner_epoch=epoch,
        ),
        capacity=LifecycleCapacity(),
        deadlines=budgets.of_session(terms.outer_ms),
        before=before,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a call: the session's state, and what it gave.

    `values` are all outputs of an invocation that succeeded. `ends` are the ends of the
    graph's methods, None where none has begun.
    """

    state: CompiledGraphSessionState
    values: tuple[object, ...] | None = None
    error: BaseException | None = None
    methods: tuple[Method, ...] = ()
    ends: tuple[NodeState, ...] | None = None


class Owner:
    """The sessions of one compiled graph in one process; one call at a time.

    `engine` makes the adapter of a session, given the methods of those before it.
    `identify` gives ids that no session of the run has had.
    """

    def __init__(
        self,
        terms: OwnerTerms,
        engine: Callable[[tuple[Method, ...]], Engine],
        *,
        clock: Callable[[], int],
        identify: Callable[[], str],
        news: News,
    ) -> None:
        self._terms = terms
        self._make = engine
        self._clock = clock
        self._identify = identify
        self._news = news
        # The turn is who performs; the lock guards the state and is held for no action.
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._engine = engine(())
        self._state = self._initial(epoch=1)
        self._methods: tuple[Method, ...] = ()
        self._used_s = time.monotonic()
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def state(self) -> CompiledGraphSessionState:
        """Return the state of the current session, of the last one between two."""
        return self._state

    def prepare(self) -> Answer:
        """Validate and prepare the first session; its `methods` are what is registered."""
        with self._turn:
            self._open()
            self._used_s = time.monotonic()
            answer = Answer(
                state=self._state, error=self._engine.error, methods=self._methods
            )
        self._sweep()
        if self._watch is None and self._state.state is SessionState.READY:
            self._watch = threading.Thread(
                target=self._watch_idle, name="compiled-idle", daemon=True
            )
            self._watch.start()
        return answer

    def invoke(self, value: object, invocation_id: str) -> Answer:
        """Send one input through the graph and consume all its outputs.

        `invocation_id` is 1 to 128 printable characters that no other of the run has.
        A session that was torn down, idle or for its health, is followed by the next. What
        stands in the way of an invocation is told by the state, and nothing was started.
        """
        with self._turn:
            before = self._state.last_invocation
            is_next = self._follow()
            is_ready = self._state.state is SessionState.READY
            if is_ready or not is_next:
                # One that could not be prepared keeps why.
                self._engine.offer(value)
            if is_ready:
                self._serve(invocation_id)
                self._release()
            answer = self._answer(self._state.last_invocation != before)
            self._used_s = time.monotonic()
        self._sweep()
        return answer

    def control(self, kind: CommandKind) -> CompiledGraphSessionState:
        """Reduce a command from outside at once, whatever is being performed."""
        with self._lock:
            self._reduce(events.command(self._state, kind, self._now()))
            if kind is CommandKind.CANCELLATION_REQUESTED:
                self._closed.set()
        self._sweep()
        return self._state

    def close(self) -> Answer:
        """Drain and tear down the session, once nothing is being performed."""
        self._closed.set()
        with self._turn:
            self._ask(CommandKind.DRAIN_REQUESTED)
            self._release()
            return Answer(state=self._state)

    @property
    def _is_closed(self) -> bool:
        return self._closed.is_set()

    def _initial(self, *, epoch: int) -> CompiledGraphSessionState:
        before = None if epoch == 1 else self._state.last_invocation
        return begun(self._terms, epoch, before, self._identify())

    def _follow(self) -> bool:
        """Prepare the next session where the last was torn down; say whether it was."""
        with self._lock:
            if self._state.state is not SessionState.TORN_DOWN or self._is_closed:
                return False
            self._state = self._initial(epoch=self._state.identity.owner_epoch + 1)
        self._engine = self._make(self._methods)
        self._open()
        return True

    def _open(self) -> None:
        self._ask(CommandKind.VALIDATION_REQUESTED)
        if self._state.state is SessionState.VALIDATED:
            self._methods = self._engine.methods
            self._ask(CommandKind.PREPARATION_REQUESTED)
        self._release()

    def _serve(self, invocation_id: str) -> None:
        """Take one invocation from its admission to its end."""
        terms = self._terms
        self._tell(
            lambda now: events.admission(
                self._state,
                now,
                invocation_id=invocation_id,
                outputs=terms.outputs,
                deadlines=budgets.of_invocation(terms.budgets, now),
            )
        )
        invocation = self._state.in_progress
        if invocation is None:
            return
        self._ask(CommandKind.SUBMISSION_REQUESTED)
        if self._state.effect is EffectState.MAY_HAVE_STARTED:
            self._news.began(invocation.number, self._state.observed_at)
        for slot in range(terms.outputs):
            if not self._is_running():
                break
            self._tell(self._consumption(slot))

    def _consumption(self, slot: int) -> Callable[[int], Command]:
        return lambda now: events.consumption(self._state, now, output=slot)

    def _is_running(self) -> bool:
        invocation = self._state.in_progress
        return invocation is not None and invocation.state is InvocationState.RUNNING

    def _answer(self, served: bool) -> Answer:
        state, engine = self._state, self._engine
        values = tuple(engine.values[slot] for slot in sorted(engine.values))
        told: tuple[NodeState, ...] | None = None
        if served and state.effect is EffectState.MAY_HAVE_STARTED:
            told = self._ends()
            self._news.ended(told, state.observed_at, engine.error)
        succeeded = served and state.outcome is Outcome.SUCCEEDED
        return Answer(
            state=state,
            values=values if succeeded else None,
            error=engine.error,
            ends=told,
        )

    def _ends(self) -> tuple[NodeState, ...]:
        """Return the end of each method; of an input that was refused none has run."""
        engine, invocation = self._engine, self._state.invocation
        created = invocation is None or any(
            slot is not OutputState.NOT_CREATED for slot in invocation.outputs
        )
        if not created:
            return (NodeState.SKIPPED,) * len(self._methods)
        return ends(self._methods, engine.slots, engine.settled, self._state.outcome)

    def _ask(self, kind: CommandKind) -> None:
        self._tell(lambda now: events.command(self._state, kind, now))

    def _tell(self, event: Callable[[int], Command]) -> None:
        """Reduce an event and perform all that follows; only in one's turn."""
        with self._lock:
            self._reduce(event(self._now()))
        self._perform()

    def _perform(self) -> None:
        last: int | None = None
        while (action := self._state.pending) is not None:
            if action.token == last:
                # An answer to it was rejected: there is none that could follow.
                raise RuntimeError("The reducer takes no answer to its own action.")
            last = action.token
            callback = self._engine.dispatch(action)
            with self._lock:
                self._reduce(callback)

    def _reduce(self, event: Command | Callback) -> None:
        """Take one event under the lock; what is rejected changes nothing."""
        if event.observed_at < self._state.observed_at:
            event = replace(event, observed_at=self._state.observed_at)
        result = reduce_lifecycle(self._state, event)
        if isinstance(result, Transition):
            self._state = result.state
            self._news.moved(result.state)
        else:
            logger.debug("%s was rejected: %s", event.kind, result.code)

    def _now(self) -> int:
        return max(self._clock(), self._state.observed_at)

    def _sweep(self) -> None:
        """Perform what control has asked for while nobody had the turn."""
        while self._state.pending is not None and self._turn.acquire(blocking=False):
            try:
                self._perform()
                self._release()
            finally:
                self._turn.release()

    def _release(self) -> None:
        """Leave nothing of a session behind that has ended without a proven teardown."""
        if self._state.state in OVER:
            self._engine.release()

    def _watch_idle(self) -> None:
        idle_s = self._terms.idle_s
        while not self._is_closed:
            left = self._used_s + idle_s - time.monotonic()
            if left > 0:
                self._closed.wait(left)
                continue
            with self._turn:
                if time.monotonic() - self._used_s >= idle_s:
                    self._ask(CommandKind.DRAIN_REQUESTED)
                    self._release()
                    self._used_s = time.monotonic()
            self._sweep()
