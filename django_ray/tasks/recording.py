"""Records how a run ended: its outcome in the row, then the word to Django and the cluster.

What the row has recorded is final: only then are the run's processes let go. Contract 4.12.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from django.db.utils import DataError
from django.tasks import task_backends
from django.tasks.exceptions import InvalidTask
from django.tasks.signals import task_finished

from django_ray.errors import DjangoRayError, ProtocolError
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.redaction import Redactor
from django_ray.protocol.vocabulary import WorkflowState
from django_ray.tasks import backend, outcome, transitions
from django_ray.tasks.interruption import Why
from django_ray.tasks.outcome import Cancelled, Failed, Refused, Succeeded
from django_ray.tasks.transitions import (
    Held,
    Reconciling,
    Recorded,
    Retrying,
    Stale,
)
from django_ray.tasks.watch import Fleet

STATES = {
    "host_lost": WorkflowState.LOST,
    "cancelled": WorkflowState.CANCELLED,
    "timed_out": WorkflowState.TIMED_OUT,
}
"""The ends that are not FAILED, by the reason the summary names."""

logger = logging.getLogger(__name__)


class Recorder:
    """Writes the ends of the runs that one worker watches."""

    def __init__(
        self, fleet: Fleet, redactor: Redactor, clock: Callable[[], datetime]
    ) -> None:
        self._fleet = fleet
        self._redactor = redactor
        self._clock = clock

    def ended(self, held: Held, envelope: bytes) -> None:
        """Record what the outer task said of itself."""
        said = _decode(envelope)
        match said:
            case Succeeded(result=result):
                self._succeed(held, result)
            case Failed():
                self._fail(held, said, "error")
            case Cancelled(retry=retry):
                self._fail(held, outcome.interrupted("cancelled", retry), "cancelled")
            case Refused():
                self._fail(held, outcome.lost("refused"), "refused")
            case ProtocolError():
                self._fail(held, outcome.of_fault(said), "malformed_outcome")

    def interrupted(self, held: Held, why: Why, envelope: bytes | None) -> None:
        """Record the end of a run that was being interrupted, whatever it said.

        But a function that returned in spite of a cancellation has succeeded. What an
        interrupted one raised is kept with the attempt.
        """
        said = None if envelope is None else _decode(envelope)
        if isinstance(said, Succeeded) and why is Why.cancelled:
            self._succeed(held, said.result)
        elif isinstance(said, Failed):
            self._fail(held, said, why)
        else:
            retry = said.retry if isinstance(said, Cancelled) else None
            self._fail(held, outcome.interrupted(why, retry), why)

    def lost(self, held: Held, why: str) -> None:
        """Record that no outcome will come; `why` is a fixed word or a class of Ray's."""
        self._fail(held, outcome.lost(why), "host_lost")

    def not_started(self, held: Held, exc: Exception) -> None:
        """Record that the cluster did not take the run's host."""
        error = DjangoRayError("The run's host could not be started.")
        error.__cause__ = exc
        self._fail(held, outcome.of_error(error, self._redactor), "host_not_started")

    def _succeed(self, held: Held, result: bytes) -> None:
        try:
            recorded = transitions.succeed(held, result, now=self._clock())
        except DataError as exc:
            error = outcome.of_error(exc, self._redactor)
            self._fail(held, error, "result_refused")
        else:
            self._close(held, recorded)

    def _fail(self, held: Held, error: Failed, reason: str) -> None:
        state = STATES.get(reason, WorkflowState.FAILED)
        recorded = transitions.fail(
            held, state, error, reason=reason, now=self._clock()
        )
        self._close(held, recorded)

    def _close(
        self, held: Held, recorded: Recorded | Retrying | Reconciling | Stale
    ) -> None:
        """Tell Django, and let go of the run's processes: the row has its outcome.

        An attempt that another may follow is no end for Django. A run that goes on under
        another worker's lease is left alone.
        """
        match recorded:
            case Recorded(execution):
                announce(execution)
            case Stale() if transitions.is_active(held.identity):
                return
        try:
            self._fleet.release(held.identity)
        except Exception:
            # The reconciler ends what is left.
            logger.warning("A run's actors could not be ended.", exc_info=True)


def _decode(envelope: bytes) -> outcome.Outcome | ProtocolError:
    try:
        return outcome.decode(envelope)
    except ProtocolError as exc:
        return exc


def announce(execution: RayTaskExecution) -> None:
    """Send Django's `task_finished`; a receiver's fault stays its own."""
    try:
        result = backend.result_of(execution)
    except InvalidTask as exc:
        logger.warning("No task_finished signal: %s (%r)", exc, exc.__cause__)
        return
    sender = type(task_backends[execution.backend])
    task_finished.send_robust(sender, task_result=result)
