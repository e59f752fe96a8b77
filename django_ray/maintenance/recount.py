"""Recounts what hangs on a run's row: its topology, its rows, its stage row, its events.

Each part compares what is stored with itself and with the run's totals, and leaves in the
ledger what a later part, and the summary, is compared with. ADR-0004.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from django_ray.errors import IntegrityFault, ProtocolError
from django_ray.maintenance.ledger import Ledger
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    TopologyPage,
    WorkflowRun,
)
from django_ray.progress import bequest
from django_ray.progress.pages import Page, check_manifest, check_pages, decode
from django_ray.progress.stages import OTHER_INDEX, StageRow
from django_ray.progress.stages import decode as decode_stages
from django_ray.protocol import canonical, records, values
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Encoding, NodeItem, PageKind
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import CODES, NODE_STATES
from django_ray.readers.context import manifest_of

CHUNK = 2_000
PAGES = 64

type Edges = Counter[tuple[int, int]]


def topology(ledger: Ledger, run: WorkflowRun) -> None:
    """Follow the chain from the manifests over their digests to the bytes of the pages."""
    named: set[bytes] = set()
    candidates = 0
    manifests = TopologyManifest.objects.defer("created_at").filter(run=run)
    for row in manifests.order_by("topology_version"):
        named.update(manifest_of(row, bytes(row.page_digests)).digests)
        if not row.published:
            candidates += 1
            if row.topology_version <= run.topology_version:
                ledger.find("candidate_version", row.topology_version)
        elif row.topology_version != run.topology_version:
            ledger.find("manifest_superseded", row.topology_version)
        else:
            ledger.manifest_id = row.id
        _manifest(ledger, run, row)
    if candidates > 1:
        ledger.find("candidates", candidates)
    if run.topology_version and ledger.manifest_id is None:
        ledger.find("manifest_missing", run.topology_version)
    stored = TopologyPage.objects.filter(run=run).values_list("digest", flat=True)
    orphans = sum(bytes(digest) not in named for digest in stored)
    if orphans:
        ledger.find("pages_orphaned", orphans)


def _manifest(ledger: Ledger, run: WorkflowRun, row: TopologyManifest) -> None:
    manifest = manifest_of(row, bytes(row.page_digests))
    if row.page_count != len(manifest.digests):
        ledger.find("manifest_page_count", row.topology_version)
    # Of a candidate nothing is kept: no row and no stage belongs to it yet.
    into = ledger if row.id == ledger.manifest_id else Ledger()
    try:
        check_manifest(manifest)
        check_pages(manifest, _pages(ledger, into, run, manifest.digests))
    except IntegrityFault as fault:
        word = "topology" if row.published else "candidate"
        ledger.find(f"{word}_{fault.availability.lower()}", row.topology_version)
    into.edges = manifest.edge_count


def _pages(
    ledger: Ledger, into: Ledger, run: WorkflowRun, digests: tuple[bytes, ...]
) -> Iterator[Page]:
    """Yield the pages in order up to the first missing one, and keep their items."""
    for start in range(0, len(digests), PAGES):
        part = digests[start : start + PAGES]
        pages = TopologyPage.objects.defer("created_at")
        found = {
            bytes(row.digest): row for row in pages.filter(run=run, digest__in=part)
        }
        for digest in part:
            row = found.get(digest)
            if row is None:
                return
            body = bytes(row.body)
            items = decode(body, row.encoding, digest, row.kind)
            kind, encoding = msgspec.convert(
                (row.kind, row.encoding), tuple[PageKind, Encoding]
            )
            if len(canonical.encode(items)) != row.decoded_size:
                ledger.find("page_decoded_size")
            if len(body) != row.encoded_size:
                ledger.find("page_encoded_size")
            for item in items:
                if isinstance(item, NodeItem):
                    into.node_ids[item.ordinal] = item.id
                    into.labels[item.ordinal] = item.stage
                else:
                    into.sources.append(max(item.source, 0))
                    into.targets.append(max(item.target, 0))
            yield Page(
                kind=kind,
                item_count=row.item_count,
                encoding=encoding,
                decoded_size=row.decoded_size,
                digest=digest,
                body=body,
            )


def rows(ledger: Ledger, run: WorkflowRun) -> None:
    """Recount the detail rows, each against its own columns and the topology."""
    stored = NodeDetail.objects.filter(run=run).order_by("ordinal")
    for row in stored.iterator(chunk_size=CHUNK):
        _row(ledger, run, row)
    if ledger.rows < len(ledger.node_ids):
        ledger.find("rows_missing", len(ledger.node_ids) - ledger.rows)
    if ledger.rows != run.detail_rows:
        ledger.find("total_rows", run.detail_rows)
    if ledger.bytes != run.detail_bytes:
        ledger.find("total_bytes", run.detail_bytes)


def _row(ledger: Ledger, run: WorkflowRun, row: NodeDetail) -> None:
    record = bytes(row.record)
    ledger.rows += 1
    ledger.bytes += len(record)
    ledger.stage_of[row.ordinal] = row.stage
    if bytes(row.node_key) != canonical.node_key(row.node_id):
        ledger.find("row_key", row.ordinal)
    label = ledger.labels.get(row.ordinal, "")
    if ledger.node_ids.get(row.ordinal) != row.node_id:
        ledger.find("row_without_node", row.ordinal)
    # A name has one index, and an index but that of `other` one name.
    elif ledger.index_of.setdefault(label, row.stage) != row.stage or (
        row.stage != OTHER_INDEX
        and ledger.name_of.setdefault(row.stage, label) != label
    ):
        ledger.find("row_stage", row.ordinal)
    if not 1 <= row.detail_revision <= run.detail_revision:
        ledger.find("row_revision", row.ordinal)
    try:
        detail = records.decode_detail(record)
    except IntegrityFault:
        ledger.find("row_record", row.ordinal)
        return
    if canonical.encode(detail) != record:
        ledger.find("row_record", row.ordinal)
    if CODES[detail.state] != row.state:
        ledger.find("row_state", row.ordinal)
    ledger.states[detail.state] += 1
    ledger.placed[row.stage, detail.state] += 1


def extras(ledger: Ledger, run: WorkflowRun) -> None:
    """Parse the stage row, the events, the session and the bequest, within their caps."""
    stages = RunStages.objects.filter(run=run).first()
    if stages is not None:
        _parse_stages(ledger, bytes(stages.body))
    elif run.topology_version:
        ledger.find("stages_missing")
    try:
        if run.events is not None:
            records.decode_events(bytes(run.events))
    except IntegrityFault:
        ledger.find("events")
    try:
        if run.session is not None:
            values.require_canonical(bytes(run.session))
    except ProtocolError:
        ledger.find("session")
    if run.session is not None and len(run.session) > V1.session_snapshot:
        ledger.find("session_size", len(run.session))
    try:
        if run.bequest is not None:
            _check_bequest(ledger, bytes(run.bequest))
    except IntegrityFault:
        ledger.find("bequest")


def _check_bequest(ledger: Ledger, data: bytes) -> None:
    left = bequest.decode(data)
    if bequest.encode(left) != data:
        ledger.find("bequest")
    if len(data) > V1.bequest:
        ledger.find("bequest_size", len(data))
    if left.registered < len(ledger.node_ids):
        ledger.find("bequest_registered", left.registered)


def _parse_stages(ledger: Ledger, body: bytes) -> None:
    if len(body) > V1.stage_row:
        ledger.find("stages_size", len(body))
    try:
        ledger.stages = decode_stages(body)
    except IntegrityFault:
        ledger.find("stages")


def stages(ledger: Ledger, row: StageRow, said: Summary) -> None:
    """Compare each stage with its rows, and the edges between stages with the topology.

    Exact where detail is complete; else the stage row, which counts what is not retained
    or not published too, may say more, never less.
    """
    exact = said.detail.complete
    known = {stage.index for stage in row.stages}
    for index in sorted(set(ledger.stage_of.values()) - known):
        ledger.find("row_stage_unknown", index)
    for stage in row.stages:
        placed = [ledger.placed[stage.index, state] for state in NODE_STATES]
        if exact and tuple(placed) != stage.counts:
            ledger.find("stage_rows", stage.index)
        if stage.kept < sum(placed) or (exact and stage.kept > sum(placed)):
            ledger.find("stage_kept", stage.index)
    _stage_edges(ledger, row, exact=exact)


def _stage_edges(ledger: Ledger, row: StageRow, *, exact: bool) -> None:
    stored: Edges = Counter()
    for edge in row.edges:
        stored[edge.source, edge.target] += edge.edges
    found: Edges = Counter(
        (ledger.stage_of[source], ledger.stage_of[target])
        for source, target in zip(ledger.sources, ledger.targets, strict=True)
    )
    for pair, count in found.items():
        said = stored.get(pair)
        if said is None:
            # The lightest are left out of the row.
            if not row.edges_omitted:
                ledger.find("stage_edges", count)
        elif count > said or (exact and count < said):
            ledger.find("stage_edges", said)
    if exact and len(found) != len(stored) + row.edges_omitted:
        ledger.find("stage_edges_number", len(stored))
