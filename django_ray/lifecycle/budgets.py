"""What a task author allows each stage, in seconds, and the absolute deadlines it makes.

Lifecycle 1: all deadlines are derived before reduction, and none is reset. A session's own
are its outer one: what bounds the drain and the teardown of a session that may be idle for
an hour first is the adapter's, within it.
"""

from dataclasses import dataclass, fields

from django_ray.errors import ConfigurationError
from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.terms import InvocationDeadlines, LifecycleDeadlines

LONGEST_S = 10_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds each stage of an invocation may take; all above 0 and at most 10⁷.

    `admission`, `submission` and `result` count from the invocation's beginning,
    `cancellation` from the result's deadline, and `drain` from the cancellation's.
    `teardown` is what releasing the graph may take before its actors are killed. `outer`
    counts from the beginning of the `with` block and bounds everything; None: no bound.

    Raises ConfigurationError for any other value.
    """

    admission: float = 10.0
    submission: float = 10.0
    result: float = 300.0
    cancellation: float = 10.0
    drain: float = 30.0
    teardown: float = 10.0
    outer: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no deadline can be made of."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "outer":
                continue
            known = type(value) in (int, float)
            if not known or not 0 < value <= LONGEST_S:
                raise ConfigurationError(
                    f"The deadline {field.name} is not a number of seconds above 0."
                )


def outer(budgets: Deadlines, now_ms: int) -> int:
    """Return the outer deadline of what begins now; the last time there is without one."""
    if budgets.outer is None:
        return MAXIMUM_63
    return _after(now_ms, budgets.outer)


def of_session(outer_ms: int) -> LifecycleDeadlines:
    """Return the seven deadlines of a session."""
    return LifecycleDeadlines(
        outer=outer_ms,
        admission=outer_ms,
        submission=outer_ms,
        result=outer_ms,
        cancellation=outer_ms,
        drain=outer_ms,
        teardown=outer_ms,
    )


def of_invocation(budgets: Deadlines, now_ms: int) -> InvocationDeadlines:
    """Return the five deadlines of an invocation that begins now."""
    result = _after(now_ms, budgets.result)
    cancellation = _after(result, budgets.cancellation)
    return InvocationDeadlines(
        admission=_after(now_ms, budgets.admission),
        submission=_after(now_ms, budgets.submission),
        result=result,
        cancellation=cancellation,
        drain=_after(cancellation, budgets.drain),
    )


def _after(from_ms: int, seconds: float) -> int:
    # At least one millisecond: a deadline that has passed already is none.
    return from_ms + max(1, int(1_000 * seconds))
