"""What an audit finds and counts, and what its parts tell each other on the way."""

from array import array
from collections import Counter
from dataclasses import dataclass, field

from django_ray.progress.stages import StageRow
from django_ray.protocol.vocabulary import NodeState

FINDINGS = 1_000
"""So many disagreements of one run are kept; all are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement: what it is, and the ordinal, version or number it was met at."""

    code: str
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found, and what was counted on the way; sound without a finding.

    Of a run that `is_expired` nothing is compared: cleanup may be in the middle of it.
    `disagreements` counts all of them, `findings` holds the first thousand.
    """

    findings: tuple[Finding, ...]
    disagreements: int
    nodes: int
    edges: int
    rows: int
    bytes: int
    is_expired: bool

    @property
    def is_clean(self) -> bool:
        """Claim that nothing disagrees."""
        return not self.disagreements


@dataclass(slots=True)
class Ledger:
    """The run so far: its published topology, then its rows, then its extras.

    `sources` and `targets` are the topology's edges; `stage_of` is the stage of each row by
    ordinal, `index_of` and `name_of` what stages are called; `placed` counts the rows of each
    stage by state.
    """

    findings: list[Finding] = field(default_factory=list)
    disagreements: int = 0
    node_ids: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    sources: array[int] = field(default_factory=lambda: array("I"))
    targets: array[int] = field(default_factory=lambda: array("I"))
    edges: int = 0
    manifest_id: int | None = None
    rows: int = 0
    bytes: int = 0
    states: Counter[NodeState] = field(default_factory=Counter)
    stage_of: dict[int, int] = field(default_factory=dict)
    index_of: dict[str, int] = field(default_factory=dict)
    name_of: dict[int, str] = field(default_factory=dict)
    placed: Counter[tuple[int, NodeState]] = field(default_factory=Counter)
    stages: StageRow | None = None
    is_expired: bool = False

    def find(self, code: str, at: int | None = None) -> None:
        """Note a disagreement."""
        self.disagreements += 1
        if len(self.findings) < FINDINGS:
            self.findings.append(Finding(code, at))

    def close(self) -> Audit:
        """Return what was found."""
        return Audit(
            findings=tuple(self.findings),
            disagreements=self.disagreements,
            nodes=len(self.node_ids),
            edges=self.edges,
            rows=self.rows,
            bytes=self.bytes,
            is_expired=self.is_expired,
        )
