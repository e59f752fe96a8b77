"""The collector's picture of one run: records in, what changed out. Contract 4.1 to 4.10.

One lock of the collector guards every method. A publication takes a `Delta`, which holds
frozen values and lists of its own, so it is read without the lock; at most one is out at a
time, and it comes back by `settle` or by `restore`.
"""

from typing import assert_never

from django_ray.progress.counters import MAXIMUM_TRY, Counters
from django_ray.progress.delta import Delta
from django_ray.progress.early import Early
from django_ray.progress.growth import Batch, Declared, Growth
from django_ray.progress.nodes import Nodes, Verdict
from django_ray.progress.overview import Overview
from django_ray.protocol import frames
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.records import EventItem
from django_ray.protocol.vocabulary import (
    TERMINAL_NODE_STATES,
    NodeState,
    ReportingPolicy,
    TruncationReason,
)

HEARTBEAT_MS = 5_000
"""With nothing changed, how often a summary says that the collector lives."""

TALLIES = (
    "applied",
    "duplicate",
    "stale",
    "resent",
    "gap",
    "early",
    "unknown_node",
    "unknown_task",
    "retry_limit",
    "omitted",
    "ended",
    "unsupported",
)
"""The keys of `Model.tallies`: what became of each record, counted once. An `early` one
is kept until its node is registered, and applied then."""

_OfNodes = frames.Task | frames.States | frames.Preview
_OfRun = frames.Declare | frames.Event | frames.Session | frames.End


class Model:
    """Everything known of one run, bounded whatever its size.

    Retained nodes keep their latest detail; all others two bytes. Under `summary` and
    `terminal_only` no node is retained and no stage kept.
    """

    def __init__(self, settings: RunSettings) -> None:
        limits = settings.limits
        self._policy = settings.policy
        self._full = settings.policy is ReportingPolicy.full
        self._retained = limits.retained_nodes if self._full else 0
        self._known_tasks = limits.retained_nodes
        self._counters = Counters()
        self._nodes = Nodes()
        self._early = Early()
        self._growth = Growth()
        self._declared = Declared()
        self._overview = Overview(limits, full=self._full)
        self._tasks: dict[bytes, int] = {}
        self._registered = 0
        self._changed = False
        self._changed_ms = settings.started_at_ms
        self._observed_ms: int | None = None
        self._end: frames.End | None = None
        self._over = False
        self.tallies = dict.fromkeys(TALLIES, 0)

    @property
    def ended(self) -> frames.End | None:
        """Return the end of the run once its coordinator has told it."""
        return self._end

    @property
    def is_over(self) -> bool:
        """Claim that the end is committed: nothing more will be published."""
        return self._over

    @property
    def changed_rows(self) -> int:
        """Count the rows the next delta holds at the most."""
        return self._nodes.dirty + self._growth.waiting

    def apply(self, record: frames.Record, now_ms: int) -> bytes | None:
        """Apply one record of a frame and count what became of it; never raise.

        Return the Ray task id of a progress whose node is not known yet: its producer has
        to send it again. All else is settled here, whatever its tally.
        """
        unknown: bytes | None = None
        if self._over:
            tally = "ended"
        elif isinstance(record, frames.State):
            tally = self._apply_state(record, now_ms)
        elif isinstance(record, frames.Node):
            tally = self._apply_node(record, now_ms)
        elif isinstance(record, frames.Progress):
            tally = self._apply_progress(record)
            if tally == "unknown_task" and isinstance(record.target, bytes):
                unknown = record.target
        else:
            tally = self._apply_rare(record, now_ms)
        self.tallies[tally] += 1
        if tally == "applied":
            self._changed = True
            self._changed_ms = now_ms
        return unknown

    def changed(self, now_ms: int) -> bool:
        """Claim that a publication is due: a change, or five seconds without one.

        Before the first record there is nothing to say, after the committed end nothing
        more. Under `terminal_only` only the end is said.
        """
        only_end = self._policy is ReportingPolicy.terminal_only
        if self._over or (only_end and self._end is None):
            return False
        if self._changed or self._is_due(now_ms):
            return True
        seen = self._observed_ms
        return seen is not None and now_ms - seen >= HEARTBEAT_MS

    def take(self, now_ms: int) -> Delta | None:
        """Hand out what changed, in O(changed); None when no publication is due.

        What is applied from here on belongs to the next delta. `settle` or `restore` must
        follow before the next take.
        """
        if not self.changed(now_ms):
            return None
        # Whatever may fail comes before anything is handed out: then nothing is lost.
        overview = self._overview
        stages, events = overview.take()
        batch = Batch([], b"", [])
        if self._is_due(now_ms):
            batch = self._growth.take()
            self._nodes.release(len(self._nodes))
        ordinals, details = self._nodes.take()
        delta = Delta(
            taken_ms=now_ms,
            changed_ms=self._changed_ms,
            changed=self._changed,
            ordinals=ordinals,
            details=details,
            nodes=batch.nodes,
            stage_indexes=batch.stages,
            edges=batch.edges,
            waiting=self._growth.waiting + len(self._counters) - self._registered,
            counts=self._counters.counts(),
            declared=self._declared.total,
            discovered_edges=overview.edges,
            hosts=overview.hosts,
            ended_by_minute=overview.ended_by_minute(self._changed_ms),
            reasons=overview.reasons,
            stages=stages,
            events=events,
            end=self._end,
        )
        self._changed = False
        return delta

    def settle(self, delta: Delta) -> None:
        """Note that the publication of `delta` is committed."""
        self._observed_ms = delta.taken_ms
        if delta.nodes:
            self._growth.settle(delta.taken_ms)
        self._over = delta.end is not None

    def restore(self, delta: Delta) -> None:
        """Take `delta` back: its publication failed, so all of it is due again."""
        self._changed |= delta.changed
        self._overview.restore(
            stages=delta.stages is not None, events=delta.events is not None
        )
        self._nodes.restore(delta.ordinals)
        if delta.nodes:
            self._nodes.withhold(delta.nodes[0].ordinal)
            self._growth.restore(Batch(delta.nodes, delta.stage_indexes, delta.edges))

    def _is_due(self, now_ms: int) -> bool:
        return self._growth.is_due(now_ms, ended=self._end is not None)

    def _apply_state(self, record: frames.State, now_ms: int) -> str:
        ordinal, state = record.ordinal, record.state
        if ordinal >= len(self._counters):
            return self._early.keep_state(record)
        if ordinal < len(self._nodes):
            verdict = self._nodes.apply_state(record)
            if verdict is not Verdict.applied:
                return verdict
            before = self._counters.put(ordinal, state, record.try_)
            started = self._nodes.started_ms(ordinal)
        else:
            if self._registered <= ordinal < self._retained:
                # An array told the node, so it counts now: its times are kept till then.
                self._early.keep_state(record)
            if record.try_ > MAXIMUM_TRY:
                return "retry_limit"
            moved = self._counters.advance(ordinal, state, record.try_)
            if moved is None:
                return "stale"
            before, started = moved, record.started_ms
        self._moved(ordinal, before, state, now_ms)
        stage = self._counters.stage(ordinal)
        if started is not None:
            self._overview.started(stage, started)
        if state in TERMINAL_NODE_STATES:
            self._overview.ended(stage, record, started, now_ms)
        if state is NodeState.FAILED:
            self._overview.failed(record, self._growth.id(ordinal))
        self._overview.seen(record.host)
        return "applied"

    def _moved(
        self, ordinal: int, before: NodeState | None, after: NodeState, now_ms: int
    ) -> None:
        # A node that only an array has told is in no stage yet.
        if ordinal < self._registered:
            self._overview.moved(self._counters.stage(ordinal), before, after, now_ms)

    def _apply_node(self, node: frames.Node, now_ms: int) -> str:
        ordinal, runs = node.ordinal, node.dependencies
        if ordinal != self._registered:
            return "resent" if ordinal < self._registered else "gap"
        self._registered += 1
        edges = sum(runs[1::2])
        stage = self._overview.discovered(node.stage, edges + node.further)
        early = self._early.pop(ordinal)
        counted = ordinal < len(self._counters)
        if not counted:
            self._counters.add(stage)
        if self._full:
            self._place(node, stage, edges)
            if counted:
                self._catch_up(ordinal, stage, early.state)
        if early.state is not None and not counted:
            self._apply_state(early.state, now_ms)
        if early.report is not None:
            self._report(ordinal, early.report)
        if early.preview is not None:
            self._apply_preview(early.preview)
        return "applied"

    def _catch_up(self, ordinal: int, stage: int, early: frames.State | None) -> None:
        # A resent array told this node's state before the node itself was told.
        self._counters.restage(ordinal, stage)
        state, try_ = self._counters.state(ordinal), self._counters.try_(ordinal)
        if ordinal < len(self._nodes):
            if early is not None:
                self._nodes.apply_state(early)
            self._nodes.set_state(ordinal, state, try_)
            state, try_ = self._nodes[ordinal].state, self._nodes[ordinal].try_
            self._counters.put(ordinal, state, try_)
        self._overview.moved(stage, NodeState.PENDING, state, self._changed_ms)

    def _place(self, node: frames.Node, stage: int, edges: int) -> None:
        retained = node.ordinal < self._retained
        overview = self._overview
        rank: int | None
        if retained:
            self._nodes.register()
            rank = self._growth.add(node, stage, edges)
            if node.further:
                overview.omit(TruncationReason.record_size_limit)
        else:
            overview.omit(TruncationReason.node_count_limit)
            rank = overview.rank(stage)
            if rank is None:
                rank = self._growth.rank(node.dependencies)
        overview.place(stage, rank, retained=retained)
        for source, number in self._counters.stages_of(node.dependencies):
            overview.link(source, stage, number)

    def _apply_progress(self, record: frames.Progress) -> str:
        target = record.target
        ordinal = self._tasks.get(target, -1) if isinstance(target, bytes) else target
        if ordinal < 0:
            return "unknown_task"
        if not self._is_known(ordinal):
            return self._early.keep_report(ordinal, record)
        return self._report(ordinal, record)

    def _is_known(self, ordinal: int) -> bool:
        """Claim that a node's detail is there, or never will be."""
        retained = ordinal < self._retained
        return ordinal < (self._registered if retained else len(self._counters))

    def _report(self, ordinal: int, record: frames.Progress) -> str:
        self._overview.seen(record.host)
        if ordinal >= len(self._nodes):
            return "omitted"
        return self._nodes.apply_progress(ordinal, record)

    def _apply_preview(self, record: frames.Preview) -> str:
        ordinal = record.ordinal
        if not self._is_known(ordinal):
            return self._early.keep_preview(record)
        if ordinal >= len(self._nodes):
            return "omitted"
        return self._nodes.apply_preview(record)

    def _apply_rare(self, record: _OfNodes | _OfRun, now_ms: int) -> str:
        match record:
            case frames.Declare():
                added = self._declared.add(record.call, record.number)
                return "applied" if added else "resent"
            case frames.Task():
                return self._apply_task(record)
            case frames.States():
                return self._apply_states(record, now_ms)
            case frames.Event():
                if not self._full:
                    return "omitted"
                at, kind, ordinal = record.at_ms, record.kind, record.ordinal
                self._overview.tell(EventItem(at, kind, ordinal, record.text))
                return "applied"
            case frames.End():
                if self._end is not None:
                    return "duplicate"
                self._end = record
                return "applied"
            case frames.Preview():
                return self._apply_preview(record)
            case frames.Session():
                return "unsupported"
            case _:
                assert_never(record)

    def _apply_task(self, record: frames.Task) -> str:
        if record.ordinal >= len(self._counters):
            return "unknown_node"
        self._tasks[record.task_id] = record.ordinal
        if len(self._tasks) > self._known_tasks:
            del self._tasks[next(iter(self._tasks))]
        return "applied"

    def _apply_states(self, record: frames.States, now_ms: int) -> str:
        if record.first > len(self._counters):
            return "gap"
        tally = "resent"
        for change in self._counters.merge(record):
            tally = "applied"
            ordinal, after = change.ordinal, change.after
            if ordinal < len(self._nodes):
                self._nodes.set_state(ordinal, after, self._counters.try_(ordinal))
            self._moved(ordinal, change.before, after, now_ms)
            early = self._early.state(ordinal)
            if early is not None:
                self._apply_state(early, now_ms)
        return tally
