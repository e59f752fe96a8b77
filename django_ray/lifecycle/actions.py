"""The action set, and what issuing each one means: its deadline, scope and phases.

Lifecycle 1. An action's deadline is the smaller of its stage's and `outer`.
"""

from dataclasses import dataclass

from django_ray.lifecycle.terms import SessionIdentity, WorkflowInvocationIdentity
from django_ray.lifecycle.vocabulary import (
    ActionKind,
    GraphDisposition,
    InvocationState,
    SessionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing for the adapter to do, before `deadline`, and to answer with `token`.

    `invocation` is None where the action is the session's. `output` is the slot index of a
    CONSUME_OUTPUT. `deadline` is absolute, in milliseconds since the epoch.
    """

    kind: ActionKind
    token: int
    session: SessionIdentity
    invocation: WorkflowInvocationIdentity | None
    deadline: int
    output: int | None


@dataclass(frozen=True, slots=True)
class Issue:
    """A row of the table of actions: what issuing one does by itself.

    `stage` names the deadline, the invocation's own where `own`, else the session's.
    `session`, `invocation` and `graph` are what they become, None where one stays; an
    invocation that is not in progress stays in any case.
    """

    stage: str
    own: bool
    session: SessionState | None
    invocation: InvocationState | None
    graph: GraphDisposition | None = None


_S, _I = SessionState, InvocationState

# fmt: off
ISSUES = {
    ActionKind.VALIDATE:         Issue("outer", False, _S.VALIDATING, None),
    ActionKind.PREPARE:          Issue("outer", False, _S.PREPARING, None),
    ActionKind.ADMIT:            Issue("admission", True, None, _I.ADMITTING),
    ActionKind.SUBMIT:           Issue("submission", True, None, _I.SUBMITTING),
    ActionKind.CONSUME_OUTPUT:   Issue("result", True, None, _I.CONSUMING),
    ActionKind.RELEASE_CAPACITY: Issue("cancellation", True, None, _I.CANCELLING),
    ActionKind.CANCEL:           Issue("cancellation", True, _S.DRAINING, _I.CANCELLING),
    ActionKind.DRAIN_INVOCATION: Issue("drain", True, _S.DRAINING, _I.DRAINING),
    ActionKind.DRAIN_SESSION:    Issue("drain", False, _S.DRAINING, _I.DRAINING),
    ActionKind.CHECK_HEALTH:     Issue("drain", True, None, _I.CHECKING_HEALTH),
    ActionKind.TEARDOWN:         Issue("teardown", False, _S.DRAINING, _I.DRAINING,
                                       GraphDisposition.REBUILD_REQUIRED),
}
# fmt: on
"""The table of actions, and what "issuing also sets the phase" means."""
