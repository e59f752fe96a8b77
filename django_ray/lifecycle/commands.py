"""What each request of the owner means, and when it is accepted. Lifecycle 2.

`idle` rows hold while no invocation is in progress and go by the session's state, `busy`
rows by the state of the invocation in progress. What neither has is INVALID_TRANSITION.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django_ray.lifecycle.tables import (
    Row,
    Rows,
    effects_not_started,
    graph_prepared,
    may_admit,
    succeeded,
)
from django_ray.lifecycle.vocabulary import (
    ActionKind,
    CommandKind,
    EffectState,
    GraphDisposition,
    InvocationState,
    Outcome,
    OutputState,
    RetryDisposition,
    SessionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The rows of one command."""

    idle: Mapping[SessionState, Rows]
    busy: Mapping[InvocationState, Rows]


_CANCELLED = Row(
    closes_admission=True,
    outcome=Outcome.CANCELLED_PRE_SUBMISSION,
    brings=RetryDisposition.PROHIBITED,
    keeps=True,
)
_CANCELLED_BEFORE_PREPARATION = Row(
    closes_admission=True,
    closes_fallback=True,
    outcome=Outcome.CANCELLED_PRE_SUBMISSION,
    brings=RetryDisposition.PROHIBITED,
    session=SessionState.REJECTED,
)
_CANCELLED_BEFORE_SUBMISSION = Row(
    closes_admission=True,
    outcome=Outcome.CANCELLED_PRE_SUBMISSION,
    brings=RetryDisposition.PROHIBITED,
    open_outputs=OutputState.NOT_CREATED,
    issues=ActionKind.RELEASE_CAPACITY,
)
_CANCELLED_AFTER_SUBMISSION = Row(
    closes_admission=True,
    outcome=Outcome.CANCELLED_AFTER_SUBMISSION,
    graph=GraphDisposition.DRAIN_REQUIRED,
    retry=RetryDisposition.APPLICATION_POLICY_REQUIRED,
    issues=ActionKind.CANCEL,
)
_CANCELLED_IN_CONSUMPTION = Row(
    closes_admission=True,
    outcome=Outcome.CANCELLED_AFTER_SUBMISSION,
    graph=GraphDisposition.DRAIN_REQUIRED,
    retry=RetryDisposition.APPLICATION_POLICY_REQUIRED,
    claimed_output=OutputState.RELEASE_PENDING,
    issues=ActionKind.CANCEL,
)
_CANCELLED_AGAIN = Row(closes_admission=True, keeps=True)

_LOST_UNPREPARED = Row(session=SessionState.QUARANTINED, outcome=Outcome.OWNER_LOST)
_LOST_PREPARED = Row(
    session=SessionState.QUARANTINED,
    outcome=Outcome.OWNER_LOST,
    graph=GraphDisposition.REBUILD_REQUIRED,
)
_LOST_BEFORE_SUBMISSION = Row(
    when=effects_not_started,
    session=SessionState.QUARANTINED,
    outcome=Outcome.OWNER_LOST,
    invocation=InvocationState.TERMINAL,
    graph=GraphDisposition.REBUILD_REQUIRED,
    open_outputs=OutputState.NOT_CREATED,
)
_LOST_AFTER_SUCCESS = Row(
    when=succeeded,
    session=SessionState.QUARANTINED,
    invocation=InvocationState.TERMINAL,
    graph=GraphDisposition.REBUILD_REQUIRED,
    open_outputs=OutputState.LOST_WITH_OWNER,
)
_LOST_AFTER_SUBMISSION = Row(
    session=SessionState.QUARANTINED,
    outcome=Outcome.OWNER_LOST,
    invocation=InvocationState.TERMINAL,
    graph=GraphDisposition.REBUILD_REQUIRED,
    open_outputs=OutputState.LOST_WITH_OWNER,
    retry=RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED,
)

COMMANDS = {
    CommandKind.VALIDATION_REQUESTED: Requests(
        idle={SessionState.NEW: (Row(issues=ActionKind.VALIDATE),)},
        busy={},
    ),
    CommandKind.PREPARATION_REQUESTED: Requests(
        idle={
            SessionState.VALIDATED: (
                Row(closes_fallback=True, issues=ActionKind.PREPARE),
            )
        },
        busy={},
    ),
    CommandKind.ADMISSION_REQUESTED: Requests(
        idle={
            SessionState.READY: (
                Row(
                    when=may_admit,
                    admits=True,
                    graph=GraphDisposition.PREPARED,
                    issues=ActionKind.ADMIT,
                ),
            )
        },
        busy={},
    ),
    CommandKind.SUBMISSION_REQUESTED: Requests(
        idle={},
        busy={
            InvocationState.ADMITTED: (
                Row(
                    effect=EffectState.MAY_HAVE_STARTED,
                    retry=RetryDisposition.APPLICATION_POLICY_REQUIRED,
                    issues=ActionKind.SUBMIT,
                ),
            )
        },
    ),
    CommandKind.CONSUMPTION_REQUESTED: Requests(
        idle={},
        busy={
            InvocationState.RUNNING: (
                Row(
                    claimed_output=OutputState.CONSUMING,
                    issues=ActionKind.CONSUME_OUTPUT,
                ),
            )
        },
    ),
    CommandKind.CANCELLATION_REQUESTED: Requests(
        idle={
            SessionState.NEW: (_CANCELLED_BEFORE_PREPARATION,),
            SessionState.VALIDATING: (_CANCELLED_BEFORE_PREPARATION,),
            SessionState.VALIDATED: (_CANCELLED_BEFORE_PREPARATION,),
            SessionState.PREPARING: (_CANCELLED,),
            SessionState.READY: (
                Row(
                    closes_admission=True,
                    outcome=Outcome.CANCELLED_PRE_SUBMISSION,
                    brings=RetryDisposition.PROHIBITED,
                    issues=ActionKind.DRAIN_SESSION,
                ),
            ),
            SessionState.DRAINING: (_CANCELLED,),
        },
        busy={
            InvocationState.ADMITTING: (_CANCELLED_BEFORE_SUBMISSION,),
            InvocationState.ADMITTED: (_CANCELLED_BEFORE_SUBMISSION,),
            InvocationState.SUBMITTING: (_CANCELLED_AFTER_SUBMISSION,),
            InvocationState.RUNNING: (_CANCELLED_AFTER_SUBMISSION,),
            InvocationState.CONSUMING: (_CANCELLED_IN_CONSUMPTION,),
            InvocationState.CANCELLING: (_CANCELLED_AGAIN,),
            InvocationState.DRAINING: (_CANCELLED_AGAIN,),
            InvocationState.CHECKING_HEALTH: (_CANCELLED_AGAIN,),
        },
    ),
    CommandKind.DRAIN_REQUESTED: Requests(
        idle={
            SessionState.READY: (
                Row(closes_admission=True, issues=ActionKind.DRAIN_SESSION),
            )
        },
        busy={
            InvocationState.ADMITTED: (
                Row(
                    closes_admission=True,
                    outcome=Outcome.CANCELLED_PRE_SUBMISSION,
                    open_outputs=OutputState.NOT_CREATED,
                    issues=ActionKind.RELEASE_CAPACITY,
                ),
            ),
            InvocationState.RUNNING: (
                Row(
                    closes_admission=True,
                    outcome=Outcome.CANCELLED_AFTER_SUBMISSION,
                    graph=GraphDisposition.DRAIN_REQUIRED,
                    issues=ActionKind.DRAIN_INVOCATION,
                ),
            ),
        },
    ),
    CommandKind.TEARDOWN_REQUESTED: Requests(
        idle={
            SessionState.READY: (Row(issues=ActionKind.TEARDOWN),),
            SessionState.QUARANTINED: (
                Row(when=graph_prepared, issues=ActionKind.TEARDOWN),
            ),
        },
        busy={},
    ),
    CommandKind.OWNER_LOST: Requests(
        idle={
            SessionState.NEW: (_LOST_UNPREPARED,),
            SessionState.VALIDATING: (_LOST_UNPREPARED,),
            SessionState.VALIDATED: (_LOST_UNPREPARED,),
            SessionState.PREPARING: (_LOST_PREPARED,),
            SessionState.READY: (_LOST_PREPARED,),
            SessionState.DRAINING: (_LOST_PREPARED,),
            # Its graph is what it was when it came here: UNPREPARED or to be rebuilt.
            SessionState.QUARANTINED: (_LOST_UNPREPARED,),
        },
        busy={
            InvocationState.ADMITTING: (_LOST_BEFORE_SUBMISSION,),
            InvocationState.ADMITTED: (_LOST_BEFORE_SUBMISSION,),
            InvocationState.SUBMITTING: (_LOST_AFTER_SUBMISSION,),
            InvocationState.RUNNING: (_LOST_AFTER_SUBMISSION,),
            InvocationState.CONSUMING: (_LOST_AFTER_SUBMISSION,),
            InvocationState.CANCELLING: (
                _LOST_BEFORE_SUBMISSION,
                _LOST_AFTER_SUBMISSION,
            ),
            InvocationState.DRAINING: (_LOST_AFTER_SUCCESS, _LOST_AFTER_SUBMISSION),
            InvocationState.CHECKING_HEALTH: (
                _LOST_AFTER_SUCCESS,
                _LOST_AFTER_SUBMISSION,
            ),
        },
    ),
    CommandKind.OUTER_DEADLINE_EXPIRED: Requests(
        # While an action is pending it counts as that action's deadline instead.
        idle={
            SessionState.NEW: (
                Row(session=SessionState.REJECTED, outcome=Outcome.OUTER_DEADLINE),
            ),
            SessionState.VALIDATED: (
                Row(session=SessionState.REJECTED, outcome=Outcome.OUTER_DEADLINE),
            ),
            SessionState.READY: (
                Row(
                    session=SessionState.QUARANTINED,
                    graph=GraphDisposition.REBUILD_REQUIRED,
                    outcome=Outcome.OUTER_DEADLINE,
                ),
            ),
        },
        busy={
            InvocationState.ADMITTED: (
                Row(
                    outcome=Outcome.OUTER_DEADLINE,
                    open_outputs=OutputState.NOT_CREATED,
                    issues=ActionKind.RELEASE_CAPACITY,
                ),
            ),
            InvocationState.RUNNING: (
                Row(
                    outcome=Outcome.OUTER_DEADLINE,
                    graph=GraphDisposition.REBUILD_REQUIRED,
                    issues=ActionKind.DRAIN_INVOCATION,
                ),
            ),
        },
    ),
}
"""By command. One observed at or after `outer` counts as OUTER_DEADLINE_EXPIRED, except
OWNER_LOST, and TEARDOWN_REQUESTED in QUARANTINED."""
