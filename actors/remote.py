"""The only place that makes anything remote: names, options, handles, kill.

An actor's name holds its run's id and execution generation, in one namespace. Nothing is
correct because a name is unique or an actor is alive: the fence decides. Contract 4.7.
"""

import logging
import os
import pkgutil
import socket
from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, cast

import ray
from ray.actor import ActorHandle, exit_actor
from ray.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    RayError,
)

from actors import clock, internals, names
from actors.host import ENDED, LOST, Host
from actors.names import ActorName, Ended, HostOutcome, Lost, Running
from django_ray.identity import RunIdentity
from django_ray.progress.pace import Pace, Share
from django_ray.protocol import frames, plan
from django_ray.protocol.limits import V1
from django_ray.protocol.plan import RunSettings

logger = logging.getLogger(__name__)

NAMESPACE = "django_ray"
SETUP_HOOK = "django_ray.process.set_up"
PROCESS = "DJANGO_RAY_PROCESS"
OUTER_NAME = "django_ray.outer"
PUBLICATION_SHARE = 0.1
CONNECT_S = 10.0
RESTARTS = -1
"""A collector is made again as often as it dies; only its own leave ends it."""

Status = dict[str, int | str]
"""What a collector says of itself: counts by reason, and which process it is."""

SILENCE_MS = 60_000
"""How long a collector waits for a word of its coordinator before it leaves."""


def connect(address: str, *, settings_module: str, log_to_driver: bool) -> str:
    """Join the cluster at `address` as a driver whose processes know the settings.

    Returns where that cluster answers, which `auto` does not say. Raises ConnectionError
    when none answers there, or it asks for a token that the environment does not hold.

    The job carries the settings module and the set-up hook, and no secret. What the job
    submits inherits both; actors of ours switch the hook off by their environment. The
    cluster's credentials are what the environment holds at the call.
    """
    internals.require(ray.__version__)
    internals.reread_credentials()
    try:
        _require_listener(address)
        ray.init(
            address=address,
            namespace=NAMESPACE,
            runtime_env={
                "env_vars": {"DJANGO_SETTINGS_MODULE": settings_module},
                "worker_process_setup_hook": SETUP_HOOK,
            },
            log_to_driver=log_to_driver,
            logging_level=logging.WARNING,
        )
    except (OSError, RuntimeError, ValueError, RayError) as exc:
        # Ray names what is wrong by whatever class its layer has.
        raise ConnectionError(f"No Ray could be joined at {address!r}.") from exc
    return str(ray.get_runtime_context().gcs_address)


def _require_listener(address: str) -> None:
    """Raise OSError where nothing listens: Ray itself would go on trying for minutes."""
    host, found, port = address.rpartition(":")
    if found and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


def disconnect() -> None:
    """Leave the cluster; detached actors and what they submitted go on."""
    ray.shutdown()
    internals.reread_credentials()


class _Options(TypedDict):
    """How every detached actor of ours is made."""

    name: str
    namespace: str
    lifetime: Literal["detached"]
    num_cpus: int
    max_restarts: int
    max_task_retries: int
    max_concurrency: int
    runtime_env: dict[str, dict[str, str]]


class HostActor:
    """A Host, made remote."""

    def __init__(self, entry: str, payload: bytes) -> None:
        outer = ray.remote(max_retries=0, num_cpus=0)(_enter).options(
            name=OUTER_NAME, runtime_env={"env_vars": {PROCESS: "task"}}
        )
        self._host = Host(lambda: outer.remote(entry, payload))

    def outcome(self) -> tuple[str, bytes]:
        """Answer for Host.outcome."""
        return self._host.outcome()

    def cancel(self, force: bool) -> None:
        """Answer for Host.cancel."""
        self._host.cancel(force=force)


def _enter(entry: str, payload: bytes) -> bytes:
    """Run a dotted path in the process of the outer task, where Django is set up."""
    function = cast("Callable[[bytes], bytes]", pkgutil.resolve_name(entry))
    return function(payload)


class HostHandle:
    """One run's host, as its worker holds it."""

    def __init__(self, actor: "ActorHandle[HostActor]") -> None:
        self._actor = actor
        self._asked: ray.ObjectRef[tuple[str, bytes]] | None = None

    def outcome(self, timeout_s: float) -> HostOutcome:
        """Ask once, and wait at most `timeout_s` for the answer.

        An answer that is late is taken by the next call; a host that cannot be reached
        for the moment is Running.
        """
        if self._asked is None:
            self._asked = self._actor.outcome.remote()
        try:
            state, value = ray.get(self._asked, timeout=timeout_s)
        except GetTimeoutError:
            return Running()
        except ActorUnavailableError:
            self._asked = None
            return Running()
        except RayError as exc:
            logger.warning("A host was lost: %s", exc)
            return Lost(type(exc).__name__)
        self._asked = None
        if state == ENDED:
            return Ended(value)
        return Lost(value.decode()) if state == LOST else Running()

    def cancel(self, *, force: bool) -> None:
        """Ask the host to interrupt the outer task; do not wait."""
        self._actor.cancel.remote(force)


def start_host(identity: RunIdentity, *, entry: str, payload: bytes) -> HostHandle:
    """Start a run's host, which runs the dotted path `entry` on `payload` at once."""
    name = ActorName("host", identity.run_id, identity.execution_generation)
    host = (
        ray.remote(HostActor)
        .options(**_detached(name, max_restarts=0))
        .remote(entry, payload)
    )
    return HostHandle(cast("ActorHandle[HostActor]", host))


def find_host(run_id: str, generation: int) -> HostHandle | None:
    """Return the run's host, None when it is gone."""
    actor = cast(
        "ActorHandle[HostActor] | None", _find(ActorName("host", run_id, generation))
    )
    return None if actor is None else HostHandle(actor)


class CollectorActor:
    """A run's collector and its publisher's thread, made remote.

    The constructor does not reach for PostgreSQL, so frames are answered at once. It is
    the recovery too: Ray makes the actor again, on whatever node, when its process or its
    node dies, with the same settings, and its first transaction tells whether there is
    something to go on with. Its publisher ends it through its own handle, and it leaves by
    Ray's `exit_actor`: after any other exit Ray would make it again, for ever.
    """

    def __init__(self, settings: bytes) -> None:
        # The host, leaves and workers load this module too, and need no database driver.
        from actors import metrics
        from actors.collector import Collector
        from actors.publisher import Publisher
        from actors.telling import CollectorTeller, Rounds
        from django_ray.storage import pool
        from django_ray.storage.writer import Writer

        internals.bound_arguments(V1.frame)
        told = plan.decode_settings(settings)
        me = ray.get_runtime_context().current_actor
        self._clock = clock.steady()
        self._run_id = told.identity.run_id
        self._collector = Collector(told, Pace(), self._clock())
        teller = CollectorTeller(self._collector, metrics.meter(), self._clock)
        self._publisher = Publisher(
            self._collector,
            Writer(told, pool.dsn),
            share=Share(PUBLICATION_SHARE),
            clock=self._clock,
            silence_ms=SILENCE_MS,
            after_commit=teller.committed,
            leave=lambda: me.leave.remote(),
            observe=teller.passed,
        )
        self._publisher.start()
        self._rounds = Rounds(
            lambda leaving: teller.tell(self._publisher, leaving=leaving)
        )
        self._rounds.start()

    def __repr__(self) -> str:
        return f"Collector({names.short(self._run_id)})"

    def ingest(self, frame: object) -> bytes:
        """Apply a frame and return the encoded answer; refuse whatever else is sent."""
        if isinstance(frame, internals.Unread):
            return frames.encode(self._collector.refuse("frame"))
        data = frame if isinstance(frame, bytes) else b""
        return frames.encode(self._collector.ingest(data, self._clock()))

    def status(self) -> Status:
        """Return a few facts for an operator, with the process they are of."""
        return {**self._collector.status(self._clock()), "process": os.getpid()}

    def leave(self) -> None:
        """End the actor's process; what is told last is exported as it ends."""
        self._rounds.stop()
        exit_actor()  # type: ignore[no-untyped-call]


class _Refused:
    """The ticket of a frame that Ray did not take."""


class RayCollectorHandle:
    """One run's collector as a producer holds it: tickets are Ray's references."""

    def __init__(self, actor: "ActorHandle[CollectorActor]") -> None:
        self._actor = actor

    def send(self, frame: bytes) -> object | None:
        """Send a frame without waiting; the ticket tells of its answer later.

        None once this process has left the cluster: a call would start a Ray of its own.
        """
        if not ray.is_initialized():
            return None
        try:
            return self._actor.ingest.remote(frame)
        except (RayError, PendingCallsLimitExceeded):
            return _Refused()

    def poll(
        self, tickets: Sequence[object], timeout_s: float
    ) -> list[tuple[object, bytes | None]]:
        """Return finished tickets with their answers, None for a call that failed.

        Waits until one is finished, at most `timeout_s`.
        """
        done: list[tuple[object, bytes | None]] = [
            (ticket, None) for ticket in tickets if isinstance(ticket, _Refused)
        ]
        sent = [ticket for ticket in tickets if isinstance(ticket, ray.ObjectRef)]
        if sent:
            ready, pending = ray.wait(sent, timeout=0 if done else timeout_s)
            more, _ = ray.wait(pending, timeout=0) if pending else ([], [])
            done.extend((ticket, _answer(ticket)) for ticket in [*ready, *more])
        return done

    def status(self, timeout_s: float) -> Status | None:
        """Return what the collector says of itself, None when it does not answer."""
        try:
            return ray.get(self._ask(), timeout=timeout_s)
        except (RayError, PendingCallsLimitExceeded):
            return None

    def _ask(self) -> "ray.ObjectRef[Status]":
        return self._actor.status.remote()


def _answer(ticket: "ray.ObjectRef[bytes]") -> bytes | None:
    try:
        return ray.get(ticket)
    except RayError:
        return None


def start_collector(settings: RunSettings) -> RayCollectorHandle:
    """Start a run's collector and do not wait for it: calls queue until it is up."""
    identity = settings.identity
    name = ActorName("collector", identity.run_id, identity.execution_generation)
    collector = (
        ray.remote(CollectorActor)
        .options(
            **_detached(name, max_restarts=RESTARTS),
            max_pending_calls=V1.pending_calls,
        )
        .remote(plan.encode_settings(settings))
    )
    return RayCollectorHandle(cast("ActorHandle[CollectorActor]", collector))


def find_collector(run_id: str, generation: int) -> RayCollectorHandle | None:
    """Return the run's collector, None when there is none."""
    actor = cast(
        "ActorHandle[CollectorActor] | None",
        _find(ActorName("collector", run_id, generation)),
    )
    return None if actor is None else RayCollectorHandle(actor)


def list_detached() -> list[ActorName]:
    """Return every detached actor of ours that the cluster knows by name."""
    listed = ray.util.list_named_actors(all_namespaces=True)
    ours = [names.parse(entry["name"]) for entry in listed if _is_ours(entry)]
    return [name for name in ours if name is not None]


def kill(name: ActorName) -> bool:
    """End an actor at once; False when it was gone."""
    actor = _find(name)
    if actor is None:
        return False
    ray.kill(actor, no_restart=True)
    if name.kind == "host":
        # Its coordinator did so, unless it came to no end.
        internals.forget(internals.identity(actor))
    return True


def _detached(name: ActorName, *, max_restarts: int) -> "_Options":
    return {
        "name": str(name),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": max_restarts,
        # A call that Ray made again would be a frame that arrives twice, and out of order.
        "max_task_retries": 0,
        "max_concurrency": 1,
        "runtime_env": {"env_vars": {PROCESS: "actor"}},
    }


def _is_ours(entry: dict[str, str]) -> bool:
    return entry["namespace"] == NAMESPACE


def _find(name: ActorName) -> "ActorHandle[object] | None":
    try:
        return ray.get_actor(str(name), namespace=NAMESPACE)
    except ValueError:
        return None
