"""What changed since the last commit: as the model knows it, and as storage writes it.

The model decides, storage writes: a publication names the revisions it stands on and those
it makes, so a writer whose base has moved learns it instead of overwriting. ADR-0004.
"""

from dataclasses import dataclass, field

from django_ray.progress.bequest import Bequest
from django_ray.progress.pages import Candidate
from django_ray.progress.topology import Edges
from django_ray.protocol.frames import End
from django_ray.protocol.records import Detail, NodeItem
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import TruncationReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What changed since the last delta, as values of its own.

    `ordinals` and `details` are the changed retained nodes, ascending, `nodes` the newly
    retained ones with the stage index of each in `stage_indexes` and their `edges`: every
    one of `nodes` is among `ordinals` too. `waiting` counts nodes that are in the counts and
    in no topology yet. `stages` and `events` are encoded, None where unchanged. `changed` is
    False for a heartbeat. `bequest` is without what collector and draft know of it.
    `snapshot` is a compiled session's, None where unchanged; `session` is what the summary
    holds of it.
    """

    taken_ms: int
    changed_ms: int
    changed: bool
    ordinals: list[int]
    details: list[Detail]
    nodes: list[NodeItem]
    stage_indexes: bytes
    edges: list[Edges]
    waiting: int
    counts: NodeCounts
    declared: int
    discovered_edges: int
    hosts: int
    ended_by_minute: tuple[int, ...]
    reasons: frozenset[TruncationReason]
    stages: bytes | None
    events: bytes | None
    end: End | None
    bequest: Bequest
    snapshot: bytes | None = None
    session: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """The three epochs a run's row holds; 0 is none yet."""

    summary: int = 0
    detail: int = 0
    topology: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Changed detail rows in columns, by ascending ordinal; all columns equally long.

    `fresh` counts, at the end of the columns, the rows that no commit has confirmed yet.
    """

    ordinals: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    fresh: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One atomic change of what readers see.

    `stages`, `events`, `session`, `bequest` are None where unchanged. `candidate` is the staged
    topology to promote, None where the published one stays. `expires_at_ms` is set by the
    run's end. The run's totals are not in it: storage computes them from the rows.
    """

    base: Revisions
    after: Revisions
    rows: Rows
    summary: bytes
    stages: bytes | None = None
    events: bytes | None = None
    session: bytes | None = None
    bequest: bytes | None = None
    candidate: Candidate | None = None
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """The publication is committed; `rows` and `bytes` are the run's totals after it."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another run, another writer, or an ended task owns the row: nothing changed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The run's row stands on other revisions than the base: nothing changed.

    So it is after a commit whose answer was lost: the writer takes these and tries again.
    """

    revisions: Revisions


Outcome = Published | Fenced | Moved
