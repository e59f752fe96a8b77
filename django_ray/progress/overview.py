"""What is told of a run as a whole, whatever its size. Contract 2, 4.2, 4.9.

Edges, hosts, endings by minute, why detail is missing; under `full` also the stages and the
recent events, which go out encoded and only where they changed.
"""

from django_ray.progress.recent import FAILED, Endings, Events, Hosts
from django_ray.progress.rollup import Stages
from django_ray.progress.standing import Standing
from django_ray.protocol.frames import State
from django_ray.protocol.limits import Limits
from django_ray.protocol.records import EventItem
from django_ray.protocol.vocabulary import NodeState, TruncationReason


class Overview:
    """The run as a whole; without `full` no stage and no event is kept."""

    def __init__(self, limits: Limits, *, full: bool) -> None:
        self._full = full
        self._stages = Stages(limits)
        self._ranks: dict[int, int] = {}
        self._events = Events(limits)
        self._endings = Endings()
        self._hosts = Hosts(limits.producers)
        self._edges = 0
        self._reasons: set[TruncationReason] = set()
        self._stages_changed = False
        self._events_changed = False

    @property
    def edges(self) -> int:
        """Count the discovered edges."""
        return self._edges

    @property
    def hosts(self) -> int:
        """Count the hosts seen, up to their bound."""
        return len(self._hosts)

    @property
    def reasons(self) -> frozenset[TruncationReason]:
        """Name why nodes or edges are not in the detail at all."""
        return frozenset(self._reasons)

    def ended_by_minute(self, at_ms: int) -> tuple[int, ...]:
        """Return the endings of the ten minutes that end with the one of `at_ms`."""
        return self._endings.until(at_ms)

    def take(self) -> tuple[bytes | None, bytes | None]:
        """Encode stages and events, None where unchanged, and count them as said."""
        stages = self._stages.encode() if self._stages_changed else None
        events = self._events.encode() if self._events_changed else None
        self._stages_changed = self._events_changed = False
        return stages, events

    def restore(self, *, stages: bool, events: bool) -> None:
        """Let what was taken be due again: its publication failed."""
        self._stages_changed |= stages
        self._events_changed |= events

    def resume(self, standing: Standing) -> None:
        """Go on with what is stored, as far as it could be read back."""
        said, left, row = standing.summary, standing.bequest, standing.row
        if said is not None:
            self._edges = said.discovered_edges
            self._endings.resume(said.changed_at_ms, said.ended_by_minute)
            self._hosts.resume(left.hosts if left else (), said.hosts)
        if left is not None:
            self._reasons.update(left.reasons)
        if row is not None and left is not None:
            self._stages.resume(row, left.stages, standing.links)
            self._ranks = {stage.index: stage.rank for stage in row.stages}
        self._events.resume(standing.events)

    def recount(self, counts: dict[int, list[int]], now_ms: int) -> None:
        """Set the states of all nodes anew, by stage."""
        if self._full:
            self._stages.recount(counts, now_ms)
            self._stages_changed = True

    @property
    def host_keys(self) -> tuple[str, ...]:
        """Return the keys of the first hosts seen."""
        return self._hosts.keys

    @property
    def stage_keys(self) -> tuple[str, ...]:
        """Return the keys of the named stages, by index."""
        return self._stages.keys

    def index(self, label: str) -> int:
        """Return the index of a stage, named now if it is new."""
        return self._stages.index(label) if self._full else 0

    def discovered(self, edges: int) -> None:
        """Count the edges of a registered node."""
        self._edges += edges

    def omit(self, reason: TruncationReason) -> None:
        """Note why the detail is a subset."""
        self._reasons.add(reason)

    def rank(self, stage: int) -> int | None:
        """Return the rank that a stage got with its first node."""
        return self._ranks.get(stage)

    def place(self, stage: int, rank: int, *, retained: bool) -> None:
        """Count one more node of a stage, PENDING."""
        self._ranks.setdefault(stage, rank)
        self._stages.add(stage, rank, retained=retained)
        self._stages_changed = True

    def link(self, source: int, target: int, edges: int) -> None:
        """Count edges from nodes of one stage to a node of another, or of the same."""
        self._stages.link(source, target, edges)

    def moved(
        self, stage: int, before: NodeState | None, after: NodeState, now_ms: int
    ) -> None:
        """Count a node's change of state in its stage."""
        if self._full:
            self._stages.move(stage, before, after, now_ms)
            self._stages_changed = True

    def started(self, stage: int, at_ms: int) -> None:
        """Note the start of one of a stage's nodes."""
        if self._full:
            self._stages.started(stage, at_ms)

    def ended(
        self, stage: int, record: State, started_ms: int | None, now_ms: int
    ) -> None:
        """Note the end of one of a stage's nodes."""
        self._endings.add(record.at_ms, now_ms)
        if self._full:
            self._stages.ended(stage, record.at_ms, started_ms)

    def failed(self, record: State, node_id: str) -> None:
        """Tell of a node's failure; the id is empty for a node that is not retained."""
        if not self._full:
            return
        error = record.error
        self._stages.failed(record.ordinal, node_id, error)
        told = f"{error.kind}: {error.text}" if error else ""
        self.tell(EventItem(record.at_ms, FAILED, record.ordinal, told))

    def tell(self, event: EventItem) -> bool:
        """Keep an event among the recent ones; claim that it is new."""
        told = self._events.add(event)
        self._events_changed |= told
        return told

    def seen(self, host: str | None) -> None:
        """Note the host that a record names, if it names one."""
        if host is not None:
            self._hosts.add(host)
