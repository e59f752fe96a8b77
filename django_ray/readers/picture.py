"""What a reader found of one execution, as values that need no database.

A reading is the row and its summary; a picture adds what the terminal shows besides. Both
are made in `readers/` and drawn elsewhere, so a frame can be drawn from values alone.
"""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Literal

from django_ray.protocol.summary import NodeCounts, Summary
from django_ray.protocol.vocabulary import (
    TERMINAL_EXECUTION_STATES,
    DetailAvailability,
    ExecutionState,
    NodeState,
    ReportingPolicy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The durable row's facts; `pk` is internal and is never shown.

    `max_attempts` and `timeout_seconds` are None where the row's options name none.
    """

    pk: int
    public_id: uuid.UUID
    task_path: str
    queue_name: str
    state: ExecutionState
    attempt_number: int
    execution_generation: int
    run_id: uuid.UUID | None
    policy: ReportingPolicy | None
    max_attempts: int | None
    timeout_seconds: int | None
    enqueued_at: dt.datetime
    claimed_at: dt.datetime | None
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    cancel_requested_at: dt.datetime | None
    lease_expires_at: dt.datetime | None

    @property
    def has_ended(self) -> bool:
        """Claim that no state follows."""
        return self.state in TERMINAL_EXECUTION_STATES

    @property
    def is_undecided(self) -> bool:
        """Claim that the run has ended, and its execution waits for an operator's word."""
        return self.state is ExecutionState.RECONCILE

    @property
    def name(self) -> str:
        """Return the short name a person knows the task by."""
        return self.task_path.rpartition(".")[2]


type LegacyState = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED"]
"""The states an older writer knew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legacy:
    """What a snapshot of schema 1 or 2 adds up to, as its writer said it.

    The four counts need not add up to `nodes`. `edges` is None where they could not be
    counted, `observed_at_ms` where no time was given.
    """

    schema: Literal[1, 2]
    state: LegacyState
    revision: int
    percent: int
    observed_at_ms: int | None
    nodes: int
    succeeded: int
    failed: int
    running: int
    pending: int
    edges: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """There is a legacy snapshot, of so many bytes: too large to be read."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One execution and the summary of its current run, if there is one.

    `availability` is the summary's own; without a summary it says why: NOT_REPORTED,
    DISABLED, or CORRUPT when the stored bytes are not a summary. `legacy` is what an older
    writer left, where there is no summary and the reader asks for it. `read_at` is the
    database's clock, so that an age compares no clock of the reading machine.
    """

    execution: Execution
    summary: Summary | None
    availability: DetailAvailability
    read_at: dt.datetime
    legacy: Legacy | Oversized | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: its exact counts, when it began, and how long its ended nodes took."""

    index: int
    label: str
    counts: NodeCounts
    first_start_ms: int | None
    p50_ms: int | None
    p95_ms: int | None
    longest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed node. Kept with detail, or only named by the stage row."""

    node_id: str
    ended_ms: int | None
    try_: int | None
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One kept node at work, with its last report."""

    node_id: str
    stage: int
    started_ms: int
    host: str
    message: str
    current: float | None
    total: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One kept node; what was not reported is None or empty."""

    node_id: str
    state: NodeState
    stage: int
    try_: int
    started_ms: int | None
    ended_ms: int | None
    host: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Failures of one class whose texts differ in particulars only, newest first."""

    kind: str
    text: str
    nodes: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closer:
    """What a closer look found: all causes of failures, or nodes as registered.

    Each is bounded; `more` says that there are more of what was looked at.
    """

    causes: tuple[Cause, ...] = ()
    nodes: tuple[Kept, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that one frame of `watch_run` shows.

    `failures` are newest first, `running` longest first; both are bounded and may be
    fewer than the summary counts. `error` is the attempt's, if it has one. `answered` is
    false when the database did not answer and this is the picture from before. `closer` is
    None where nobody looked closer, or there is no sound detail to look at.
    """

    reading: Reading
    stages: tuple[Stage, ...] = ()
    failures: tuple[Failure, ...] = ()
    running: tuple[Running, ...] = ()
    error: str = ""
    answered: bool = True
    closer: Closer | None = None
