"""What a session and an invocation are given and never change: identities, limits, times.

The classes hold what they are told; the predicates say whether that can be true. The
reducer asks them of every value it has not seen before, by exact type, so that no foreign
class can answer for itself.
"""

from dataclasses import dataclass, fields
from typing import Final, TypeGuard

from django_ray.identity import (
    IDENTIFIER_CHARACTERS,
    MAXIMUM_63,
    RunIdentity,
    is_run_id,
)

PROTOCOL_VERSION: Final = 1
"""The lifecycle protocol these files implement; it is part of the effective plan."""

MAXIMUM_OUTPUTS: Final = 64
"""The most output slots one invocation may declare. Contract 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdentity:
    """One prepared graph of one owner process, within one durable run. Contract 1.

    `graph_key` and `session_id` are printable text of 1 to 128 characters; `owner_epoch`
    is a positive 63-bit integer that rises with each session of the run.
    """

    run: RunIdentity
    graph_key: str
    session_id: str
    owner_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowInvocationIdentity:
    """The four fields of the run and one invocation id: one admitted input. Contract 1.

    `invocation_id` is printable text of 1 to 128 characters, used once in a run.
    """

    run: RunIdentity
    invocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastInvocation:
    """Number and id of the invocation admitted last; numbers go on across sessions."""

    number: int
    invocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleCapacity:
    """What one session admits at once. Protocol version 1 knows these values only."""

    session_owners: int = 1
    callers: int = 1
    maximum_in_flight: int = 1
    maximum_buffered_results: int = 1
    owner_concurrency: int = 1
    queue_capacity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleDeadlines:
    """The seven absolute deadlines of a session, in milliseconds since the epoch.

    One later than `outer` is allowed and never counts. No phase resets any.
    """

    outer: int
    admission: int
    submission: int
    result: int
    cancellation: int
    drain: int
    teardown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationDeadlines:
    """The five deadlines that each invocation brings, since a session serves many."""

    admission: int
    submission: int
    result: int
    cancellation: int
    drain: int


def is_time(value: object) -> TypeGuard[int]:
    """Claim that `value` is a time: milliseconds, 0 to 2⁶³-1."""
    return type(value) is int and 0 <= value <= MAXIMUM_63


def is_number(value: object) -> TypeGuard[int]:
    """Claim that `value` is a positive 63-bit integer; a bool never is."""
    return type(value) is int and 1 <= value <= MAXIMUM_63


def is_label(value: object) -> TypeGuard[str]:
    """Claim that `value` is printable text of 1 to 128 characters.

    Printable keeps out what could not be stored or shown: NUL, lone surrogates, controls.
    """
    return (
        type(value) is str
        and 1 <= len(value) <= IDENTIFIER_CHARACTERS
        and value.isprintable()
    )


def is_run(value: object) -> TypeGuard[RunIdentity]:
    """Claim that `value` is the identity of a durable run."""
    return (
        type(value) is RunIdentity
        and is_number(getattr(value, "task_execution_pk", None))
        and is_number(getattr(value, "attempt_number", None))
        and is_number(getattr(value, "execution_generation", None))
        and type(run_id := getattr(value, "run_id", None)) is str
        and is_run_id(run_id)
    )


def is_session_identity(value: object) -> TypeGuard[SessionIdentity]:
    """Claim that `value` names a session completely."""
    return (
        type(value) is SessionIdentity
        and is_run(getattr(value, "run", None))
        and is_label(getattr(value, "graph_key", None))
        and is_label(getattr(value, "session_id", None))
        and is_number(getattr(value, "owner_epoch", None))
    )


def is_invocation_identity(
    value: object, known: RunIdentity
) -> TypeGuard[WorkflowInvocationIdentity]:
    """Claim that `value` names an invocation; the run `known` needs no second look."""
    return (
        type(value) is WorkflowInvocationIdentity
        and ((run := getattr(value, "run", None)) is known or is_run(run))
        and is_label(getattr(value, "invocation_id", None))
    )


def is_last_invocation(value: object) -> TypeGuard[LastInvocation]:
    """Claim that `value` is a number and an id that an invocation may have had."""
    return (
        type(value) is LastInvocation
        and is_number(getattr(value, "number", None))
        and is_label(getattr(value, "invocation_id", None))
    )


def is_capacity(value: object) -> TypeGuard[LifecycleCapacity]:
    """Claim that `value` asks for exactly what protocol version 1 offers."""
    return type(value) is LifecycleCapacity and all(
        type(asked := getattr(value, name, None)) is int and asked == offered
        for name, offered in CAPACITY.items()
    )


def are_session_deadlines(value: object) -> TypeGuard[LifecycleDeadlines]:
    """Claim that `value` holds the seven deadlines of a session."""
    return type(value) is LifecycleDeadlines and _times(value, SESSION_STAGES)


def are_invocation_deadlines(value: object) -> TypeGuard[InvocationDeadlines]:
    """Claim that `value` holds the five deadlines of an invocation."""
    return type(value) is InvocationDeadlines and _times(value, INVOCATION_STAGES)


def _times(value: object, stages: tuple[str, ...]) -> bool:
    return all(is_time(getattr(value, stage, None)) for stage in stages)


CAPACITY = {field.name: field.default for field in fields(LifecycleCapacity)}
"""The executable fields of the capacity and their only values. Contract 3."""

SESSION_STAGES = tuple(field.name for field in fields(LifecycleDeadlines))
INVOCATION_STAGES = tuple(field.name for field in fields(InvocationDeadlines))
