"""The state of a session and of its one invocation.

Lifecycle 1. A state that the reducer made is sealed: the reducer takes it back without
looking into it again. Every other constructor makes an unsealed one, `dataclasses.replace`,
`copy` and `pickle` included, since the seal is no field; such a state is examined in full
when it comes in. Frozen values are not expected to be changed in place.
"""

from dataclasses import dataclass

from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.terms import (
    InvocationDeadlines,
    LastInvocation,
    LifecycleCapacity,
    LifecycleDeadlines,
    SessionIdentity,
    WorkflowInvocationIdentity,
)
from django_ray.lifecycle.vocabulary import (
    CleanupCode,
    EffectState,
    GraphDisposition,
    InvocationState,
    Outcome,
    OutputState,
    RetryDisposition,
    SessionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraphInvocationState:
    """The session's current or last invocation: who it is, where it is, what it owns.

    `outputs` are its declared slots, 1 to 64, by index. Its outcome, effects, retry
    disposition and cleanup codes are the session's fields: they exist before an invocation
    does, and begin anew when one is admitted.
    """

    identity: WorkflowInvocationIdentity
    number: int
    deadlines: InvocationDeadlines
    state: InvocationState
    outputs: tuple[OutputState, ...]


class _Sealable:
    """Room for the seal beside the fields of a slotted dataclass."""

    __slots__ = ("_seal",)

    _seal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraphSessionState(_Sealable):
    """Everything the reducer knows; no handle, no history.

    `invocation` is None until the first is admitted, and stays TERMINAL until the next.
    `pending` is the one action being performed. `completed` is the token completed last,
    `issued` the token issued last (0: none): tokens are 1, 2, 3 … up to 2⁶³-1, never
    reused. `observed_at` is the time of the last event, 0 before any. Once `admission_open`
    or `fallback_open` is False it stays so. `before` is the run's last invocation before
    this session.
    """

    identity: SessionIdentity
    capacity: LifecycleCapacity
    deadlines: LifecycleDeadlines
    before: LastInvocation | None
    state: SessionState
    graph: GraphDisposition
    admission_open: bool
    fallback_open: bool
    outcome: Outcome | None
    effect: EffectState
    retry: RetryDisposition
    cleanup: tuple[CleanupCode, ...]
    invocation: CompiledGraphInvocationState | None
    pending: Action | None
    completed: int | None
    issued: int
    observed_at: int

    @property
    def last_invocation(self) -> LastInvocation | None:
        """Return number and id used last, for the next admission or the next session."""
        if self.invocation is None:
            return self.before
        return LastInvocation(
            number=self.invocation.number,
            invocation_id=self.invocation.identity.invocation_id,
        )

    @property
    def in_progress(self) -> CompiledGraphInvocationState | None:
        """Return the invocation, unless there is none or it is TERMINAL."""
        invocation = self.invocation
        if invocation is None or invocation.state is InvocationState.TERMINAL:
            return None
        return invocation


def seal(state: CompiledGraphSessionState) -> CompiledGraphSessionState:
    """Mark a state as the reducer's own; for the reducer alone."""
    object.__setattr__(state, "_seal", True)
    return state


def is_sealed(state: CompiledGraphSessionState) -> bool:
    """Claim that the reducer made this very object."""
    return getattr(state, "_seal", False)
