"""What each answer to the pending action means. Lifecycle 3."""

from django_ray.lifecycle.tables import (
    AS_ITS_DEADLINE,
    Row,
    Rows,
    admission_open,
    drain_required,
    others_open,
    proven_not_started,
)
from django_ray.lifecycle.vocabulary import (
    ActionKind,
    CallbackKind,
    CleanupCode,
    GraphDisposition,
    InvocationState,
    Outcome,
    OutputState,
    RetryDisposition,
    SessionState,
)

ANSWERS: dict[ActionKind, dict[CallbackKind, Rows]] = {
    ActionKind.VALIDATE: {
        CallbackKind.VALIDATED: (Row(session=SessionState.VALIDATED),),
        CallbackKind.VALIDATION_REJECTED: (
            Row(session=SessionState.REJECTED, outcome=Outcome.VALIDATION_REJECTED),
        ),
    },
    ActionKind.PREPARE: {
        CallbackKind.PREPARED: (
            Row(
                when=admission_open,
                session=SessionState.READY,
                graph=GraphDisposition.PREPARED,
            ),
            Row(graph=GraphDisposition.PREPARED, issues=ActionKind.DRAIN_SESSION),
        ),
        CallbackKind.PREPARATION_FAILED: (
            Row(
                outcome=Outcome.PREPARATION_FAILED,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
    },
    ActionKind.ADMIT: {
        CallbackKind.ADMITTED: (Row(invocation=InvocationState.ADMITTED),),
        CallbackKind.CAPACITY_REJECTED: (
            Row(
                session=SessionState.READY,
                invocation=InvocationState.TERMINAL,
                outcome=Outcome.CAPACITY_REJECTED,
                open_outputs=OutputState.NOT_CREATED,
                graph=GraphDisposition.PREPARED,
                retry=RetryDisposition.AUTOMATIC_ALLOWED,
            ),
        ),
        CallbackKind.ADMISSION_TIMED_OUT: AS_ITS_DEADLINE,
    },
    ActionKind.SUBMIT: {
        CallbackKind.SUBMITTED: (
            Row(
                invocation=InvocationState.RUNNING,
                open_outputs=OutputState.AVAILABLE,
            ),
        ),
        CallbackKind.APPLICATION_ERROR: (
            Row(
                outcome=Outcome.APPLICATION_ERROR,
                graph=GraphDisposition.DRAIN_REQUIRED,
                issues=ActionKind.DRAIN_INVOCATION,
            ),
        ),
        CallbackKind.ACTOR_DIED: (
            Row(
                outcome=Outcome.ACTOR_DIED,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
        CallbackKind.CHANNEL_ERROR: (
            Row(
                when=proven_not_started,
                outcome=Outcome.CHANNEL_ERROR,
                graph=GraphDisposition.DRAIN_REQUIRED,
                open_outputs=OutputState.NOT_CREATED,
                issues=ActionKind.DRAIN_INVOCATION,
            ),
            Row(
                outcome=Outcome.CHANNEL_ERROR,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
        CallbackKind.SUBMISSION_TIMED_OUT: AS_ITS_DEADLINE,
    },
    ActionKind.CONSUME_OUTPUT: {
        CallbackKind.OUTPUT_CONSUMED: (
            Row(
                when=others_open,
                claimed_output=OutputState.CONSUMED,
                invocation=InvocationState.RUNNING,
            ),
            Row(
                claimed_output=OutputState.CONSUMED,
                outcome=Outcome.SUCCEEDED,
                brings=RetryDisposition.PROHIBITED,
                issues=ActionKind.CHECK_HEALTH,
            ),
        ),
        CallbackKind.APPLICATION_ERROR: (
            Row(
                claimed_output=OutputState.CONSUMED,
                outcome=Outcome.APPLICATION_ERROR,
                graph=GraphDisposition.DRAIN_REQUIRED,
                issues=ActionKind.DRAIN_INVOCATION,
            ),
        ),
        CallbackKind.ACTOR_DIED: (
            Row(
                claimed_output=OutputState.RELEASE_PENDING,
                outcome=Outcome.ACTOR_DIED,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
        CallbackKind.CHANNEL_ERROR: (
            Row(
                claimed_output=OutputState.RELEASE_PENDING,
                outcome=Outcome.CHANNEL_ERROR,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
        CallbackKind.RESULT_TIMED_OUT: AS_ITS_DEADLINE,
    },
    ActionKind.RELEASE_CAPACITY: {
        CallbackKind.CAPACITY_RELEASED: (
            Row(
                when=admission_open,
                session=SessionState.READY,
                invocation=InvocationState.TERMINAL,
                graph=GraphDisposition.PREPARED,
            ),
            Row(
                invocation=InvocationState.TERMINAL,
                graph=GraphDisposition.PREPARED,
                issues=ActionKind.DRAIN_SESSION,
            ),
        ),
        CallbackKind.CAPACITY_RELEASE_FAILED: (
            Row(
                code=CleanupCode.CAPACITY_RELEASE_FAILED,
                invocation=InvocationState.TERMINAL,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
    },
    ActionKind.CANCEL: {
        CallbackKind.CANCELLED: (Row(issues=ActionKind.DRAIN_INVOCATION),),
        CallbackKind.CANCELLATION_FAILED: (
            Row(
                code=CleanupCode.CANCELLATION_FAILED,
                issues=ActionKind.DRAIN_INVOCATION,
            ),
        ),
    },
    ActionKind.DRAIN_INVOCATION: {
        CallbackKind.DRAINED: (
            Row(
                when=drain_required,
                open_outputs=OutputState.ADAPTER_RELEASED,
                issues=ActionKind.CHECK_HEALTH,
            ),
            Row(issues=ActionKind.TEARDOWN),
        ),
        CallbackKind.DRAIN_FAILED: (
            Row(
                code=CleanupCode.DRAIN_FAILED,
                outcome=Outcome.DRAIN_FAILURE,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
    },
    ActionKind.DRAIN_SESSION: {
        CallbackKind.DRAINED: (Row(issues=ActionKind.TEARDOWN),),
        CallbackKind.DRAIN_FAILED: (
            Row(
                code=CleanupCode.DRAIN_FAILED,
                outcome=Outcome.DRAIN_FAILURE,
                issues=ActionKind.TEARDOWN,
            ),
        ),
    },
    ActionKind.CHECK_HEALTH: {
        CallbackKind.HEALTHY: (
            Row(
                when=admission_open,
                session=SessionState.READY,
                invocation=InvocationState.TERMINAL,
                graph=GraphDisposition.REUSABLE,
            ),
            Row(
                invocation=InvocationState.TERMINAL,
                issues=ActionKind.DRAIN_SESSION,
            ),
        ),
        CallbackKind.UNHEALTHY: (
            Row(
                code=CleanupCode.HEALTH_CHECK_FAILED,
                graph=GraphDisposition.REBUILD_REQUIRED,
                issues=ActionKind.TEARDOWN,
            ),
        ),
    },
    ActionKind.TEARDOWN: {
        CallbackKind.TORN_DOWN: (
            Row(
                session=SessionState.TORN_DOWN,
                graph=GraphDisposition.TORN_DOWN,
                open_outputs=OutputState.UNAVAILABLE_AFTER_TEARDOWN,
                invocation=InvocationState.TERMINAL,
            ),
        ),
        CallbackKind.TEARDOWN_FAILED: (
            Row(
                code=CleanupCode.TEARDOWN_FAILED,
                outcome=Outcome.TEARDOWN_FAILURE,
                session=SessionState.QUARANTINED,
                open_outputs=OutputState.CLEANUP_UNCONFIRMED,
                invocation=InvocationState.TERMINAL,
            ),
        ),
    },
}
"""By pending action and callback; DEADLINE_EXPIRED is accepted of every action."""
