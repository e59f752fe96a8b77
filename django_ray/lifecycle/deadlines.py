"""What becomes of an action whose deadline has passed. Lifecycle 4.

The outcome is OUTER_DEADLINE where `outer` is not later than the stage's deadline, else
the row's; in no case in place of one that stands.
"""

from django_ray.lifecycle.tables import Row, proven_not_started
from django_ray.lifecycle.vocabulary import (
    ActionKind,
    CleanupCode,
    GraphDisposition,
    InvocationState,
    Outcome,
    OutputState,
    SessionState,
)

DEADLINES = {
    ActionKind.VALIDATE: (Row(session=SessionState.REJECTED, closes_fallback=True),),
    ActionKind.PREPARE: (
        Row(graph=GraphDisposition.REBUILD_REQUIRED, issues=ActionKind.TEARDOWN),
    ),
    ActionKind.ADMIT: (
        Row(
            outcome=Outcome.ADMISSION_TIMEOUT,
            open_outputs=OutputState.NOT_CREATED,
            issues=ActionKind.RELEASE_CAPACITY,
        ),
    ),
    ActionKind.SUBMIT: (
        Row(
            when=proven_not_started,
            outcome=Outcome.SUBMIT_TIMEOUT,
            graph=GraphDisposition.DRAIN_REQUIRED,
            open_outputs=OutputState.NOT_CREATED,
            issues=ActionKind.DRAIN_INVOCATION,
        ),
        Row(
            outcome=Outcome.SUBMIT_TIMEOUT,
            graph=GraphDisposition.DRAIN_REQUIRED,
            issues=ActionKind.DRAIN_INVOCATION,
        ),
    ),
    ActionKind.CONSUME_OUTPUT: (
        Row(
            outcome=Outcome.GET_TIMEOUT,
            graph=GraphDisposition.REBUILD_REQUIRED,
            claimed_output=OutputState.RELEASE_PENDING,
            issues=ActionKind.DRAIN_INVOCATION,
        ),
    ),
    ActionKind.RELEASE_CAPACITY: (
        Row(
            code=CleanupCode.CAPACITY_RELEASE_TIMEOUT,
            invocation=InvocationState.TERMINAL,
            graph=GraphDisposition.REBUILD_REQUIRED,
            issues=ActionKind.TEARDOWN,
        ),
    ),
    ActionKind.CANCEL: (
        Row(
            code=CleanupCode.CANCELLATION_TIMEOUT,
            issues=ActionKind.DRAIN_INVOCATION,
        ),
    ),
    ActionKind.DRAIN_INVOCATION: (
        Row(
            outcome=Outcome.DRAIN_TIMEOUT,
            code=CleanupCode.DRAIN_TIMEOUT,
            graph=GraphDisposition.REBUILD_REQUIRED,
            issues=ActionKind.TEARDOWN,
        ),
    ),
    ActionKind.DRAIN_SESSION: (
        Row(
            outcome=Outcome.DRAIN_TIMEOUT,
            code=CleanupCode.DRAIN_TIMEOUT,
            graph=GraphDisposition.REBUILD_REQUIRED,
            issues=ActionKind.TEARDOWN,
        ),
    ),
    ActionKind.CHECK_HEALTH: (
        Row(
            code=CleanupCode.HEALTH_CHECK_FAILED,
            graph=GraphDisposition.REBUILD_REQUIRED,
            issues=ActionKind.TEARDOWN,
        ),
    ),
    ActionKind.TEARDOWN: (
        Row(
            outcome=Outcome.TEARDOWN_FAILURE,
            code=CleanupCode.TEARDOWN_TIMEOUT,
            session=SessionState.QUARANTINED,
            open_outputs=OutputState.CLEANUP_UNCONFIRMED,
            invocation=InvocationState.TERMINAL,
        ),
    ),
}
"""By pending action; VALIDATE and PREPARE have no stage but `outer`."""
