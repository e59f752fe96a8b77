"""A compiled session as the outer task holds it: one input after another, and its losses.

The owner decides and performs; this side registers the graph's methods as nodes once, hands
inputs over and results back, and outlives the owner. When the owner is gone, its loss is
reduced here, on the last state that it returned. Lifecycle 5.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ray.exceptions import RayTaskError

from actors import compiled_internals, ids, remote_owner
from actors.account import Method, ends
from actors.coordinator import Coordinator
from actors.dispositions import UNHEARD
from actors.dynamic import DynamicSession
from actors.loss import Sent, assumed, reduced
from actors.owner import OVER, Answer, OwnerTerms, begun
from actors.reports import now_ms
from actors.shield import shielded
from django_ray.errors import ConfigurationError, GraphRefused, InvocationFailed
from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle import budgets, disposition, events
from django_ray.lifecycle.budgets import Deadlines
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import (
    CommandKind,
    EffectState,
    Outcome,
    RetryDisposition,
    SessionState,
)
from django_ray.protocol.frames import Failure
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.vocabulary import Effects, NodeState, SelectionPolicy

PATIENCE_S = 5.0
"""How long an interrupted invocation may take to tell its end, before its owner is killed."""

CLOSE_S = 10.0
"""What closing a session may take beside the teardown's own time."""

LOST = "The owner of the compiled session is gone."

BEGUN = (EffectState.MAY_HAVE_STARTED,)

logger = logging.getLogger(__name__)


class CompiledSession:
    """One compiled graph of a run, as its author holds it; one caller at a time."""

    def __init__(
        self,
        coordinator: Coordinator,
        owner: remote_owner.OwnerHandle,
        terms: OwnerTerms,
        clock: Callable[[], int],
    ) -> None:
        self._coordinator = coordinator
        self._owner = owner
        self._terms = terms
        self._clock = clock
        self._state = begun(terms, 1, None, uuid.uuid4().hex)
        self._methods: tuple[Method, ...] = ()
        self._first: int | None = None
        self._turn = threading.Lock()
        self._is_over = False
        self._is_unanswered = False
        self._retry = RetryDisposition.AUTOMATIC_ALLOWED

    @property
    def retry(self) -> RetryDisposition:
        """Return what holds if the attempt fails: the strictest of all invocations.

        Of one that was sent and not answered nothing is known.
        """
        return UNHEARD if self._is_unanswered else self._retry

    @property
    def state(self) -> CompiledGraphSessionState:
        """Return the last state the owner has told, or that was reduced at its loss."""
        return self._state

    def prepare(self) -> BaseException | None:
        """Prepare the session and register its methods; return why it was refused, if so.

        Refused is a graph that cannot be compiled: nothing was prepared. Raises
        InvocationFailed when the preparation itself has failed.
        """
        answer = self._owner.prepare(self._left_s())
        if answer is None:
            self._lose((), None)
            raise self._failure(None)
        self._move(answer.state)
        if answer.state.state is SessionState.REJECTED:
            if answer.error is None:
                return GraphRefused("the graph cannot be compiled")
            return answer.error
        if answer.state.state is not SessionState.READY:
            raise self._failure(answer.error)
        self._methods = answer.methods
        self._register()
        return None

    def invoke(self, value: object) -> object:
        """Send one input through the graph and return its output, of several a list.

        What a method raises is raised as Ray raises it, and TypeError for an input that
        cannot be serialized: nothing was asked for then. InvocationFailed tells of every
        other end; its `outcome` is the session's state where that admits nothing any more.
        """
        if not self._turn.acquire(blocking=False):
            raise ConfigurationError("A compiled session has one caller at a time.")
        try:
            return self._invoke(value)
        finally:
            self._turn.release()

    def cancel(self) -> None:
        """End the session whatever it is at: the run has ended, or was interrupted."""
        if not self._turn.acquire(blocking=False):
            # Its caller is another thread, which now is told how the invocation ended.
            self._owner.control(CommandKind.CANCELLATION_REQUESTED)
            return
        try:
            self.close()
        finally:
            self._turn.release()

    def close(self) -> None:
        """Drain and tear down the session, and end its owner; never hang, never raise."""
        if not self._is_over:
            self._is_over = True
            with shielded():
                answer = self._owner.close(self._terms.budgets.teardown + CLOSE_S)
            if answer is None:
                self._lose((), None)
            else:
                self._move(answer.state)
        self._coordinator.dispositions.end(self)

    def _invoke(self, value: object) -> object:
        before, name = self._state.last_invocation, uuid.uuid4().hex
        if self._is_over:
            raise self._closed()
        self._coordinator.dispositions.begin(self)
        self._is_unanswered = True
        is_sent = False
        sent = (CommandKind.SUBMISSION_REQUESTED, self._now())
        try:
            self._owner.send(value, self._first, name)
            is_sent = True
            answer = self._owner.receive(self._left_s())
        except BaseException as exc:
            # An input that cannot be serialized has never left this process.
            if is_sent or not isinstance(exc, Exception):
                self._interrupt(name, sent)
            self._is_unanswered = False
            raise
        if answer is None:
            self._is_over = True
            self._lose((sent,), name)
            raise self._failure(None)
        self._take(answer)
        if answer.values is not None:
            values = answer.values
            return values[0] if self._terms.outputs == 1 else list(values)
        if self._state.last_invocation == before:
            raise self._closed() from answer.error
        if self._state.outcome is Outcome.APPLICATION_ERROR and isinstance(
            answer.error, RayTaskError
        ):
            raise compiled_internals.as_its_cause(answer.error)
        raise self._failure(answer.error)

    def _interrupt(self, name: str, sent: Sent) -> None:
        """Cancel the invocation under way; an owner that does not end it is ended."""
        self._is_over = True
        cancelled = (CommandKind.CANCELLATION_REQUESTED, self._now())
        with shielded():
            is_answered = self._cancelled()
        if not is_answered:
            self._lose((sent, cancelled), name)
        elif self._state.state not in OVER:
            self._lose((), name)

    def _cancelled(self) -> bool:
        """Cancel and end the owner; say whether it has told how the invocation ended."""
        answer = None
        try:
            self._owner.control(CommandKind.CANCELLATION_REQUESTED)
            answer = self._owner.settle(PATIENCE_S)
            if answer is not None:
                self._take(answer)
                self._end_if_served()
        except Exception:
            # It is interrupted already; what became of the owner is then not known.
            logger.exception("An owner could not be cancelled.")
        finally:
            self._owner.kill()
        return answer is not None

    def _end_if_served(self) -> None:
        """Have a session torn down whose invocation had ended when it was interrupted."""
        if self._state.state not in OVER:
            closed = self._owner.close(CLOSE_S)
            if closed is not None:
                self._move(closed.state)

    def _move(self, state: CompiledGraphSessionState) -> None:
        """Take a state that was told, or reduced at the owner's loss."""
        self._state = state
        told = disposition.of_session(state)
        self._retry = disposition.strictest((self._retry, told))

    def _take(self, answer: Answer) -> None:
        self._move(answer.state)
        self._is_unanswered = False
        if answer.ends is not None and self._first is not None:
            self._coordinator.mirror(self._first, answer.ends)

    def _register(self) -> None:
        """Register the methods as nodes, once however many invocations follow."""
        coordinator, methods = self._coordinator, self._methods
        call = coordinator.begin()
        named = ids.identify(methods, f"{call}.", coordinator.redacted)
        coordinator.declare(call, len(methods))
        ordinals: list[int] = []
        with coordinator.in_a_row():
            for node_id, method in zip(named, methods, strict=True):
                sources = [ordinals[place] for place in method.after]
                ordinals.append(
                    coordinator.register(
                        node_id, method.name or method.path, method.path, sources
                    )
                )
        self._first = ordinals[0]

    def _now(self) -> int:
        return max(self._clock(), self._state.observed_at)

    def _left_s(self) -> float | None:
        """Return how long an owner is waited for: it ends by itself before; None for ever.

        What it runs is the author's code as well, and no deadline interrupts that.
        """
        outer_ms = self._terms.outer_ms
        if outer_ms == MAXIMUM_63:
            return None
        rest = self._terms.budgets.teardown + CLOSE_S
        return max(0.0, (outer_ms - self._now()) / 1_000) + rest

    def _lose(self, sent: tuple[Sent, ...], name: str | None) -> None:
        """Reduce the owner's loss, after what was sent and never answered."""
        number = self._state.last_invocation
        if name is not None and sent:
            self._state = assumed(self._state, self._terms, name, sent)
        lost = events.command(self._state, CommandKind.OWNER_LOST, self._now())
        self._move(reduced(self._state, lost))
        state = self._state
        if name is not None:
            self._is_unanswered = False
            last = state.last_invocation
            if sent and (last is None or last.invocation_id != name):
                # By this state it was not admitted. The owner may have known another one.
                self._retry = UNHEARD
        told: tuple[NodeState, ...] = ()
        if state.last_invocation != number and state.effect in BEGUN:
            told = ends(self._methods, (), {}, state.outcome)
        last = state.last_invocation
        self._coordinator.lost(
            self._first or 0,
            told,
            0 if last is None else last.number,
            Failure(str(state.outcome or Outcome.OWNER_LOST), LOST),
            lifecycle_snapshot(state),
        )

    def _failure(self, error: BaseException | None) -> InvocationFailed:
        state = self._state
        failure = InvocationFailed(
            str(state.outcome or state.state),
            str(state.effect),
            str(state.retry),
            tuple(map(str, state.cleanup)),
        )
        failure.__cause__ = error
        return failure

    def _closed(self) -> InvocationFailed:
        """Return the error of an input that no session has admitted."""
        state = self._state
        codes = tuple(map(str, state.cleanup))
        return InvocationFailed(
            str(state.state),
            str(EffectState.NOT_STARTED),
            str(RetryDisposition.AUTOMATIC_ALLOWED),
            codes,
        )


Session = CompiledSession | DynamicSession


@contextmanager
def opened(
    coordinator: Coordinator,
    build: Callable[[], object],
    *,
    outputs: int,
    deadlines: Deadlines,
    effects: Effects | None,
    buffer_bytes: int,
    idle_s: float,
) -> Iterator[Session]:
    """Open a session of a graph under the run's strategy, and leave nothing of it behind.

    Outside of a run, and under `dynamic`, the graph runs dynamically; under `automatic` it
    does where it cannot be compiled, and never once preparation has begun.
    """
    told = coordinator.settings
    strategy = SelectionPolicy.dynamic if told is None else told.strategy
    if told is not None and effects not in (None, told.effects):
        raise ConfigurationError(
            "What compiled() is told of effects is not what the task's options say."
        )
    session: Session | None = None
    if told is not None and strategy is not SelectionPolicy.dynamic:
        terms = OwnerTerms(
            run=told.identity,
            graph_key=told.plan_fingerprint,
            outputs=outputs,
            budgets=deadlines,
            outer_ms=budgets.outer(deadlines, now_ms()),
            idle_s=idle_s,
        )
        session = _compiled(coordinator, told, build, terms, buffer_bytes)
    if session is None:
        session = DynamicSession(coordinator, build, outputs)
    try:
        coordinator.opened(session)
        yield session
    finally:
        session.close()
        coordinator.closed(session)


def _compiled(
    coordinator: Coordinator,
    told: RunSettings,
    build: Callable[[], object],
    terms: OwnerTerms,
    buffer_bytes: int,
) -> CompiledSession | None:
    """Return a prepared session, None where the run may do without."""
    owner = remote_owner.start_owner(
        remote_owner.Order(
            build=build,
            terms=terms,
            buffer_bytes=buffer_bytes,
            settings=told if coordinator.is_observed else None,
        )
    )
    session = CompiledSession(coordinator, owner, terms, now_ms)
    try:
        refused = session.prepare()
        if refused is None:
            return session
    except BaseException:
        session.close()
        raise
    session.close()
    if told.strategy is SelectionPolicy.automatic:
        logger.info("A graph is run dynamically: %s", type(refused).__name__)
        return None
    raise refused
