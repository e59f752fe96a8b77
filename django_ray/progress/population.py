"""Every node of a run: two bytes of each, and the latest detail of the retained ones.

Contract 4.1 to 4.3. What is told of a node reaches its detail, the counts, and the run as a
whole, each exactly once: also when it is told again, before its node, or by the coordinator
of a run whose first collector is no more (see `standing`).
"""

from typing import NamedTuple

from django_ray.progress import counters
from django_ray.progress.counters import MAXIMUM_TRY, Counters
from django_ray.progress.early import Early
from django_ray.progress.growth import Batch, Growth
from django_ray.progress.nodes import Nodes, Verdict
from django_ray.progress.overview import Overview
from django_ray.progress.resync import Resync
from django_ray.progress.standing import Standing
from django_ray.protocol import frames
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.records import Detail
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import (
    TERMINAL_NODE_STATES,
    NodeState,
    TruncationReason,
)

OfNode = (
    frames.Node
    | frames.Task
    | frames.State
    | frames.Progress
    | frames.Preview
    | frames.States
)

UNKNOWN = -1
"""How many nodes the stored totals hold, where that could not be read back."""


_FORGONE = TruncationReason.topology_size_limit
"""Why a counted node has no detail, where nobody tells it."""

INVOCATIONS = 4_096
"""Nodes without detail whose invocation is known; later ones keep their first end."""


class Handed(NamedTuple):
    """What one publication takes: new nodes, and the changed rows by ordinal."""

    batch: Batch
    ordinals: list[int]
    details: list[Detail]


class Population:
    """The nodes of one run. Without `full` none is retained."""

    def __init__(self, limits: Limits, overview: Overview, *, full: bool) -> None:
        self.resumes = False
        """The run goes on from what is stored, and its resync is not complete."""
        self._full = full
        self._retained = limits.retained_nodes if full else 0
        self._reason = TruncationReason.node_count_limit
        self._known_tasks = limits.retained_nodes
        self._overview = overview
        self._counters = Counters()
        self._nodes = Nodes()
        self._early = Early()
        self._growth = Growth()
        self._resync = Resync()
        self._tasks: dict[bytes, int] = {}
        self._running: dict[int, int] = {}
        self._host: str | None = None
        self._invocations: dict[int, int] = {}
        self._registered = 0
        self._counted = 0

    @property
    def counts(self) -> NodeCounts:
        """Return the seven counts."""
        return self._counters.counts()

    @property
    def waiting(self) -> int:
        """Count the nodes that wait for their topology."""
        return self._growth.waiting

    @property
    def changed_rows(self) -> int:
        """Count the rows that are handed out next at the most."""
        return self._nodes.dirty + self._growth.waiting

    @property
    def registered(self) -> int:
        """Count the nodes that are in the totals."""
        return max(self._registered, self._counted)

    @property
    def running(self) -> tuple[tuple[int, int], ...]:
        """Return nodes without detail that run, each with its try; the bequest's bound."""
        return tuple(self._running.items())

    @property
    def has_early(self) -> bool:
        """Claim that something is kept that was told of nodes not registered yet."""
        return len(self._early) > 0

    def is_due(self, now_ms: int, *, ended: bool) -> bool:
        """Claim that the waiting nodes are to be staged now."""
        return self._growth.is_due(now_ms, ended=ended)

    def take(self, now_ms: int, *, ended: bool) -> Handed:
        """Hand out the changed rows, with the waiting nodes where these are due."""
        batch = Batch([], b"", [])
        if self.is_due(now_ms, ended=ended):
            batch = self._growth.take()
            self._nodes.release(len(self._nodes))
        return Handed(batch, *self._nodes.take())

    def settle(self, at_ms: int) -> None:
        """Note that the topology with the nodes handed out is published."""
        self._growth.settle(at_ms)

    def restore(self, handed: Handed) -> None:
        """Take back what was handed out: its publication failed."""
        self._nodes.restore(handed.ordinals)
        if handed.batch.nodes:
            self._nodes.withhold(handed.batch.nodes[0].ordinal)
            self._growth.restore(handed.batch)

    def resume(self, standing: Standing) -> None:
        """Go on with the nodes that are stored, before the first record."""
        self.resumes = True
        left, kept = standing.bequest, standing.detailed
        if standing.fault is not None:
            self._counted, self._running = UNKNOWN, dict(standing.running)
            return
        if kept is not None:
            self._nodes.resume(kept.details)
            self._growth.resume(kept.nodes)
            values = (counters.byte(each.state, each.try_) for each in kept.details)
            self._counters.extend(bytes(values), kept.stages)
        if left is None:
            return
        self._counted = self._registered = left.registered
        self._running = dict(left.running)
        if left.nodes_ended is not None:
            self._retained, self._reason = len(self._nodes), left.nodes_ended
        if len(self._nodes) < min(self._retained, self._registered):
            # Those behind waited for their topology, and come again.
            self._registered = len(self._nodes)

    def apply(self, record: OfNode, now_ms: int) -> str:
        """Apply what is told of one node, or an array; return its tally."""
        match record:
            case frames.State():
                return self._apply_state(record, now_ms)
            case frames.Node():
                return self._apply_node(record, now_ms)
            case frames.Progress():
                return self._apply_progress(record, now_ms)
            case frames.Preview():
                return self._apply_preview(record)
            case frames.Task():
                return self._apply_task(record)
            case frames.States():
                return self._apply_states(record, now_ms)

    def report(self, ordinal: int, record: frames.Progress) -> str | None:
        """Apply a report of a retained node; None where it takes the way of all records."""
        if ordinal >= self._registered or ordinal >= len(self._nodes):
            return None
        if record.host != self._host:
            self._overview.seen(record.host)
            self._host = record.host
        return self._nodes.apply_progress(ordinal, record)

    def _apply_state(self, record: frames.State, now_ms: int) -> str:
        ordinal, state = record.ordinal, record.state
        if ordinal >= min(self._registered, len(self._counters)):
            return self._early.keep_state(record)
        if ordinal < len(self._nodes):
            verdict = self._nodes.apply_state(record)
            if verdict is not Verdict.applied:
                return verdict
            before = self._counters.put(ordinal, state, record.try_)
            started = self._nodes.started_ms(ordinal)
        else:
            if record.try_ > MAXIMUM_TRY:
                return "retry_limit"
            moved = self._advance(record)
            if moved is None:
                return "stale"
            before, started = moved, record.started_ms
        self._moved(ordinal, before, state, now_ms)
        stage = self._counters.stage(ordinal)
        if started is not None:
            self._overview.started(stage, started)
        self._overview.seen(record.host)
        if state in TERMINAL_NODE_STATES and not self._resync.repeats:
            self._overview.ended(stage, record, started, now_ms)
            if state is NodeState.FAILED:
                self._overview.failed(record, self._growth.id(ordinal))
        return "applied"

    def _advance(self, record: frames.State) -> NodeState | None:
        """Move a node without detail; one of a compiled session is ended again and again.

        Such nodes are few, so the invocation of each is kept beside its two bytes.
        """
        ordinal, number = record.ordinal, record.invocation
        known = self._invocations.get(ordinal, 0)
        if number == known:
            return self._counters.advance(ordinal, record.state, record.try_)
        if number < known or (not known and len(self._invocations) >= INVOCATIONS):
            return None
        self._invocations[ordinal] = number
        return self._counters.put(ordinal, record.state, record.try_)

    def _moved(
        self, ordinal: int, before: NodeState, after: NodeState, now_ms: int
    ) -> None:
        if ordinal >= len(self._nodes):
            if after is not NodeState.RUNNING:
                # Whatever it was: a run that resumes does not know that the node ran.
                self._running.pop(ordinal, None)
            elif len(self._running) < V1.bequest_running:
                self._running[ordinal] = self._counters.try_(ordinal)
        # While the run resumes its stages are not counted: they will be, as a whole.
        if not self.resumes:
            stage = self._counters.stage(ordinal)
            self._overview.moved(stage, before, after, now_ms)

    def _apply_node(self, node: frames.Node, now_ms: int) -> str:
        ordinal, runs = node.ordinal, node.dependencies
        if ordinal >= self._counted:
            self._forgo()
        if ordinal != self._registered:
            return "resent" if ordinal < self._registered else "gap"
        self._registered += 1
        edges = sum(runs[1::2])
        stage = self._overview.index(node.stage)
        counted = ordinal < self._counted
        if not counted:
            self._overview.discovered(edges + node.further)
        if ordinal == len(self._counters):
            self._counters.add(stage)
        if self._full:
            self._place(node, stage, edges, counted)
        self._catch_up(ordinal, now_ms)
        return "applied"

    def _place(self, node: frames.Node, stage: int, edges: int, counted: bool) -> None:
        retained = node.ordinal < self._retained
        overview = self._overview
        rank: int | None
        if retained:
            self._nodes.register()
            rank = self._growth.add(node, stage, edges)
            if node.further:
                overview.omit(TruncationReason.record_size_limit)
        else:
            overview.omit(self._reason)
            rank = overview.rank(stage)
            if rank is None:
                rank = self._growth.rank(node.dependencies)
        if counted:
            return
        overview.place(stage, rank, retained=retained)
        for source, number in self._counters.stages_of(node.dependencies):
            overview.link(source, stage, number)

    def _catch_up(self, ordinal: int, now_ms: int) -> None:
        """Apply what was told of a node before the node itself."""
        early = self._early.pop(ordinal)
        if early.state is not None:
            self._apply_state(early.state, now_ms)
        if early.report is not None:
            self._report(ordinal, early.report)
        if early.preview is not None:
            self._apply_preview(early.preview)

    def _apply_progress(self, record: frames.Progress, now_ms: int) -> str:
        target, began = record.target, ""
        if isinstance(target, bytes):
            known = self._tasks.get(target)
            if known is None:
                return "unknown_task"
            ordinal = known
            began = self._begin(ordinal, record, now_ms)
        else:
            ordinal = target
        if not self._is_known(ordinal):
            return self._early.keep_report(ordinal, record)
        told = self._report(ordinal, record)
        return began if began == "applied" else told

    def _begin(self, ordinal: int, record: frames.Progress, now_ms: int) -> str:
        """Take a node known by its Ray task to RUNNING: nobody else says that it runs."""
        running = frames.State(
            ordinal,
            record.invocation,
            record.try_,
            NodeState.RUNNING,
            record.at_ms,
            host=record.host,
        )
        return self._apply_state(running, now_ms)

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

    def _apply_task(self, record: frames.Task) -> str:
        if record.ordinal >= max(len(self._counters), len(self._resync)):
            return "unknown_node"
        self._tasks[record.task_id] = record.ordinal
        if len(self._tasks) > self._known_tasks:
            del self._tasks[next(iter(self._tasks))]
        return "applied"

    def _apply_states(self, record: frames.States, now_ms: int) -> str:
        resync = self._resync
        if record.states:
            if not resync.put(record):
                return "gap"
            self._extend(self._counted)
            return "resent"
        if record == frames.NEWS:
            resync.repeats = False
            if self._counted == UNKNOWN:
                self._counted = self._registered = len(resync)
                self._extend(len(resync))
            return "resent"
        return self._complete(now_ms)

    def _forgo(self) -> None:
        """Take counted nodes that do not come again for what they are: not retained.

        Nodes come in order, so none does once one comes that is not counted.
        """
        if self._registered >= self._counted:
            return
        self._retained, self._reason = len(self._nodes), _FORGONE
        self._registered = self._counted
        self._overview.omit(_FORGONE)

    def _extend(self, upto: int) -> None:
        """Count the nodes below `upto` that the arrays tell of, with their stages."""
        known = len(self._counters)
        stages = bytes(self._resync.stages[known : max(known, upto)])
        self._counters.extend(bytes(len(stages)), stages)

    def _complete(self, now_ms: int) -> str:
        """Let the arrays fill in what no record has told; a run that resumes has."""
        resync, known = self._resync, self._counters
        if self.resumes and len(known) < self.registered:
            return "gap"
        self._forgo()
        tally = "resent"
        for ordinal, try_ in self.running:
            # Of tries the arrays tell: a later one would stand for good.
            if ordinal < len(known) and try_ <= resync.try_(ordinal):
                known.advance(ordinal, NodeState.RUNNING, try_)
        for ordinal, before, after in known.merge(bytes(resync.states)):
            tally = "applied"
            if ordinal < len(self._nodes):
                self._nodes.set_state(ordinal, after, known.try_(ordinal))
            self._moved(ordinal, before, after, now_ms)
        resync.close()
        for ordinal in self._early.below(self._registered):
            tally = "applied"
            self._catch_up(ordinal, now_ms)
        if self.resumes:
            self.resumes = False
            self._overview.recount(known.by_stage(), now_ms)
        return tally
