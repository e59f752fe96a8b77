"""Registered nodes on their way into a topology, and what was declared. Contract 4.8."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django_ray.progress.ranks import Ranks
from django_ray.progress.topology import Edges
from django_ray.protocol.frames import MAXIMUM_ORDINAL, Node
from django_ray.protocol.records import NodeItem

TOPOLOGY_MS = 2_000
TOPOLOGY_NODES = 256
"""A candidate is due so long after the last, or when so many nodes wait."""

CALLS = 4_096
"""How many declarations are remembered; one before them is not corrected any more."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Retained nodes that enter a topology together: items, stage indexes, edges."""

    nodes: list[NodeItem]
    stages: bytes
    edges: list[Edges]


class Growth:
    """The retained nodes that wait for the next topology candidate."""

    def __init__(self) -> None:
        self._ranks = Ranks()
        self._ids: list[str] = []
        self._nodes: list[NodeItem] = []
        self._stages = bytearray()
        self._edges: list[Edges] = []
        self._promoted_ms: int | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def waiting(self) -> int:
        """Count the nodes that wait."""
        return len(self._nodes)

    def resume(self, nodes: Iterable[NodeItem]) -> None:
        """Go on with nodes whose topology is published."""
        for node in nodes:
            self._ids.append(node.id)
            self._ranks.append(node.rank)

    def id(self, ordinal: int) -> str:
        """Return a node's id, empty for one that is not retained."""
        return self._ids[ordinal] if ordinal < len(self._ids) else ""

    def add(self, node: Node, stage: int, edges: int) -> int:
        """Let the next retained node wait, with so many edges; return its rank."""
        rank = self._ranks.add(node.dependencies)
        self._ids.append(node.id)
        self._nodes.append(
            NodeItem(node.ordinal, node.id, node.label, node.stage, rank)
        )
        self._stages.append(stage)
        if edges:
            self._edges.append((node.ordinal, edges, node.dependencies))
        return rank

    def rank(self, runs: tuple[int, ...]) -> int:
        """Return the rank that the retained ones among `runs` give a node."""
        return self._ranks.after(runs)

    def is_due(self, now_ms: int, *, ended: bool) -> bool:
        """Claim that the waiting nodes are to be staged now."""
        if not self._nodes:
            return False
        return (
            ended
            or self._promoted_ms is None
            or len(self._nodes) >= TOPOLOGY_NODES
            or now_ms - self._promoted_ms >= TOPOLOGY_MS
        )

    def take(self) -> Batch:
        """Hand out all that waits."""
        batch = Batch(self._nodes, bytes(self._stages), self._edges)
        self._nodes, self._stages, self._edges = [], bytearray(), []
        return batch

    def settle(self, at_ms: int) -> None:
        """Note that the topology with what was handed out is published."""
        self._promoted_ms = at_ms

    def restore(self, batch: Batch) -> None:
        """Let what was handed out wait again, before what came since."""
        self._nodes = batch.nodes + self._nodes
        self._edges = batch.edges + self._edges
        self._stages[:0] = batch.stages


class Declared:
    """The sum of what calls declared, of each the number it said last.

    A call corrects its number when it is left early, or finds more than it knew of.
    """

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._before = -1
        self.total = 0

    def calls(self) -> Iterator[tuple[int, int]]:
        """Yield each call remembered with its number; as call 0 the sum of all before."""
        rest = self.total - sum(self._calls.values())
        if rest:
            yield 0, min(rest, MAXIMUM_ORDINAL)
        yield from self._calls.items()

    def add(self, call: int, number: int) -> bool:
        """Count a declaration; claim that it changed what was counted of its call."""
        known = self._calls.get(call)
        if call <= self._before or known == number:
            return False
        self.total += number - (known or 0)
        self._calls[call] = number
        if len(self._calls) > CALLS:
            oldest = min(self._calls)
            del self._calls[oldest]
            self._before = oldest
        return True
