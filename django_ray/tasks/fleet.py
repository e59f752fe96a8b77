"""Where a worker's hosts run: the Ray cluster it is connected to.

Imported by what has decided to load Ray, and by nothing a web process loads.
"""

from actors import names, remote
from actors.names import ActorName
from django_ray.identity import RunIdentity
from django_ray.tasks.worker import payload_of

ENTRY = "django_ray.tasks.outer.execute"


class RayFleet:
    """Hosts as detached actors of the cluster this process is connected to."""

    def start(self, identity: RunIdentity) -> remote.HostHandle:
        """Start a run's host, or return the one that is there."""
        found = self.find(identity)
        if found is not None:
            return found
        try:
            return remote.start_host(
                identity, entry=ENTRY, payload=payload_of(identity)
            )
        except ValueError:
            # Its name is taken: the worker that had the lease before started it just now.
            found = self.find(identity)
            if found is None:
                raise
            return found

    def find(self, identity: RunIdentity) -> remote.HostHandle | None:
        """Return a run's host, None when the cluster has none of its name."""
        return remote.find_host(identity.run_id, identity.execution_generation)

    def release(self, identity: RunIdentity) -> None:
        """End the run's actors; its row is past the point where they could write."""
        for name in names.of_run(identity):
            remote.kill(name)

    def detached(self) -> list[ActorName]:
        """Return every detached actor of ours."""
        return remote.list_detached()

    def kill(self, name: ActorName) -> bool:
        """End an actor; False when it was gone."""
        return remote.kill(name)
