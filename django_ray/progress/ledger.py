"""Per producer: what is applied, what is committed, and whether a frame follows.

A producer's frames are numbered from 1. A gap inside one writer epoch means that something
was lost on the way, an unknown producer in the middle of its numbers that this collector
has restarted: both are answered RESYNC, and what comes next under the current epoch is a
beginning, whatever its number. Contract 4.4 and 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django_ray.protocol.frames import Frame, Status
from django_ray.protocol.limits import Limits

Marks = Mapping[bytes, int]
"""The last applied number of each producer that has something uncommitted."""


@dataclass(slots=True)
class _Producer:
    applied: int = 0
    committed: int = 0
    resyncing: bool = False


class Ledger:
    """The producers one collector has admitted, and their marks."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._producers: dict[bytes, _Producer] = {}
        self._ahead: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def judge(self, frame: Frame, writer_epoch: int) -> Status:
        """Decide on a frame of this run: OK, RESYNC or NOT_ADMITTED.

        A frame that is OK is applied unless it `is_duplicate`, and then told `applied`.
        """
        known = self._producers.get(frame.producer)
        if known is None:
            if len(self) >= self._limits.producers:
                return Status.NOT_ADMITTED
            known = self._producers[frame.producer] = _Producer()
        if known.resyncing:
            follows = frame.writer_epoch == writer_epoch
        else:
            # An epoch of 0 is a producer that has seen no answer yet.
            follows = frame.number <= known.applied + 1 and (
                frame.writer_epoch in (0, writer_epoch)
            )
        if follows:
            return Status.OK
        known.resyncing = True
        return Status.RESYNC

    def is_duplicate(self, frame: Frame) -> bool:
        """Claim that a frame judged OK was applied before."""
        known = self._producers[frame.producer]
        return not known.resyncing and frame.number <= known.applied

    def applied(self, frame: Frame) -> None:
        """Note that the records of a frame judged OK are in the model."""
        known = self._producers[frame.producer]
        known.applied = frame.number
        known.committed = min(known.committed, frame.number - 1)
        known.resyncing = False
        self._ahead[frame.producer] = frame.number

    def numbers(self, producer: bytes) -> tuple[int, int]:
        """Return the applied and committed numbers an answer carries."""
        known = self._producers.get(producer)
        return (known.applied, known.committed) if known else (0, 0)

    def is_settled(self) -> bool:
        """Claim that all that is applied is committed."""
        return not self._ahead

    def marks(self) -> Marks:
        """Return what a publication that takes the model now will commit."""
        return dict(self._ahead)

    def commit(self, marks: Marks) -> None:
        """Note that the publication with these marks is committed."""
        for producer, number in marks.items():
            known = self._producers[producer]
            known.committed = max(known.committed, min(number, known.applied))
            if self._ahead.get(producer) == known.committed:
                del self._ahead[producer]
