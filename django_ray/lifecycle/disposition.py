"""What an attempt that fails may do again, after the invocations its sessions have served.

A retry disposition is of one invocation; a new attempt repeats all of them, so the strictest
holds. Contract 3.
"""

from collections.abc import Iterable

from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import Outcome, RetryDisposition

STRICTNESS = (
    RetryDisposition.AUTOMATIC_ALLOWED,
    RetryDisposition.APPLICATION_POLICY_REQUIRED,
    RetryDisposition.PROHIBITED,
    RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED,
)
"""The least strict first: an ambiguity is an operator's to see, whatever else is told."""


def of_session(state: CompiledGraphSessionState) -> RetryDisposition:
    """Return what a session's last invocation asks of an attempt that fails after it.

    One that succeeded is never sent again, hence its PROHIBITED. An attempt that fails all
    the same has its effects behind it: to repeat them is for the application to allow.
    """
    if state.outcome is Outcome.SUCCEEDED:
        return RetryDisposition.APPLICATION_POLICY_REQUIRED
    return state.retry


def strictest(told: Iterable[RetryDisposition]) -> RetryDisposition:
    """Return what holds where all of these are told; of none, nothing was started."""
    return max(told, key=STRICTNESS.index, default=RetryDisposition.AUTOMATIC_ALLOWED)
