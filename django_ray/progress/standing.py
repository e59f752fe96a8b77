"""What stands stored of a run, read back for a collector that goes on with it.

A collector that dies takes its model with it. What it had published is in PostgreSQL; what
it had not is still held by the producers. The next one puts both together:

1. `begin` raises the writer epoch, so nothing of the dead one can be written any more.
2. The stored run is read back and checked as a reader must: a `Standing`.
3. `Model.resume` and `Draft.resume` take it over: ids, ranks, stages, details, sizes, page
   digests, totals. The next topology reuses every closed page.
4. Every producer is answered RESYNC. A worker sends what is not committed. The coordinator
   sends all it knows, in this order: the arrays of state and stage of every node; what the
   dead collector had applied before its last publication, which `Bequest.applied` tells;
   the mark `NEWS`; what it had not; the mark `RESENT`.
5. At `RESENT` the arrays fill in what no record has told, the states are counted anew, and
   from there on the model publishes. Until then it publishes nothing: if the coordinator
   stays silent, what is stored stays as it was. Contract 4.6.

So the invariants:

- The totals as stored hold every node below `Bequest.registered`, and every record that
  `Bequest.applied` covers. A node or a record below these marks is applied again to what
  was not stored, a waiting node's detail or an omitted node's two bytes, and counted never
  again: edges, stage edges, endings, durations and events are those of one run.
- States are not added up but taken: from the stored rows, then from the records in order,
  then from the arrays where those know more. So counts are exact whatever was lost.
- A node's stage keeps its index: stages are known again by their keys, in their order.
- What cannot be read back is never written over. The detail is then `fault`, the summary
  says so until the run's end, and its counts, which need no detail, go on.
- The bequest is believed where it agrees with all else that is stored. What nothing else
  tells is of no consequence for any state: see `require_agreed`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django_ray.errors import IntegrityFault
from django_ray.progress import bequest
from django_ray.progress.bequest import Bequest
from django_ray.progress.pages import (
    Manifest,
    Page,
    check_manifest,
    check_pages,
    decode,
)
from django_ray.progress.stages import OTHER_INDEX, StageRow
from django_ray.protocol import canonical, records
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, EdgeItem, EventItem, NodeItem
from django_ray.protocol.summary import Summary
from django_ray.protocol.text import ELLIPSIS
from django_ray.protocol.vocabulary import CODES, DetailAvailability, NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Detailed:
    """The retained nodes of a run, proven: pages in order, and a row for each node.

    `sizes` are the rows' stored sizes, `stages` their stage indexes, one byte each.
    """

    manifest: Manifest
    manifest_id: int
    pages: tuple[Page, ...] = ()
    nodes: Sequence[NodeItem] = ()
    edges: Sequence[EdgeItem] = ()
    details: Sequence[Detail] = ()
    sizes: Sequence[int] = ()
    stages: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a run's successor starts from; nothing where nothing was published.

    With a `fault` the detail is not there or contradicts itself: of `detailed` the manifest
    alone is told, as far as it stands, and `running` names nodes that ran, with their tries,
    where the coordinator's arrays do not know better.
    """

    summary: Summary | None = None
    bequest: Bequest | None = None
    row: StageRow | None = None
    events: tuple[EventItem, ...] = ()
    detailed: Detailed | None = None
    fault: DetailAvailability | None = None
    running: tuple[tuple[int, int], ...] = ()

    @property
    def links(self) -> Mapping[tuple[int, int], int]:
        """Count the retained edges from stage to stage, where the row left some out."""
        found: dict[tuple[int, int], int] = {}
        if self.row is None or not self.row.edges_omitted or self.detailed is None:
            return found
        stages = self.detailed.stages
        for edge in self.detailed.edges:
            key = (stages[edge.source], stages[edge.target])
            found[key] = found.get(key, 0) + 1
        return found


@dataclass(slots=True)
class Rows:
    """A run's detail rows as they are read, by ordinal, each compared with its node."""

    nodes: Sequence[NodeItem]
    detail_revision: int
    details: list[Detail] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    stages: bytearray = field(default_factory=bytearray)

    def add(
        self,
        ordinal: int,
        node_key: bytes,
        node_id: str | None,
        stage: int,
        state: int,
        revision: int,
        record: bytes | None,
    ) -> None:
        """Take the next row; raise IntegrityFault where it is not its node's."""
        if ordinal != len(self.details):
            raise _fault(DetailAvailability.MISSING, "A node's row is not there.")
        if record is None or ordinal >= len(self.nodes):
            raise _fault(DetailAvailability.CORRUPT, "A row is too large or too much.")
        item = self.nodes[ordinal]
        detail = records.decode_detail(record)
        sound = (
            node_id == item.id
            and node_key == canonical.node_key(item.id)
            and state == CODES[detail.state]
            and 0 <= stage < V1.stages
            and 1 <= revision <= self.detail_revision
        )
        if not sound:
            raise _fault(DetailAvailability.CORRUPT, "A row disagrees with its node.")
        self.details.append(detail)
        self.sizes.append(len(record))
        self.stages.append(stage)


def topology(
    manifest: Manifest, pages: Sequence[Page]
) -> tuple[list[NodeItem], list[EdgeItem]]:
    """Return the items of a manifest's pages, once all of them prove to be its own."""
    check_manifest(manifest)
    check_pages(manifest, pages)
    nodes: list[NodeItem] = []
    edges: list[EdgeItem] = []
    for page in pages:
        if page.kind == "nodes":
            nodes += decode(page.body, page.encoding, page.digest, "nodes")
        else:
            edges += decode(page.body, page.encoding, page.digest, "edges")
    return nodes, edges


def detailed(
    manifest: Manifest,
    manifest_id: int,
    pages: Sequence[Page],
    rows: Rows,
    edges: Sequence[EdgeItem],
    totals: tuple[int, int],
) -> Detailed:
    """Return the retained nodes; raise IntegrityFault unless the run's totals agree."""
    found = (len(rows.details), sum(rows.sizes))
    if found[0] < len(rows.nodes):
        raise _fault(DetailAvailability.MISSING, "A node's row is not there.")
    if found != totals:
        raise _fault(DetailAvailability.CORRUPT, "The run's totals are not its rows'.")
    return Detailed(
        manifest=manifest,
        manifest_id=manifest_id,
        pages=tuple(pages),
        nodes=rows.nodes,
        edges=edges,
        details=rows.details,
        sizes=rows.sizes,
        stages=bytes(rows.stages),
    )


def require_agreed(found: Standing) -> None:
    """Raise IntegrityFault where a bequest contradicts what else stands stored of its run.

    Nothing tells up to which frame all is applied, which hosts were seen, and which of the
    running nodes have no detail: there the bequest is believed, within the summary's counts.
    """
    left, said = found.bequest, found.summary
    if left is None or said is None:
        return
    if not (
        _is_of_run(left, said, found.detailed)
        and _names_stages(left.stages, found.row)
        and _places_nodes(left.stages, found.detailed)
    ):
        raise _fault(
            DetailAvailability.CORRUPT, "What a collector left is not of its run."
        )


def _is_of_run(left: Bequest, said: Summary, kept: Detailed | None) -> bool:
    details = () if kept is None else kept.details
    shown = sum(each.state is NodeState.RUNNING for each in details)
    running = {ordinal for ordinal, _ in left.running}
    reasons = {*left.reasons, left.nodes_ended, left.edges_ended} - {None}
    return (
        bool(left.producer) is bool(left.applied)
        and left.registered == said.discovered_nodes
        and (left.nodes_ended is None or len(details) < left.registered)
        # Before the first topology the summary names no reason.
        and (kept is None or reasons <= set(said.detail.reasons))
        and len(left.running) == len(running) <= said.node_counts.running - shown
        and all(len(details) <= ordinal < left.registered for ordinal in running)
        and len(left.hosts) == len(set(left.hosts)) <= said.hosts
    )


def _names_stages(keys: Sequence[str], row: StageRow | None) -> bool:
    """Claim that the keys are those of the row's named stages, by index."""
    stages = () if row is None else row.stages
    named = [stage for stage in stages if stage.index < OTHER_INDEX]
    return (
        len(set(keys)) == len(keys)
        and [stage.index for stage in named] == list(range(len(keys)))
        and all(
            # The key is that of the whole label, and this one is cut.
            not stage.label
            or stage.label.endswith(ELLIPSIS)
            or bequest.key(stage.label) == key
            for stage, key in zip(named, keys, strict=True)
        )
    )


def _places_nodes(keys: Sequence[str], kept: Detailed | None) -> bool:
    """Claim that each retained node is of the stage that its name has by the keys."""
    if kept is None:
        return True
    indexes = {key: index for index, key in enumerate(keys)}
    names = (node.stage for node in kept.nodes)
    return all(
        indexes.get(bequest.key(name), OTHER_INDEX) == index
        for name, index in set(zip(names, kept.stages, strict=True))
    )


def _fault(availability: DetailAvailability, message: str) -> IntegrityFault:
    return IntegrityFault(message, availability)
