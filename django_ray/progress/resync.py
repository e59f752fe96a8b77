"""The arrays of a coordinator's resync, until it is complete. Contract 4.2, 4.4.

They come first and speak last: what records tell has times, hosts and errors, so the arrays
are put aside and fill in, at the end, the states that no record has told.
"""

from django_ray.progress import counters
from django_ray.protocol.frames import States


class Resync:
    """State and stage of every node, as far as they have come."""

    def __init__(self) -> None:
        self.states = bytearray()
        self.stages = bytearray()
        self.repeats = False
        """What the coordinator tells now was applied before, here or by a predecessor."""

    def __len__(self) -> int:
        return len(self.states)

    def put(self, record: States) -> bool:
        """Put an array aside; the first begins anew. False where one is missing."""
        if not record.first:
            self.close()
            self.repeats = True
        if record.first != len(self):
            return False
        self.states += record.states
        self.stages += record.stages
        return True

    def try_(self, ordinal: int) -> int:
        """Return the try of a node, 0 where no array tells of it."""
        known = 0 <= ordinal < len(self)
        return counters.try_of(self.states[ordinal]) if known else 0

    def close(self) -> None:
        """Forget the arrays."""
        self.states, self.stages = bytearray(), bytearray()
        self.repeats = False
