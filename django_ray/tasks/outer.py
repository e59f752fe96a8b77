"""The outer Ray task: runs the user's function inside its run, and raises nothing of it.

It starts the run's collector without waiting for it: whatever becomes of progress, the
function runs, and its outcome is the task's. Architecture 2, contract 4.12.
"""

import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import cast

import msgspec
from django.db import close_old_connections, connection, connections
from django.db.utils import Error
from django.tasks import task_backends
from django.tasks.base import Task, TaskContext, TaskResult
from django.tasks.signals import task_started
from django.utils import timezone

from actors import clock, coordinator, metrics, remote
from actors.producer import Producer
from django_ray import conf
from django_ray.away import is_away
from django_ray.identity import RunIdentity
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol import plan
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.redaction import Redactor
from django_ray.protocol.vocabulary import ReportingPolicy
from django_ray.tasks import (
    backend,
    coroutines,
    envelope,
    noting,
    outcome,
    transitions,
)
from django_ray.tasks.outcome import Cancelled, Failed, Outcome, Refused, Succeeded
from django_ray.tasks.transitions import Recorded, Stale

START_SECONDS = 60.0
"""How long the start waits for PostgreSQL before the attempt fails."""

START_STEP_SECONDS = 0.5

logger = logging.getLogger(__name__)

_identity = msgspec.msgpack.Decoder(RunIdentity)


def execute(payload: bytes) -> bytes:
    """Run one execution to its end and return its outcome's envelope."""
    close_old_connections()
    try:
        return outcome.encode(_execute(_identity.decode(payload)))
    except KeyboardInterrupt:
        return outcome.encode(Cancelled())
    finally:
        connections.close_all()


def _execute(identity: RunIdentity) -> Outcome:
    try:
        redactor = Redactor(conf.current().redact)
    except Exception as exc:
        return outcome.of_error(exc, Redactor(()))
    try:
        started = _start(identity)
        if isinstance(started, Stale):
            return Refused()
        call = _Call.of(started.execution)
        sender = type(task_backends[call.result.backend])
        task_started.send_robust(sender, task_result=call.result)
        run = _Run(settings_of(started.execution, identity), redactor)
    except Exception as exc:
        return outcome.of_error(exc, redactor)
    return run.execute(call)


def _start(identity: RunIdentity) -> Recorded | Stale:
    """Take the row to RUNNING, over a short absence of PostgreSQL."""
    deadline = time.monotonic() + START_SECONDS
    again = False
    while True:
        try:
            return transitions.start(identity, now=timezone.now(), again=again)
        except Error as exc:
            if not is_away(exc) or time.monotonic() > deadline:
                raise
            again = True
            connection.close()
            time.sleep(START_STEP_SECONDS)


@dataclass(frozen=True, slots=True)
class _Call:
    """The user's function with what it is called with."""

    task: "Task[..., object]"
    result: "TaskResult[..., object]"

    @classmethod
    def of(cls, execution: RayTaskExecution) -> "_Call":
        result = backend.result_of(execution)
        return cls(result.task, result)

    def __call__(self, stop: Callable[[], object]) -> object:
        process = os.getpid()
        try:
            return self._call(stop)
        finally:
            if os.getpid() != process:
                # The child of a fork came back: it is not the task, and shares its sockets.
                os._exit(0)

    def _call(self, stop: Callable[[], object]) -> object:
        args, kwargs = self.result.args, self.result.kwargs
        if self.task.takes_context:
            args = [TaskContext(task_result=self.result), *args]
        value = self.task.func(*args, **kwargs)
        if iscoroutinefunction(self.task.func):
            return coroutines.run(cast("Awaitable[object]", value), stop)
        return value


def settings_of(execution: RayTaskExecution, identity: RunIdentity) -> RunSettings:
    """Return what the run's coordinator and collector are told."""
    options = conf.applied(conf.parse_options(execution.options))
    if execution.plan is not None:
        plan.materialize(execution.plan)
    return RunSettings(
        identity=identity,
        policy=options.policy,
        strategy=options.strategy,
        plan_fingerprint=execution.plan_fingerprint,
        started_at_ms=envelope.milliseconds(execution.started_at or timezone.now()),
        retention_days=options.retention_days,
        limits=conf.limits_of(options.profile),
        redact=conf.current().redact,
        effects=options.effects,
    )


class _Run:
    """One run in this process: its coordinator, and its producer if it reports."""

    def __init__(self, told: RunSettings, redactor: Redactor) -> None:
        self._redactor = redactor
        now = clock.steady()
        window = coordinator.default_window()
        self._producer = self._report(told, now)
        self._coordinator = coordinator.Coordinator(
            told,
            self._producer,
            max_in_flight=window,
            clock=now,
            note=noting.note_of(told.identity),
        )
        # Last: a producer that lives keeps its collector, also of a run that does not.
        if self._producer is not None:
            self._producer.start()

    def execute(self, call: Callable[[Callable[[], object]], object]) -> Outcome:
        """Call the function, tell the collector how it ended, and return the outcome."""
        try:
            with coordinator.activate(self._coordinator):
                value = call(self._coordinator.stop)
            said = outcome.of_result(value, self._redactor)
        except KeyboardInterrupt as exc:
            self._end("CANCELLED", exc)
            return Cancelled(self._retry)
        except BaseException as exc:
            # SystemExit included: the user's function ends its task, not the process.
            self._end("FAILED", exc)
            return self._failed(outcome.of_error(exc, self._redactor))
        match said:
            case Succeeded():
                self._end("SUCCEEDED", None)
                return said
            case Failed():
                self._end("FAILED", TypeError("The result cannot be stored."))
                return self._failed(said)

    @property
    def _retry(self) -> RetryDisposition | None:
        # After the end, which has closed every session that nobody is at.
        return self._coordinator.dispositions.current

    def _failed(self, said: Failed) -> Failed:
        return msgspec.structs.replace(said, retry=self._retry)

    def _report(self, told: RunSettings, now: Callable[[], int]) -> Producer | None:
        if told.policy is ReportingPolicy.disabled:
            return None
        try:
            handle = remote.start_collector(told)
        except Exception:
            # The run goes on unseen; the row's summary is derived at its end.
            logger.exception("The run's collector could not be started.")
            return None
        return Producer(
            run_id=told.identity.run_id,
            generation=told.identity.execution_generation,
            kind=ProducerKind.coordinator,
            producer=uuid.uuid4().bytes,
            handle=handle,
            limits=told.limits,
            clock=now,
            resync=lambda: self._coordinator.resync(),
            tell=metrics.of_producer(),
        )

    def _end(self, ended: coordinator.Outcome, error: BaseException | None) -> None:
        try:
            if not self._coordinator.end(ended, error):
                logger.warning("The end of a run was not committed in time.")
        except KeyboardInterrupt:
            # The function had come to its end before it was to be interrupted.
            logger.warning("The end of a run was interrupted.")
        except Exception:
            # Reporting never decides how a task ends.
            logger.exception("The end of a run could not be reported.")
        finally:
            # Ray gives the process to other tasks: nothing of this run may go on in it.
            if self._producer is not None:
                self._producer.stop()
