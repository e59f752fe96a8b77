"""Per producer: what is applied, what is committed, and whether a frame follows.

A producer's frames are numbered from 1. A gap inside one writer epoch means that something
was lost on the way, an unknown producer in the middle of its numbers that this collector
has restarted: both are answered RESYNC, and what comes next under the current epoch is a
beginning, whatever its number. The ledger of a collector that goes on with what another
stored asks its coordinator for a resync in any case. Contract 4.4 and 6.

A producer's place is free again once it has said nothing for a while and nothing of it is
uncommitted: one that comes back all the same begins anew, which costs one more frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django_ray.protocol.frames import Frame, ProducerKind, Status
from django_ray.protocol.limits import Limits

EXPIRY_MS = 300_000
"""How long a producer that says nothing keeps its place: ten times the longest interval."""

Marks = Mapping[bytes, int]
"""The last applied number of each producer that has something uncommitted."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last frame of a producer that is applied."""

    producer: bytes
    applied: int


@dataclass(slots=True)
class _Producer:
    applied: int = 0
    committed: int = 0
    resyncing: bool = False
    heard_ms: int = 0


class Ledger:
    """The producers one collector has admitted, and their marks."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._producers: dict[bytes, _Producer] = {}
        self._ahead: dict[bytes, int] = {}
        self._held: set[bytes] = set()
        self._coordinator: bytes | None = None
        self._resumes = False

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def coordinator(self) -> Mark | None:
        """Return what is applied of the run's coordinator, None before its first frame."""
        known = self._producers.get(self._coordinator or b"")
        if self._coordinator is None or known is None or not known.applied:
            return None
        return Mark(self._coordinator, known.applied)

    def resume(self, coordinator: Mark | None, now_ms: int) -> None:
        """Go on for a collector that is no more: what is stored holds this mark."""
        self._resumes = True
        if coordinator is not None:
            self._coordinator = coordinator.producer
            self._producers[coordinator.producer] = _Producer(
                applied=coordinator.applied, resyncing=True, heard_ms=now_ms
            )

    def judge(self, frame: Frame, writer_epoch: int, now_ms: int) -> Status:
        """Decide on a frame of this run: OK, RESYNC or NOT_ADMITTED.

        A frame that is OK is applied unless it `is_duplicate`, and then told `applied`.
        """
        self._expire(now_ms)
        known = self._producers.pop(frame.producer, None)
        if known is None:
            if len(self) >= self._limits.producers:
                return Status.NOT_ADMITTED
            known = _Producer()
            if frame.kind is ProducerKind.coordinator:
                self._coordinator = frame.producer
                known.resyncing = self._resumes
        known.heard_ms = now_ms
        # Last in order: the first is the one that has been silent for the longest time.
        self._producers[frame.producer] = known
        if known.resyncing:
            # Without an epoch it is not known yet what there is to go on with.
            follows = 0 < frame.writer_epoch == writer_epoch
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
        if frame.producer not in self._held:
            self._ahead[frame.producer] = frame.number

    def postpone(self, frame: Frame) -> Status:
        """Have a frame judged OK sent again: there was no room for all of it."""
        self._producers[frame.producer].resyncing = True
        return Status.RESYNC

    def hold(self, producer: bytes) -> None:
        """Commit nothing more of a producer: the model keeps what it told for later."""
        self._held.add(producer)
        self._ahead.pop(producer, None)

    def release(self) -> None:
        """Let all that is applied be committed again: the model keeps nothing back."""
        for producer in self._held:
            self._ahead[producer] = self._producers[producer].applied
        self._held.clear()

    def numbers(self, producer: bytes) -> tuple[int, int]:
        """Return the applied and committed numbers an answer carries."""
        known = self._producers.get(producer)
        return (known.applied, known.committed) if known else (0, 0)

    def is_settled(self) -> bool:
        """Claim that all that is applied is committed."""
        return not self._ahead and not self._held

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

    def _expire(self, now_ms: int) -> None:
        """Free the place of the longest silent producer, if it has nothing uncommitted."""
        producer = next(iter(self._producers), None)
        if producer is None or now_ms - self._producers[producer].heard_ms < EXPIRY_MS:
            return
        known = self._producers.pop(producer)
        if producer in self._ahead or producer in self._held:
            self._producers[producer] = known
