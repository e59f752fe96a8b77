"""Whose event each is, the session's or its invocation's. Lifecycle 1."""

from enum import Enum, auto

from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind


class Scope(Enum):
    """Whether an event must name the invocation, must not, or may."""

    SESSION = auto()
    """It names none."""
    INVOCATION = auto()
    """It names the current one."""
    OPTIONAL = auto()
    """It may name the current one."""
    IN_PROGRESS = auto()
    """INVOCATION while one is in progress, else OPTIONAL."""
    PENDING = auto()
    """The pending action's; OPTIONAL with none pending."""
    ADMISSION = auto()
    """It brings a new one."""


COMMAND_SCOPES = {
    CommandKind.VALIDATION_REQUESTED: Scope.SESSION,
    CommandKind.PREPARATION_REQUESTED: Scope.SESSION,
    CommandKind.ADMISSION_REQUESTED: Scope.ADMISSION,
    CommandKind.SUBMISSION_REQUESTED: Scope.INVOCATION,
    CommandKind.CONSUMPTION_REQUESTED: Scope.INVOCATION,
    CommandKind.CANCELLATION_REQUESTED: Scope.IN_PROGRESS,
    CommandKind.DRAIN_REQUESTED: Scope.IN_PROGRESS,
    CommandKind.TEARDOWN_REQUESTED: Scope.SESSION,
    CommandKind.OWNER_LOST: Scope.IN_PROGRESS,
    CommandKind.OUTER_DEADLINE_EXPIRED: Scope.SESSION,
}

CALLBACK_SCOPES = {
    CallbackKind.VALIDATED: Scope.SESSION,
    CallbackKind.VALIDATION_REJECTED: Scope.SESSION,
    CallbackKind.PREPARED: Scope.SESSION,
    CallbackKind.PREPARATION_FAILED: Scope.SESSION,
    CallbackKind.ADMITTED: Scope.INVOCATION,
    CallbackKind.CAPACITY_REJECTED: Scope.INVOCATION,
    CallbackKind.ADMISSION_TIMED_OUT: Scope.INVOCATION,
    CallbackKind.SUBMITTED: Scope.INVOCATION,
    CallbackKind.SUBMISSION_TIMED_OUT: Scope.INVOCATION,
    CallbackKind.APPLICATION_ERROR: Scope.INVOCATION,
    CallbackKind.ACTOR_DIED: Scope.INVOCATION,
    CallbackKind.CHANNEL_ERROR: Scope.INVOCATION,
    CallbackKind.OUTPUT_CONSUMED: Scope.INVOCATION,
    CallbackKind.RESULT_TIMED_OUT: Scope.INVOCATION,
    CallbackKind.CAPACITY_RELEASED: Scope.INVOCATION,
    CallbackKind.CAPACITY_RELEASE_FAILED: Scope.INVOCATION,
    CallbackKind.CANCELLED: Scope.INVOCATION,
    CallbackKind.CANCELLATION_FAILED: Scope.INVOCATION,
    CallbackKind.DRAINED: Scope.PENDING,
    CallbackKind.DRAIN_FAILED: Scope.PENDING,
    CallbackKind.HEALTHY: Scope.INVOCATION,
    CallbackKind.UNHEALTHY: Scope.INVOCATION,
    CallbackKind.TORN_DOWN: Scope.SESSION,
    CallbackKind.TEARDOWN_FAILED: Scope.SESSION,
    CallbackKind.DEADLINE_EXPIRED: Scope.PENDING,
}
