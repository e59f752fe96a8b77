"""What a worker needs of the cluster: hosts that are started, found, asked and let go.

Implemented by the Ray cluster a worker has joined, and by the tests' own.
"""

from typing import Protocol

from actors.names import HostOutcome
from django_ray.identity import RunIdentity


class Host(Protocol):
    """One run's host."""

    def outcome(self, timeout_s: float) -> HostOutcome:
        """Say how the run is, Running when there is no answer in time."""

    def cancel(self, *, force: bool) -> None:
        """Interrupt the outer task, by force end its process; do not wait."""


class Fleet(Protocol):
    """Where hosts run."""

    def start(self, identity: RunIdentity) -> Host:
        """Start a run's host, or return the one that is there; raise when it cannot be."""

    def find(self, identity: RunIdentity) -> Host | None:
        """Return a run's host, None when it is gone; raise when nobody can tell."""

    def release(self, identity: RunIdentity) -> None:
        """End what is left of a run whose row has recorded its end."""
