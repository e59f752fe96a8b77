"""The native adapter: performs a session's actions on a Ray Compiled Graph.

It decides nothing and never raises: what the engine raises is told as the callback it
amounts to, and kept in `error` for the one who asked. Lifecycle 5; the engine's ways are
those of Ray 2.60.0, by observation.

- An idle compiled graph burns a core for each participant: its owner tears it down.
- Nothing larger than the buffer is submitted: after some ten such messages a teardown hangs.
- A result that was waited for in vain is spent. It is never asked for again.
- A teardown that hangs is ended by the end of the participants, which are this session's.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray
from ray.exceptions import (
    RayActorError,
    RayCgraphCapacityExceeded,
    RayChannelTimeoutError,
    RayError,
    RayTaskError,
)

from actors import compiled_internals, internals, participants, shape
from actors.account import Method
from actors.internals import Actor
from actors.participants import Place
from actors.shape import Bound, Shape
from django_ray.errors import GraphRefused, LimitExceeded
from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.events import Callback, answer
from django_ray.lifecycle.vocabulary import ActionKind, CallbackKind

if TYPE_CHECKING:
    from ray.dag.compiled_dag_node import CompiledDAG
    from ray.experimental.compiled_dag_ref import CompiledDAGRef

BUFFER_BYTES = 1_000_000
"""What an input, and what each method gives, may fill of a channel by default."""

TEARDOWN_S = 10.0
"""How long a teardown may take before the participants are ended, deadline or not."""

GRACE_MS = 1
LOOK_S = 2.0

logger = logging.getLogger(__name__)

Said = CallbackKind | tuple[CallbackKind, bool]
"""What was observed, for CHANNEL_ERROR with whether it proves that nothing started."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How one session's graph is built: `build` is called once for each session.

    `like` are the methods of the run's sessions before, empty where there were none.
    """

    build: Callable[[], object]
    outputs: int
    like: tuple[Method, ...] = ()
    buffer_bytes: int = BUFFER_BYTES
    teardown_s: float = TEARDOWN_S


class CompiledGraphAdapter:
    """One session's engine; the owner's one thread dispatches, one action at a time."""

    def __init__(self, terms: Terms, clock: Callable[[], int]) -> None:
        self._terms = terms
        self._clock = clock
        self.error: BaseException | None = None
        self.values: dict[int, object] = {}
        self.settled: dict[int, tuple[int, ...]] = {}
        self.methods: tuple[Method, ...] = ()
        self.slots: tuple[int, ...] = ()
        self._shape: Shape | None = None
        self._bound: Bound | None = None
        self._graph: CompiledDAG | None = None
        self._places: tuple[Place, ...] = ()
        self._given: object = None
        self._refs: list[CompiledDAGRef] = []
        self._open: set[int] = set()
        self._is_spoilt = False
        self._is_cancelled = False
        self._perform: dict[ActionKind, Callable[[Action], Said]] = {
            ActionKind.VALIDATE: self._validate,
            ActionKind.PREPARE: self._prepare,
            ActionKind.ADMIT: self._admit,
            ActionKind.SUBMIT: self._submit,
            ActionKind.CONSUME_OUTPUT: self._consume,
            ActionKind.RELEASE_CAPACITY: self._release_capacity,
            ActionKind.CANCEL: self._cancel,
            ActionKind.DRAIN_INVOCATION: self._drain_invocation,
            ActionKind.DRAIN_SESSION: self._drain_session,
            ActionKind.CHECK_HEALTH: self._check_health,
            ActionKind.TEARDOWN: self._teardown,
        }

    def offer(self, value: object) -> None:
        """Give the input of the next invocation, which SUBMIT will take."""
        self._given = value
        self.error = None
        self.values, self.settled = {}, {}

    def dispatch(self, action: Action) -> Callback:
        """Perform one action and tell what was observed; never raise."""
        if self._clock() >= action.deadline:
            return answer(action, CallbackKind.DEADLINE_EXPIRED, self._clock())
        try:
            said = self._perform[action.kind](action)
        except Exception as exc:
            # Foreign code: the user's build, and an engine that promises nothing.
            self._blame(exc)
            self._is_spoilt = True
            logger.warning("%s failed.", action.kind, exc_info=True)
            said = WORST[action.kind]
        kind, proven = said if isinstance(said, tuple) else (said, False)
        return answer(action, kind, self._clock(), not_started=proven)

    def release(self) -> None:
        """End whatever a session without a proven teardown has left; never wait long."""
        if self._bound is not None or self._graph is not None:
            self._end_all(time.monotonic() + participants.KILL_S, calm=False)

    def _validate(self, _action: Action) -> Said:
        try:
            if ray.__version__ not in internals.COMPILED_RELEASES:
                raise GraphRefused("compiled graphs are known on Ray 2.60.0 only")
            found = shape.check(self._terms.build(), self._terms.outputs)
            self._shape, self.slots = found, found.outputs
            self.methods = tuple(
                Method(call.path, call.name, call.after) for call in found.calls
            )
            if self._terms.like not in ((), self.methods):
                raise GraphRefused("build_graph gives another graph than before")
        except Exception as exc:
            # Whatever the user's build raises is his answer, and nothing is prepared.
            self.error = exc
            return CallbackKind.VALIDATION_REJECTED
        return CallbackKind.VALIDATED

    def _prepare(self, action: Action) -> Said:
        if self._shape is None:
            return CallbackKind.PREPARATION_FAILED
        self._bound = bound = shape.bind(self._shape)
        self._places = participants.places(bound.actors, self._left_s(action))
        self._graph = compiled_internals.compile_graph(
            bound.root, self._terms.buffer_bytes
        )
        return CallbackKind.PREPARED

    def _admit(self, _action: Action) -> Said:
        return CallbackKind.ADMITTED

    def _submit(self, action: Action) -> Said:
        given, self._given = self._given, None
        refused = (CallbackKind.CHANNEL_ERROR, True)
        self._refs, self._open = [], set()
        self._is_cancelled = False
        if self._graph is None:
            return refused
        try:
            packed = compiled_internals.serialize(given)
        except Exception as exc:
            # The input is the user's; the engine has not seen it.
            self.error = exc
            return refused
        size, limit = compiled_internals.size(packed), self._terms.buffer_bytes
        if size > limit:
            self.error = LimitExceeded("input", limit, size)
            return refused
        try:
            refs = compiled_internals.execute(self._graph, packed, self._left_s(action))
        except RayCgraphCapacityExceeded as exc:
            self.error = exc
            return refused
        except RayChannelTimeoutError as exc:
            # Some of its channels may hold it: what comes out next may be of this input.
            self._expire(exc, action)
            return CallbackKind.SUBMISSION_TIMED_OUT
        except Exception as exc:
            return self._broken(exc)
        self._refs = refs
        self._open = set(range(len(self._refs)))
        return CallbackKind.SUBMITTED

    def _consume(self, action: Action) -> Said:
        slot = -1 if action.output is None else action.output
        said, value = self._get(slot, action)
        if said is not CallbackKind.OUTPUT_CONSUMED:
            return said
        if isinstance(value, RayError):
            return CallbackKind.APPLICATION_ERROR
        self.values[slot] = value
        return said

    def _get(self, slot: int, action: Action) -> tuple[Said, object]:
        """Get one slot, once, until the deadline; a method's error counts as its value.

        An error that cannot be unpickled here comes as one of Ray's own, and so does what
        a method gave that cannot: of these nobody knows which method it was.
        """
        if slot not in self._open:
            return CallbackKind.CHANNEL_ERROR, None
        self._open.discard(slot)
        try:
            value = compiled_internals.settle(self._refs[slot], self._left_s(action))
        except RayChannelTimeoutError as exc:
            self._expire(exc, action)
            return CallbackKind.RESULT_TIMED_OUT, None
        except Exception as exc:
            return self._broken(exc), None
        if isinstance(value, RayActorError):
            return self._broken(value), None
        self.settled[slot] = ()
        if isinstance(value, RayError):
            self._blame(value)
            pid = None
            if isinstance(value, RayTaskError):
                pid = compiled_internals.raised_in(value)
            else:
                # What could not be unpickled stays in its channel, which takes no other.
                self._is_spoilt = True
            self.settled[slot] = self._methods_in(pid)
        return CallbackKind.OUTPUT_CONSUMED, value

    def _expire(self, error: Exception, action: Action) -> None:
        """Note a time-out of the engine, told when it is the action's as well."""
        self.error = error
        self._is_spoilt = True
        while self._clock() < action.deadline:
            time.sleep(GRACE_MS / 1_000)

    def _blame(self, error: BaseException) -> None:
        """Keep the first error; it may be of a class that is false."""
        if self.error is None:
            self.error = error

    def _cancel(self, _action: Action) -> Said:
        self._is_cancelled = True
        return CallbackKind.CANCELLED

    def _methods_in(self, pid: int | None) -> tuple[int, ...]:
        """Return the places of the methods of one participant, of all if none is known."""
        places = () if self._bound is None else self._bound.places
        every = tuple(range(len(places)))
        inside = tuple(
            place
            for place, index in enumerate(places)
            if self._places[index].pid == pid
        )
        return inside or every

    def _release_capacity(self, _action: Action) -> Said:
        self._given = None
        return CallbackKind.CAPACITY_RELEASED

    def _drain_invocation(self, action: Action) -> Said:
        if self._is_cancelled and self._has_spent:
            # Its time-out, or the death behind it, came after the cancellation: nobody
            # was told, and nothing proves that the method has ended.
            return CallbackKind.DRAIN_FAILED
        for slot in sorted(self._open):
            said, _ = self._get(slot, action)
            if said is CallbackKind.RESULT_TIMED_OUT:
                return CallbackKind.DEADLINE_EXPIRED
            if said is not CallbackKind.OUTPUT_CONSUMED:
                return CallbackKind.DRAIN_FAILED
        if self._graph is not None:
            compiled_internals.finish(self._graph, self._left_s(action))
        return CallbackKind.DRAINED

    @property
    def _has_spent(self) -> bool:
        """Claim that an output was asked for in vain, and will never be again."""
        return len(self.settled) + len(self._open) < len(self._refs)

    def _drain_session(self, _action: Action) -> Said:
        return CallbackKind.DRAIN_FAILED if self._open else CallbackKind.DRAINED

    def _check_health(self, action: Action) -> Said:
        """A clean end is known here; after any other each participant is asked as well."""
        graph, bound = self._graph, self._bound
        if graph is None or bound is None or self._open or self._is_spoilt:
            return CallbackKind.UNHEALTHY
        if not compiled_internals.is_live(graph):
            return CallbackKind.UNHEALTHY
        if len(self.values) < len(self._refs) or not self._refs:
            participants.answer(bound.actors, self._left_s(action))
            return CallbackKind.HEALTHY
        fits = all(map(self._fits, self.values.values()))
        return CallbackKind.HEALTHY if fits else CallbackKind.UNHEALTHY

    def _fits(self, value: object) -> bool:
        """Claim that an output did not outgrow its buffer, as far as can be told here."""
        if value is None or isinstance(value, bool | int | float):
            return True
        if isinstance(value, bytes | str) and 4 * len(value) < self._terms.buffer_bytes:
            return True
        return (
            compiled_internals.size(compiled_internals.serialize(value))
            <= self._terms.buffer_bytes
        )

    def _broken(self, error: Exception) -> CallbackKind:
        """Tell whether a participant has died, or only a channel is closed."""
        self._blame(error)
        self._is_spoilt = True
        if isinstance(error, RayActorError) or self._has_dead():
            return CallbackKind.ACTOR_DIED
        return CallbackKind.CHANNEL_ERROR

    def _has_dead(self) -> bool:
        graph = self._graph
        if graph is None:
            return False
        # A death closes the channels, and with them the loops of those that live.
        loops = compiled_internals.loops(graph)
        ended, _ = ray.wait(loops, num_returns=len(loops), timeout=LOOK_S)
        return any(map(participants.is_death, ended))

    def _teardown(self, action: Action) -> Said:
        left = min(self._left_s(action), self._terms.teardown_s)
        graph = self._graph
        thread = None
        if graph is not None:
            thread = threading.Thread(
                target=_tear_down, args=(graph,), name="compiled-teardown", daemon=True
            )
            thread.start()
            thread.join(left)
        # What is proven is that nothing is left, however the engine came to it.
        calm = thread is None or not thread.is_alive()
        if not self._end_all(time.monotonic() + participants.KILL_S, calm=calm):
            return CallbackKind.TEARDOWN_FAILED
        if thread is not None:
            thread.join(participants.KILL_S)
            if thread.is_alive():
                return CallbackKind.TEARDOWN_FAILED
        return CallbackKind.TORN_DOWN

    def _end_all(self, until_s: float, *, calm: bool) -> bool:
        """End the participants and the graph's proxy; claim that all are dead.

        With `calm` their loops have ended, and they are asked to leave first.
        """
        graph, bound = self._graph, self._bound
        self._graph = self._bound = self._shape = None
        actors: list[Actor] = [] if bound is None else list(bound.actors)
        if graph is not None:
            actors.append(compiled_internals.proxy(graph))
            for slot in self._open:
                compiled_internals.let_go(self._refs[slot])
        if calm:
            participants.ask_to_leave(actors)
        participants.kill(actors)
        self._refs, self._open = [], set()
        dead = participants.are_gone(actors, self._places, until_s)
        if graph is not None:
            compiled_internals.give_up(graph)
        return dead

    def _left_s(self, action: Action) -> float:
        return max(0.0, (action.deadline - self._clock()) / 1_000)


WORST = {
    ActionKind.VALIDATE: CallbackKind.VALIDATION_REJECTED,
    ActionKind.PREPARE: CallbackKind.PREPARATION_FAILED,
    ActionKind.ADMIT: CallbackKind.CAPACITY_REJECTED,
    ActionKind.SUBMIT: CallbackKind.CHANNEL_ERROR,
    ActionKind.CONSUME_OUTPUT: CallbackKind.CHANNEL_ERROR,
    ActionKind.RELEASE_CAPACITY: CallbackKind.CAPACITY_RELEASE_FAILED,
    ActionKind.CANCEL: CallbackKind.CANCELLATION_FAILED,
    ActionKind.DRAIN_INVOCATION: CallbackKind.DRAIN_FAILED,
    ActionKind.DRAIN_SESSION: CallbackKind.DRAIN_FAILED,
    ActionKind.CHECK_HEALTH: CallbackKind.UNHEALTHY,
    ActionKind.TEARDOWN: CallbackKind.TEARDOWN_FAILED,
}
"""What is told when an action failed in a way that nothing above knows."""


def _tear_down(graph: "CompiledDAG") -> None:
    try:
        graph.teardown()
    except Exception:
        # The participants' end, which follows, is what counts.
        logger.warning("A compiled graph's teardown failed.", exc_info=True)
