"""What of the details still fits, and the reason when it does not. Contract 2.

Each retained node reserves 256 bytes: its state, times and try are never refused. Optional
values share what the reserves leave, in order of commit. A node registered when that is
used up takes its reserve from the optional values of the latest nodes.

Nothing counts until `commit`: `begin` starts from the last commit again, so a publication
that failed leaves no trace.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from django_ray.protocol import canonical
from django_ray.protocol.limits import Limits
from django_ray.protocol.records import Detail, Fault, Omitted
from django_ray.protocol.vocabulary import TruncationReason

OPTIONAL = ("preview", "metrics", "message", "error")
"""The optional values of a record, in the order in which they are given up."""


_PREVIEWS = {
    canonical.encode(Omitted(omitted=reason)): reason for reason in TruncationReason
}


class Budget:
    """The bytes of the details of one run, by ordinal."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._cap = min(limits.detail_encoded, limits.detail_decoded)
        self._charges = array("H")
        self._shared = 0
        self._limit = self._cap
        self._reason = TruncationReason.detail_size_limit
        self._omitted: dict[int, TruncationReason] = {}
        self._counts: Counter[TruncationReason] = Counter()
        self._undo: list[tuple[int, int, TruncationReason | None]] = []
        self._kept = 0

    @property
    def reasons(self) -> frozenset[TruncationReason]:
        """Name why a value of any row is omitted now."""
        return frozenset(+self._counts)

    @property
    def used(self) -> int:
        """Count the bytes charged: each row its size, and never less than its reserve."""
        return len(self._charges) * self._limits.node_reserve + self._shared

    def resume(self, sizes: Iterable[int], details: Iterable[Detail]) -> None:
        """Go on with stored rows, by ordinal: what they take, and what they omit."""
        reserve = self._limits.node_reserve
        for ordinal, (size, detail) in enumerate(zip(sizes, details, strict=True)):
            self._charges.append(reserve)
            reason = omission(detail)
            if size > reserve or reason is not None:
                self._set(ordinal, max(size, reserve), reason)
        self.commit()

    def begin(self, nodes: int, room: int) -> None:
        """Start a publication of `nodes` retained nodes, `room` left by the run's cap."""
        self._roll_back()
        self._limit = min(self._cap, room)
        self._reason = (
            TruncationReason.detail_size_limit
            if self._limit == self._cap
            else TruncationReason.run_size_limit
        )
        added = nodes - len(self._charges)
        self._charges.extend([self._limits.node_reserve] * added)

    def evict(self) -> Iterator[int]:
        """Name rows that must be shrunk for the reserves to hold, latest node first.

        Each must be given to `shrink` before the next is asked for.
        """
        reserve = self._limits.node_reserve
        ordinal = len(self._charges)
        while self.used > self._limit and ordinal:
            ordinal -= 1
            if self._charges[ordinal] > reserve:
                yield ordinal

    def shrink(self, ordinal: int, detail: Detail) -> bytes:
        """Return the record of a row without what exceeds its reserve."""
        return self._cut(ordinal, detail, 0)

    def fit(self, ordinal: int, detail: Detail) -> bytes:
        """Return the record of a row, optional values omitted that do not fit."""
        data = canonical.encode(detail)
        size = len(data)
        reserve = self._limits.node_reserve
        held = self._charges[ordinal]
        room = max(self._limit - self.used + held - reserve, 0)
        if size <= reserve + room and size <= self._limits.record:
            omitted = ordinal in self._omitted
            if held != reserve or size > reserve or omitted:
                # A stored row that was read back holds its markers, not the values.
                reason = omission(detail) if omitted else None
                self._charge(ordinal, max(size, reserve), reason)
            return data
        return self._cut(ordinal, detail, room)

    def fit_all(
        self, ordinals: Sequence[int], details: Sequence[Detail]
    ) -> list[bytes]:
        """Return the records of many rows, each as `fit` would in this order."""
        records = list(map(canonical.encode, details))
        charges, omitted = self._charges, self._omitted
        reserve = self._limits.node_reserve
        for place, ordinal in enumerate(ordinals):
            # Most rows are within their reserve and were: nothing is to be charged.
            if (
                len(records[place]) > reserve
                or charges[ordinal] != reserve
                or ordinal in omitted
            ):
                records[place] = self.fit(ordinal, details[place])
        return records

    def commit(self) -> None:
        """Count what was fitted since `begin` as stored."""
        self._undo.clear()
        self._kept = len(self._charges)

    def _cut(self, ordinal: int, detail: Detail, room: int) -> bytes:
        reserve = self._limits.node_reserve
        most = min(reserve + room, self._limits.record)
        reason = self._reason
        if reserve + room > self._limits.record:
            reason = TruncationReason.record_size_limit
        for lesser in _lesser(detail, reason):
            data = canonical.encode(lesser)
            if len(data) <= most:
                break
        self._charge(ordinal, max(len(data), reserve), reason)
        return data

    def _charge(
        self, ordinal: int, charge: int, reason: TruncationReason | None
    ) -> None:
        held, omitted = self._charges[ordinal], self._omitted.get(ordinal)
        self._undo.append((ordinal, held, omitted))
        self._set(ordinal, charge, reason)

    def _set(self, ordinal: int, charge: int, reason: TruncationReason | None) -> None:
        self._shared += charge - self._charges[ordinal]
        self._charges[ordinal] = charge
        before = self._omitted.pop(ordinal, None)
        if before is not None:
            self._counts[before] -= 1
        if reason is not None:
            self._omitted[ordinal] = reason
            self._counts[reason] += 1

    def _roll_back(self) -> None:
        for ordinal, charge, reason in reversed(self._undo):
            self._set(ordinal, charge, reason)
        self._undo.clear()
        del self._charges[self._kept :]


def omission(detail: Detail) -> TruncationReason | None:
    """Return why a value of a stored record is omitted, None where none is."""
    if isinstance(detail.message, Omitted):
        return _reason(detail.message.omitted)
    if isinstance(detail.error, Fault) and detail.error.omitted is not UNSET:
        return _reason(detail.error.omitted)
    if detail.metrics is not UNSET and len(detail.metrics) == 1:
        return _reason(detail.metrics.get("omitted"))
    if detail.preview is not UNSET:
        return _PREVIEWS.get(bytes(detail.preview))
    return None


def _reason(found: object) -> TruncationReason | None:
    return next((reason for reason in TruncationReason if reason == found), None)


def _lesser(detail: Detail, reason: TruncationReason) -> Iterator[Detail]:
    """Yield ever smaller forms of a record; the last is within the reserve."""
    for name in OPTIONAL:
        if getattr(detail, name) is not UNSET:
            detail = replace(detail, **{name: _marker(name, reason)})
            yield detail
    # Even the markers may be too much where the reserve is all there is: the summary's
    # reason then stands for them.
    for name in OPTIONAL:
        if getattr(detail, name) is not UNSET:
            detail = replace(detail, **{name: UNSET})
            yield detail
    detail = replace(detail, current=UNSET, total=UNSET, reported_ms=UNSET, sequence=0)
    yield detail
    yield replace(detail, host=UNSET)


def _marker(name: str, reason: TruncationReason) -> object:
    omitted = Omitted(omitted=reason)
    match name:
        case "error":
            return Fault(omitted=reason)
        case "metrics":
            return {"omitted": str(reason)}
        case "preview":
            return msgspec.Raw(canonical.encode(omitted))
        case _:
            return omitted
