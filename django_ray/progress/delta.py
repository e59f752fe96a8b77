"""What changed since the last commit, as the one value a publication writes.

The model decides, storage writes: a publication names the revisions it stands on and those
it makes, so a writer whose base has moved learns it instead of overwriting. ADR-0004.
"""

from dataclasses import dataclass, field

from django_ray.progress.pages import Candidate


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

    `stages`, `events`, `session` are None where unchanged. `candidate` is the staged
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
