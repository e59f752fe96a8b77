"""What a producer has said and not yet seen committed: latest values, in order.

Contract 4.4. An entry is one encoded record. A node's state and a leaf's progress have one
slot each, so what waits is bounded by what exists, not by how long the collector is away.
An entry is queued until a frame carries it, then kept under that frame's number until the
collector has committed it; a newer value makes it void at once, and void entries are swept
out when they are more than the live ones. An end that is not a success outlives the later
try that takes its slot: no failure is coalesced away.

An entry also knows since which frame it may be applied, whatever became of that frame's
answer. A collector that asks for a resync says up to which frame it has, or has read back,
what was applied: that is sent again as such, so that nothing is counted twice.
"""

import threading
from collections import deque
from collections.abc import Iterable

LASTING = 1_024
"""Unsuccessful ends kept beside their nodes' later tries; past it the newest is void."""

SWEEP = 1_024
"""Void entries borne before they are swept out."""

REPEATS = 120
"""How often a value is queued again whose node the collector does not know: a minute of a
worker's intervals. A task that is no node stays unknown for good."""

Key = int | bytes | tuple[str, int]


class Entry:
    """One encoded record: void without `data`, queued while `number` is 0.

    `since` is the first frame that carried it and is not known to be lost, 0 without one.
    """

    __slots__ = ("data", "key", "lasting", "number", "rank", "repeats", "since")

    def __init__(self, data: bytes, key: Key | None, rank: int, lasting: bool) -> None:
        self.data: bytes | None = data
        self.key = key
        self.rank = rank
        self.lasting = lasting
        self.number = 0
        self.since = 0
        self.repeats = 0


class Kept:
    """The entries of one producer; every method is atomic and none blocks for long.

    The lock is re-entrant because a collected generator may report from inside a report.
    `capacity` bounds the slots: past it the oldest is given up and counted in `dropped`.
    """

    def __init__(self, capacity: int) -> None:
        self._lock = threading.RLock()
        self._capacity = capacity
        self._queue: deque[Entry] = deque()
        self._carried: deque[tuple[int, list[Entry]]] = deque()
        self._slots: dict[Key, Entry] = {}
        self._beside = 0
        self._void = 0
        self._live = 0
        self._restored: list[Entry] = []
        self._closed = False
        self.queued_bytes = 0
        self.dropped = 0
        self.coalesced = 0
        self.settled = threading.Event()
        self.settled.set()

    def __len__(self) -> int:
        """Count the records not yet known committed."""
        return self._live

    @property
    def queued(self) -> int:
        """Count what no frame carries yet, void entries included."""
        return len(self._queue)

    @property
    def uncommitted(self) -> bool:
        """Claim that a frame was cut whose commit is not known."""
        return bool(self._carried)

    def holds(self, key: Key) -> bool:
        """Claim that a slot has a value that is not known committed."""
        return key in self._slots

    def add(self, data: bytes) -> None:
        """Queue a record that nothing replaces."""
        with self._lock:
            self._append(Entry(data, None, 0, False))

    def put(self, key: Key, rank: int, data: bytes, lasting: bool) -> bool:
        """Make `data` the value of a slot; say False when it holds as new a one."""
        with self._lock:
            held = self._slots.get(key)
            if held is not None:
                if rank <= held.rank:
                    return False
                # One that may be applied stands before a resync's mark: news go behind it.
                may_change = not (held.number or held.lasting or held.since)
                if may_change and held.data is not None:
                    self.queued_bytes += len(data) - len(held.data)
                    held.data, held.rank, held.lasting = data, rank, lasting
                    held.repeats = 0
                    self.coalesced += 1
                    return True
            entry = Entry(data, key, rank, lasting)
            self._append(entry)
            if self._closed:
                return True
            self._slots[key] = entry
            if held is not None:
                self._displace(held)
            elif len(self._slots) > self._capacity:
                self.dropped += 1
                self._annul(self._slots.pop(next(iter(self._slots))))
            return True

    def cut(self, number: int, size: int, records: int) -> list[bytes]:
        """Take the oldest queued records within both bounds as the frame `number`.

        The first record is taken whatever its size, so that a frame is never stuck.
        """
        with self._lock:
            taken: list[Entry] = []
            bodies: list[bytes] = []
            while self._queue and len(taken) < records:
                entry = self._queue[0]
                if entry.data is not None:
                    size -= len(entry.data)
                    if size < 0 and taken:
                        break
                    entry.number = number
                    entry.since = entry.since or number
                    self.queued_bytes -= len(entry.data)
                    taken.append(entry)
                    bodies.append(entry.data)
                else:
                    self._void -= 1
                self._queue.popleft()
            if taken:
                self._carried.append((number, taken))
            self._note_settled()
            return bodies

    def commit(self, number: int) -> None:
        """Let go of what frames up to `number` carried last; O(what they carried)."""
        with self._lock:
            while self._carried and self._carried[0][0] <= number:
                for entry in self._carried.popleft()[1]:
                    self._release(entry)
            self._note_settled()

    def requeue(self, number: int) -> None:
        """Put what the frames from `number` on carried in front again, in order."""
        with self._lock:
            while self._carried and self._carried[-1][0] >= number:
                for entry in reversed(self._carried.pop()[1]):
                    if entry.data is None:
                        self._void -= 1
                    else:
                        entry.number = 0
                        self.queued_bytes += len(entry.data)
                        self._queue.appendleft(entry)

    def discard(self, number: int) -> None:
        """Give up what the frame `number` carried: the collector refuses it for good."""
        with self._lock:
            for entry in self._taken(number):
                if entry.data is not None:
                    self.dropped += 1
                self._release(entry)
            self._note_settled()

    def repeat(self, key: Key) -> None:
        """Queue a slot's value again, as what carried it was not applied.

        After `REPEATS` times it is given up and counted in `dropped`.
        """
        with self._lock:
            held = self._slots.get(key)
            if held is None or not held.number or held.data is None:
                return
            if held.repeats < REPEATS:
                entry = Entry(held.data, key, held.rank, held.lasting)
                entry.repeats = held.repeats + 1
                self._append(entry)
                self._slots[key] = entry
            else:
                del self._slots[key]
                self.dropped += 1
            self._annul(held)

    def restart(
        self, applied: int, first: Iterable[bytes], news: bytes, last: bytes
    ) -> None:
        """Queue all that is not committed again, for a collector that asks for it.

        `first`, what frames up to `applied` carried, `news`, the rest, `last`. What an
        earlier restart put in is void: these are newer.
        """
        with self._lock:
            for entry in self._restored:
                self._annul(entry)
            self.forget(applied)
            told = [entry for entry in self._queue if entry.since]
            rest = [entry for entry in self._queue if not entry.since]
            ahead, mark = self._made(first), self._made([news])
            end = self._made([last])
            self._queue = deque([*ahead, *told, *mark, *rest, *end])
            self._restored = [*ahead, *mark, *end]
            self._live += len(self._restored)
            self.settled.clear()

    def forget(self, applied: int) -> None:
        """Queue all that is not committed again: no frame past `applied` was applied."""
        with self._lock:
            self.requeue(0)
            for entry in self._queue:
                if entry.since > applied:
                    entry.since = 0

    def _made(self, records: Iterable[bytes]) -> list[Entry]:
        made = [Entry(data, None, 0, False) for data in records]
        self.queued_bytes += sum(len(entry.data or b"") for entry in made)
        return made

    def close(self) -> None:
        """Forget everything and keep nothing from now on."""
        with self._lock:
            self._closed = True
            self._queue.clear()
            self._carried.clear()
            self._slots.clear()
            self._restored = []
            self._live = self._void = self._beside = self.queued_bytes = 0
            self._note_settled()

    def _append(self, entry: Entry) -> None:
        """Queue an entry first and count it after: an interrupt loses no record."""
        if self._closed or entry.data is None:
            return
        self._queue.append(entry)
        self.queued_bytes += len(entry.data)
        self._live += 1
        if self.settled.is_set():
            self.settled.clear()

    def _displace(self, held: Entry) -> None:
        """Void a slot's former value, or keep it beside when it must not be lost."""
        if held.lasting and held.data is not None:
            if self._beside < LASTING:
                self._beside += 1
                held.key = None
                return
            self.dropped += 1
        self._annul(held)

    def _annul(self, entry: Entry) -> None:
        if entry.data is None:
            return
        if not entry.number:
            self.queued_bytes -= len(entry.data)
        entry.data = None
        self._live -= 1
        self._void += 1
        if self._void > SWEEP and self._void > self._live:
            self._sweep()

    def _sweep(self) -> None:
        """Rebuild queue and frames without their void entries; amortised O(1)."""
        self._queue = deque(entry for entry in self._queue if entry.data is not None)
        frames = (
            (number, [entry for entry in entries if entry.data is not None])
            for number, entries in self._carried
        )
        self._carried = deque(frame for frame in frames if frame[1])
        self._void = 0

    def _release(self, entry: Entry) -> None:
        """Forget a committed entry, and its slot unless a newer value has taken it."""
        if entry.data is None:
            self._void -= 1
            return
        entry.data = None
        self._live -= 1
        if entry.key is None:
            self._beside -= entry.lasting
        elif self._slots.get(entry.key) is entry:
            del self._slots[entry.key]

    def _taken(self, number: int) -> list[Entry]:
        """Remove one frame of the few at the end, and return its entries."""
        for place in range(len(self._carried) - 1, -1, -1):
            if self._carried[place][0] == number:
                entries = self._carried[place][1]
                del self._carried[place]
                return entries
        return []

    def _note_settled(self) -> None:
        if not self._queue and not self._carried:
            self.settled.set()
