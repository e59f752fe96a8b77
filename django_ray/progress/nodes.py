"""Latest state of each retained node, ordered by two keys. Contract 4.3.

A state is ordered by (invocation, try, rank), a progress by (invocation, try, sequence of
its process); an older or equal key changes nothing. A progress never moves a state: one
whose try the coordinator has not named yet is kept beside the node until that try begins.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from django_ray.protocol.frames import Failure, Preview, Progress, State
from django_ray.protocol.records import Detail, Fault
from django_ray.protocol.vocabulary import (
    RANKS,
    TERMINAL_NODE_STATES,
    NodeState,
)

SHORT = 256
"""The longest message of a report that is kept beside its node's detail, in characters."""


class Verdict(StrEnum):
    """What became of a record: the names that are counted."""

    applied = "applied"
    duplicate = "duplicate"
    stale = "stale"


class Nodes:
    """The details of the retained nodes, by ordinal, and which of them changed.

    A node's row is due only once the node itself has been handed over (`release`): until
    then its changes are not marked, since its row goes out whole with its first hand-over.
    A report is kept as it came until something is asked of its node: most are overtaken.
    """

    def __init__(self) -> None:
        self._details: list[Detail] = []
        self._dirty: set[int] = set()
        self._released = 0
        self._told: dict[int, Progress] = {}
        self._ahead: dict[int, Progress] = {}
        self._previews_ahead: dict[int, Preview] = {}

    def __len__(self) -> int:
        return len(self._details)

    def __getitem__(self, ordinal: int) -> Detail:
        record = self._told.pop(ordinal, None)
        if record is not None:
            self._details[ordinal] = _reported(self._details[ordinal], record)
        return self._details[ordinal]

    @property
    def dirty(self) -> int:
        """Count the handed-over nodes that have changed since the last take."""
        return len(self._dirty)

    @property
    def released(self) -> int:
        """Count the nodes whose rows may be written."""
        return self._released

    def started_ms(self, ordinal: int) -> int | None:
        """Return when the latest try of a node started, if that is known."""
        # No report moves it.
        started = self._details[ordinal].started_ms
        return None if started is UNSET else started

    def resume(self, details: Iterable[Detail]) -> None:
        """Go on with rows that are stored."""
        self._details.extend(details)
        self._released = len(self._details)

    def register(self) -> None:
        """Add the next retained node: pending, in its first try."""
        self._details.append(PENDING)

    def apply_state(self, record: State) -> Verdict:
        """Apply a state of a retained node unless its key is older or equal."""
        ordinal = record.ordinal
        old = self[ordinal]
        key = (record.invocation, record.try_, RANKS[record.state])
        held = (old.invocation, old.try_, RANKS[old.state])
        if key <= held:
            return Verdict.duplicate if key == held else Verdict.stale
        begun = key[:2] == held[:2]
        self._put(ordinal, _moved(old if begun else PENDING, record))
        if not begun:
            self._catch_up(ordinal)
        return Verdict.applied

    def set_state(self, ordinal: int, state: NodeState, try_: int) -> Verdict:
        """Apply a state without times: what a resent array of states says."""
        old = self[ordinal]
        key, held = (try_, RANKS[state]), (old.try_, RANKS[old.state])
        if key <= held:
            return Verdict.duplicate if key == held else Verdict.stale
        if try_ == old.try_:
            self._put(ordinal, replace(old, state=state))
        else:
            new = Detail(invocation=old.invocation, state=state, try_=try_)
            self._put(ordinal, new)
            self._catch_up(ordinal)
        return Verdict.applied

    def apply_progress(self, ordinal: int, record: Progress) -> Verdict:
        """Apply a leaf's report to a retained node unless its key is older or equal."""
        told = self._told.get(ordinal)
        held = self._details[ordinal] if told is None else told
        if record.try_ != held.try_ or record.invocation != held.invocation:
            if (record.invocation, record.try_) < (held.invocation, held.try_):
                return Verdict.stale
            return self._keep_ahead(ordinal, record)
        if record.sequence <= held.sequence:
            same = record.sequence == held.sequence
            return Verdict.duplicate if same else Verdict.stale
        if told is not None and not _covers(record, told, self._details[ordinal]):
            self._details[ordinal] = _reported(self._details[ordinal], told)
        self._told[ordinal] = record
        if ordinal < self._released:
            self._dirty.add(ordinal)
        if record.metrics is not None or len(record.message or "") > SHORT:
            # A large one is not kept twice.
            self[ordinal]
        return Verdict.applied

    def apply_preview(self, record: Preview) -> Verdict:
        """Keep the preview of a retained node's output: of each try the first told."""
        ordinal = record.ordinal
        old = self[ordinal]
        key = (record.invocation, record.try_)
        held = (old.invocation, old.try_)
        if key < held:
            return Verdict.stale
        if key > held:
            return self._keep_preview_ahead(record)
        if old.preview is not UNSET:
            return Verdict.duplicate
        self._put(ordinal, replace(old, preview=Raw(record.value)))
        return Verdict.applied

    def release(self, upto: int) -> None:
        """Let the rows of all nodes below `upto` be written, from the next take on."""
        self._dirty.update(range(self._released, upto))
        self._released = upto

    def withhold(self, first: int) -> None:
        """Take the nodes from `first` on back: their hand-over has failed."""
        self._released = first
        self._dirty = {ordinal for ordinal in self._dirty if ordinal < first}

    def take(self) -> tuple[list[int], list[Detail]]:
        """Hand out what changed, by ordinal, and count it as clean."""
        ordinals = sorted(self._dirty)
        self._dirty = set()
        return ordinals, [self[ordinal] for ordinal in ordinals]

    def restore(self, ordinals: Iterable[int]) -> None:
        """Mark rows dirty again; those that changed meanwhile already are."""
        self._dirty.update(ordinals)

    def _put(self, ordinal: int, detail: Detail) -> None:
        self._details[ordinal] = detail
        if ordinal < self._released:
            self._dirty.add(ordinal)

    def _keep_ahead(self, ordinal: int, record: Progress) -> Verdict:
        kept = self._ahead.get(ordinal)
        if kept is not None:
            key = (record.invocation, record.try_, record.sequence)
            held = (kept.invocation, kept.try_, kept.sequence)
            if key <= held:
                return Verdict.duplicate if key == held else Verdict.stale
        self._ahead[ordinal] = record
        return Verdict.applied

    def _keep_preview_ahead(self, record: Preview) -> Verdict:
        kept = self._previews_ahead.get(record.ordinal)
        if kept is not None:
            key = (record.invocation, record.try_)
            held = (kept.invocation, kept.try_)
            if key <= held:
                return Verdict.duplicate if key == held else Verdict.stale
        self._previews_ahead[record.ordinal] = record
        return Verdict.applied

    def _catch_up(self, ordinal: int) -> None:
        """Give a node whose new try has begun what was told of that try before."""
        new = self[ordinal]
        held = (new.invocation, new.try_)
        record = self._ahead.get(ordinal)
        if record is not None and (record.invocation, record.try_) <= held:
            del self._ahead[ordinal]
            if (record.invocation, record.try_) == held:
                self._put(ordinal, _reported(new, record))
        preview = self._previews_ahead.get(ordinal)
        if preview is not None and (preview.invocation, preview.try_) <= held:
            del self._previews_ahead[ordinal]
            self.apply_preview(preview)


PENDING = Detail()
"""A node as it is registered; frozen, so all of them may share it."""


def _moved(base: Detail, record: State) -> Detail:
    state, at = record.state, record.at_ms
    started = base.started_ms if record.started_ms is None else record.started_ms
    if state is NodeState.RUNNING and started is UNSET:
        started = at
    return replace(
        base,
        attempt=base.attempt if record.ray_attempt is None else record.ray_attempt,
        ended_ms=at if state in TERMINAL_NODE_STATES else UNSET,
        error=_fault(record.error),
        host=base.host if record.host is None else record.host,
        invocation=record.invocation,
        started_ms=started,
        state=state,
        submitted_ms=at if state is NodeState.SUBMITTED else base.submitted_ms,
        try_=record.try_,
    )


def _fault(failure: Failure | None) -> Fault | UnsetType:
    return UNSET if failure is None else Fault(kind=failure.kind, text=failure.text)


def _covers(record: Progress, told: Progress, base: Detail) -> bool:
    """Claim that `base` with both reports is what it is with the later one alone."""
    numbers = record.current is not None and (
        record.total is not None or (told.total is None and base.total is UNSET)
    )
    return (
        (numbers or (told.current is None and told.total is None))
        and (record.message is not None or told.message is None)
        and (record.metrics is not None or told.metrics is None)
        and (record.host is not None or told.host is None)
    )


def _reported(base: Detail, record: Progress) -> Detail:
    current = base.current if record.current is None else record.current
    total = base.total if record.total is None else record.total
    if current is not UNSET and total is not UNSET and current > total:
        # Two reports that are sound by themselves: the total is the one not repeated.
        total = UNSET if record.total is None else total
        current = UNSET if record.current is None else current
    return replace(
        base,
        current=current,
        host=base.host if record.host is None else record.host,
        message=base.message if record.message is None else record.message,
        metrics=base.metrics if record.metrics is None else record.metrics,
        reported_ms=record.at_ms,
        sequence=record.sequence,
        total=total,
    )
