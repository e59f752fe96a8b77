"""A run's owner, made remote: an actor of its outer task, with which it ends.

Its participants are actors of its own, so that they end with it: Ray ends what a process
has made when the process is gone. It is not detached, has no name and is never made again.
Control has a thread of its own. Lifecycle 5, architecture 2.
"""

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import ray
from ray.actor import ActorHandle, exit_actor
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from actors import clock, compiled_internals, metrics, names
from actors.account import Method
from actors.chronicle import Chronicle
from actors.compiled_graph import BUFFER_BYTES, CompiledGraphAdapter, Terms
from actors.owner import Answer, Owner, OwnerTerms
from actors.producer import Producer
from actors.reports import LateHandle
from actors.telling import OwnerTeller, Rounds
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import CommandKind
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.plan import RunSettings

CONTROL = "control"
SETTLE_S = 5.0
"""How long the owner waits at its end until what it told is committed."""

LEAVE_S = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an owner is made of. Without `settings` nothing is reported."""

    build: Callable[[], object]
    terms: OwnerTerms
    buffer_bytes: int = BUFFER_BYTES
    settings: RunSettings | None


class OwnerActor:
    """An Owner, made remote, with its producer."""

    def __init__(self, order: Order) -> None:
        told, terms = order.settings, order.terms
        self._run_id = terms.run.run_id
        self._now = clock.steady()
        self._producer = None if told is None else self._report(told)
        nudge = (
            threading.Event().set if self._producer is None else self._producer.nudge
        )
        self._chronicle = Chronicle(() if told is None else told.redact, nudge)

        def engine(like: tuple[Method, ...]) -> CompiledGraphAdapter:
            return CompiledGraphAdapter(
                Terms(
                    order.build,
                    terms.outputs,
                    like,
                    buffer_bytes=order.buffer_bytes,
                    teardown_s=terms.budgets.teardown,
                ),
                self._now,
            )

        self._owner = Owner(
            terms,
            engine,
            clock=self._now,
            identify=lambda: uuid.uuid4().hex,
            news=self._chronicle,
        )
        if self._producer is not None:
            self._producer.start()
        teller = OwnerTeller(self._chronicle.tallies, metrics.meter())
        self._rounds = Rounds(lambda leaving: teller.tell(leaving=leaving))
        self._rounds.start()

    def __repr__(self) -> str:
        return f"Owner({names.short(self._run_id)})"

    def _report(self, told: RunSettings) -> Producer:
        identity = told.identity
        return Producer(
            run_id=identity.run_id,
            generation=identity.execution_generation,
            kind=ProducerKind.owner,
            producer=uuid.uuid4().bytes,
            handle=LateHandle(identity.run_id, identity.execution_generation),
            limits=told.limits,
            clock=self._now,
            pull=lambda: self._chronicle.records(),
            tell=metrics.of_producer(),
        )

    def prepare(self) -> Answer:
        """Answer for Owner.prepare."""
        answer = self._owner.prepare()
        self._chronicle.counts(len(answer.methods))
        return _carried(answer)

    def invoke(self, value: object, first: int | None, invocation_id: str) -> Answer:
        """Answer for Owner.invoke; `first` is the ordinal of the first method."""
        self._chronicle.first = first
        return _carried(self._owner.invoke(value, invocation_id))

    @ray.method(concurrency_group=CONTROL)
    def control(self, kind: str) -> CompiledGraphSessionState:
        """Answer for Owner.control."""
        return self._owner.control(CommandKind(kind))

    def close(self) -> Answer:
        """Answer for Owner.close, when all is told that there is to tell."""
        answer = self._owner.close()
        if self._producer is not None:
            self._producer.take_news()
            self._producer.settle(SETTLE_S)
            self._producer.stop()
        self._rounds.stop()
        return answer

    def leave(self) -> None:
        """End the actor's process by itself, so that it takes its semaphores along."""
        exit_actor()  # type: ignore[no-untyped-call]


def _carried(answer: Answer) -> Answer:
    """Return an answer whose error can travel: one that cannot goes as its text alone."""
    error = answer.error
    if error is None or compiled_internals.can_travel(error):
        return answer
    return replace(answer, error=RayError(type(error).__name__))


class OwnerHandle(Protocol):
    """The way to an owner; None is the answer of one that is gone."""

    def prepare(self, timeout_s: float | None) -> Answer | None: ...

    def send(self, value: object, first: int | None, invocation_id: str) -> None: ...

    def receive(self, timeout_s: float | None) -> Answer | None: ...

    def settle(self, timeout_s: float) -> Answer | None: ...

    def control(self, kind: CommandKind) -> None: ...

    def close(self, timeout_s: float) -> Answer | None: ...

    def kill(self) -> None: ...


class RayOwnerHandle:
    """A run's owner as its outer task holds it; each call waits for its answer.

    A lost owner is None, whatever Ray calls it.
    """

    def __init__(self, actor: "ActorHandle[OwnerActor]") -> None:
        self._actor = actor
        self._asked: ray.ObjectRef[Answer] | None = None

    def prepare(self, timeout_s: float | None) -> Answer | None:
        """Prepare the first session; past `timeout_s` the owner counts as lost."""
        return self._wait_or_end(self._call("prepare"), timeout_s)

    def send(self, value: object, first: int | None, invocation_id: str) -> None:
        """Have one input sent through the graph; raise TypeError where it cannot travel."""
        self._asked = None
        self._asked = self._call("invoke", value, first, invocation_id)

    def receive(self, timeout_s: float | None) -> Answer | None:
        """Return the answer to the input that was sent; as `prepare` past `timeout_s`."""
        if self._asked is None:
            return None
        return self._wait_or_end(self._asked, timeout_s)

    def settle(self, timeout_s: float) -> Answer | None:
        """Return the answer to an invocation whose wait was interrupted, None without one."""
        if self._asked is None:
            return None
        try:
            return self._wait(self._asked, timeout_s)
        except GetTimeoutError:
            return None

    def control(self, kind: CommandKind) -> None:
        """Tell the owner at once, and wait for no answer."""
        self._call("control", str(kind))

    def close(self, timeout_s: float) -> Answer | None:
        """Drain and tear down, within `timeout_s`, then end the actor."""
        try:
            answer = self._wait(self._call("close"), timeout_s)
            ray.wait([self._call("leave")], timeout=LEAVE_S)
        except GetTimeoutError:
            return None
        else:
            return answer
        finally:
            self.kill()

    def kill(self) -> None:
        """End the owner at once; its participants end with it."""
        ray.kill(self._actor, no_restart=True)

    def _call(self, name: str, *given: object) -> "ray.ObjectRef[Answer]":
        call = getattr(self._actor, name).remote
        return cast("ray.ObjectRef[Answer]", call(*given))

    def _wait_or_end(
        self, asked: "ray.ObjectRef[Answer]", timeout_s: float | None
    ) -> Answer | None:
        try:
            return self._wait(asked, timeout_s)
        except GetTimeoutError:
            logger.warning("An owner did not end by its outer deadline, and is ended.")
            self.kill()
            return None

    def _wait(
        self, asked: "ray.ObjectRef[Answer]", timeout_s: float | None
    ) -> Answer | None:
        try:
            return ray.get(asked, timeout=timeout_s)
        except (RayActorError, RayTaskError) as exc:
            # Gone, or of no further use: its own fault, or an input that no process can
            # read. What it was at is not known in either case.
            logger.warning("An owner was lost: %s", type(exc).__name__)
            self.kill()
            return None


def start_owner(order: Order) -> RayOwnerHandle:
    """Start a run's owner from its outer task."""
    make = cast("Callable[..., Callable[[type], Any]]", ray.remote)
    options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
    actor = make(**options, concurrency_groups={CONTROL: 1})(OwnerActor).remote(order)
    return RayOwnerHandle(cast("ActorHandle[OwnerActor]", actor))
