"""What is told of nodes before their registration, in bounded memory. Contract 4.3.

A leaf reports to the collector itself and may overtake the coordinator's record of its
node. Its frame counts as applied all the same, so what it said has to be kept here. Where
there is no room for it the frame is not taken, and its producer keeps it.
"""

from typing import NamedTuple

from django_ray.protocol.frames import Preview, Progress, State
from django_ray.protocol.vocabulary import RANKS

EARLY = 1_024
"""Of how many nodes something is kept: a bound, since an ordinal may be anybody's."""

KEPT, REFUSED = "early", "unknown_node"
"""How a record is tallied that is kept, or that there is no room for."""


class Told(NamedTuple):
    """The latest state, progress and preview of one node."""

    state: State | None = None
    report: Progress | None = None
    preview: Preview | None = None


NOTHING = Told()


class Early:
    """The latest of what was told of nodes that are not registered, by ordinal."""

    def __init__(self) -> None:
        self._told: dict[int, Told] = {}

    def __len__(self) -> int:
        return len(self._told)

    def below(self, known: int) -> list[int]:
        """Return the nodes below `known` of which something is kept."""
        return [ordinal for ordinal in self._told if ordinal < known]

    def keep_state(self, record: State) -> str:
        """Keep a state unless a later one is kept; return its tally."""
        told = self._told.get(record.ordinal, NOTHING)
        if told.state is None or _moment(told.state) < _moment(record):
            told = told._replace(state=record)
        return self._put(record.ordinal, told)

    def keep_report(self, ordinal: int, record: Progress) -> str:
        """Keep a progress unless a later one is kept; return its tally."""
        told = self._told.get(ordinal, NOTHING)
        if told.report is None or _place(told.report) < _place(record):
            told = told._replace(report=record)
        return self._put(ordinal, told)

    def keep_preview(self, record: Preview) -> str:
        """Keep a preview unless one of that try or a later is kept; return its tally."""
        told = self._told.get(record.ordinal, NOTHING)
        kept = told.preview
        if kept is None or _try(kept) < _try(record):
            told = told._replace(preview=record)
        return self._put(record.ordinal, told)

    def pop(self, ordinal: int) -> Told:
        """Hand out what was kept of a node, now that it is registered."""
        return self._told.pop(ordinal, NOTHING)

    def _put(self, ordinal: int, told: Told) -> str:
        if len(self._told) >= EARLY and ordinal not in self._told:
            return REFUSED
        self._told[ordinal] = told
        return KEPT


def _moment(record: State) -> tuple[int, int, int]:
    return record.invocation, record.try_, RANKS[record.state]


def _place(record: Progress) -> tuple[int, int, int]:
    return record.invocation, record.try_, record.sequence


def _try(record: Preview) -> tuple[int, int]:
    return record.invocation, record.try_
