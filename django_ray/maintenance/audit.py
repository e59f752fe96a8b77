"""Recounts one run from its stored bytes, and names everything that disagrees.

The global proof behind the readers' local checks: a publication adjusts totals by deltas
and reads no row it does not change, so something has to count them now and then. ADR-0004.
A finding is a fixed word and a number; no stored text leaves here.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
from django.db import connection, transaction

from django_ray.errors import IntegrityFault, ProtocolError
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import (
    NodeDetail,
    RunStages,
    TopologyManifest,
    TopologyPage,
    WorkflowRun,
)
from django_ray.progress.pages import (
    Page,
    check_manifest,
    check_pages,
    decode,
)
from django_ray.progress.stages import Stage
from django_ray.progress.stages import decode as decode_stages
from django_ray.protocol import canonical, records, summary, values
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Encoding, NodeItem, PageKind
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import (
    CODES,
    NODE_STATES,
    DetailAvailability,
    NodeState,
    ReportingPolicy,
)
from django_ray.readers.context import manifest_of, run_of

CHUNK = 2_000
PAGES = 64

RETAINED = (DetailAvailability.AVAILABLE, DetailAvailability.TRUNCATED)


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement: what it is, and the ordinal, version or number it was met at."""

    code: str
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found, and what was counted on the way; sound without a finding."""

    findings: tuple[Finding, ...]
    nodes: int
    edges: int
    rows: int
    bytes: int

    @property
    def is_clean(self) -> bool:
        """Claim that nothing disagrees."""
        return not self.findings


@dataclass(slots=True)
class _Ledger:
    """What the parts of one audit tell each other."""

    findings: list[Finding] = field(default_factory=list)
    nodes: dict[int, NodeItem] = field(default_factory=dict)
    stage_of: dict[str, int] = field(default_factory=dict)
    edges: int = 0
    manifest_id: int | None = None
    rows: int = 0
    bytes: int = 0
    states: dict[NodeState, int] = field(default_factory=dict)
    stages: tuple[Stage, ...] | None = None

    def find(self, code: str, at: int | None = None) -> None:
        self.findings.append(Finding(code, at))


def audit(run_id: str) -> Audit:
    """Recount the run with this id in one snapshot; changes nothing."""
    ledger = _Ledger()
    with _snapshot():
        # No time is counted here, and one out of range could not even be loaded.
        runs = WorkflowRun.objects.defer("expires_at", "created_at")
        run = runs.filter(run_id=uuid.UUID(run_id)).first()
        if run is None:
            ledger.find("run_missing")
        else:
            _audit_topology(ledger, run)
            _audit_rows(ledger, run)
            _audit_extras(ledger, run)
            _audit_summary(ledger, run)
            _audit_attempt(ledger, run)
    return Audit(
        findings=tuple(ledger.findings),
        nodes=len(ledger.nodes),
        edges=ledger.edges,
        rows=ledger.rows,
        bytes=ledger.bytes,
    )


@contextmanager
def _snapshot() -> Iterator[None]:
    nested = connection.in_atomic_block
    with transaction.atomic():
        # A live run goes on being published: every count must see the same commit.
        if not nested:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
                )
        yield


def _audit_topology(ledger: _Ledger, run: WorkflowRun) -> None:
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
        _audit_manifest(ledger, run, row)
    if candidates > 1:
        ledger.find("candidates", candidates)
    if run.topology_version and ledger.manifest_id is None:
        ledger.find("manifest_missing", run.topology_version)
    stored = TopologyPage.objects.filter(run=run).values_list("digest", flat=True)
    orphans = sum(bytes(digest) not in named for digest in stored)
    if orphans:
        ledger.find("pages_orphaned", orphans)


def _audit_manifest(ledger: _Ledger, run: WorkflowRun, row: TopologyManifest) -> None:
    manifest = manifest_of(row, bytes(row.page_digests))
    if row.page_count != len(manifest.digests):
        ledger.find("manifest_page_count", row.topology_version)
    nodes: dict[int, NodeItem] = {}
    try:
        check_manifest(manifest)
        check_pages(manifest, _pages(ledger, run, manifest.digests, nodes))
    except IntegrityFault as fault:
        word = "topology" if row.published else "candidate"
        ledger.find(f"{word}_{fault.availability.lower()}", row.topology_version)
    if row.id == ledger.manifest_id:
        ledger.edges = manifest.edge_count
        ledger.nodes = nodes


def _pages(
    ledger: _Ledger,
    run: WorkflowRun,
    digests: tuple[bytes, ...],
    nodes: dict[int, NodeItem],
) -> Iterator[Page]:
    """Yield the pages in order up to the first missing one, and keep their nodes."""
    for start in range(0, len(digests), PAGES):
        part = digests[start : start + PAGES]
        found = {
            bytes(row.digest): row
            for row in TopologyPage.objects.defer("created_at").filter(
                run=run, digest__in=part
            )
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
            nodes.update(
                (item.ordinal, item) for item in items if isinstance(item, NodeItem)
            )
            yield Page(
                kind=kind,
                item_count=row.item_count,
                encoding=encoding,
                decoded_size=row.decoded_size,
                digest=digest,
                body=body,
            )


def _audit_rows(ledger: _Ledger, run: WorkflowRun) -> None:
    stored = NodeDetail.objects.filter(run=run).order_by("ordinal")
    for row in stored.iterator(chunk_size=CHUNK):
        ledger.rows += 1
        ledger.bytes += len(row.record)
        _audit_row(ledger, run, row)
    if ledger.rows < len(ledger.nodes):
        ledger.find("rows_missing", len(ledger.nodes) - ledger.rows)
    if ledger.rows != run.detail_rows:
        ledger.find("total_rows", run.detail_rows)
    if ledger.bytes != run.detail_bytes:
        ledger.find("total_bytes", run.detail_bytes)


def _audit_row(ledger: _Ledger, run: WorkflowRun, row: NodeDetail) -> None:
    if bytes(row.node_key) != canonical.node_key(row.node_id):
        ledger.find("row_key", row.ordinal)
    node = ledger.nodes.get(row.ordinal)
    if node is None or node.id != row.node_id:
        ledger.find("row_without_node", row.ordinal)
    elif ledger.stage_of.setdefault(node.stage, row.stage) != row.stage:
        ledger.find("row_stage", row.ordinal)
    if not 1 <= row.detail_revision <= run.detail_revision:
        ledger.find("row_revision", row.ordinal)
    try:
        state = records.decode_detail(bytes(row.record)).state
    except IntegrityFault:
        ledger.find("row_record", row.ordinal)
        return
    if CODES[state] != row.state:
        ledger.find("row_state", row.ordinal)
    ledger.states[state] = ledger.states.get(state, 0) + 1


def _audit_extras(ledger: _Ledger, run: WorkflowRun) -> None:
    stages = RunStages.objects.filter(run=run).first()
    if stages is not None:
        _audit_stages(ledger, bytes(stages.body))
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


def _audit_stages(ledger: _Ledger, body: bytes) -> None:
    if len(body) > V1.stage_row:
        ledger.find("stages_size", len(body))
    try:
        ledger.stages = decode_stages(body).stages
    except IntegrityFault:
        ledger.find("stages")


def _audit_attempt(ledger: _Ledger, run: WorkflowRun) -> None:
    """The attempt's copy outlives the detail, so it is proven beside the current one."""
    kept = _attempt(run)
    if kept is None or kept.terminal_summary is None:
        return
    try:
        said = summary.decode(bytes(kept.terminal_summary))
    except IntegrityFault:
        ledger.find("attempt_corrupt")
        return
    owner = (kept.execution_id, kept.attempt_number, kept.execution_generation)
    named = (run.execution_id, run.attempt_number, run.execution_generation)
    if owner != named or said.run != run_of(run):
        ledger.find("attempt_foreign")


def _audit_summary(ledger: _Ledger, run: WorkflowRun) -> None:
    data = _summary_of(run)
    if data is None:
        if run.summary_revision:
            ledger.find("summary_missing", run.summary_revision)
        return
    try:
        said = summary.decode(data)
    except IntegrityFault:
        ledger.find("summary_corrupt")
        return
    if said.run != run_of(run):
        ledger.find("summary_foreign")
        return
    _compare(ledger, run, said, said.terminal is not None and said.terminal.derived)


def _compare(ledger: _Ledger, run: WorkflowRun, said: Summary, derived: bool) -> None:
    # The lifecycle derives past the producer's last revision, which the run row keeps.
    ahead = said.revision - run.summary_revision
    if ahead < derived or (ahead and not derived):
        ledger.find("summary_revision", said.revision)
    if said.retention_days != run.retention_days:
        ledger.find("summary_retention", said.retention_days)
    pointers = (said.detail_revision or 0, said.topology_version or 0, said.manifest_id)
    if pointers != (run.detail_revision, run.topology_version, ledger.manifest_id):
        ledger.find("summary_pointers")
    # A success that the lifecycle derived changes the summary's counts alone.
    if (
        ledger.stages is not None
        and said.policy is ReportingPolicy.full
        and not derived
    ):
        _compare_stages(ledger, ledger.stages, said)
    if said.detail.availability not in RETAINED:
        return
    if (said.retained_nodes, said.retained_edges) != (ledger.rows, ledger.edges):
        ledger.find("summary_retained", said.retained_nodes)
    if said.detail.complete and said.terminal is not None and not derived:
        for state in NODE_STATES:
            if said.node_counts.of(state) != ledger.states.get(state, 0):
                ledger.find("summary_counts", said.node_counts.of(state))


def _compare_stages(ledger: _Ledger, stages: tuple[Stage, ...], said: Summary) -> None:
    """Compare the counts of all stages together with the summary's.

    In a live run a node may be counted that is not registered yet and so in no stage.
    """
    exact = said.detail.complete or said.terminal is not None
    for code, state in enumerate(NODE_STATES):
        found, count = sum(stage.counts[code] for stage in stages), said.node_counts
        if found > count.of(state) or (exact and found < count.of(state)):
            ledger.find("stages_counts", found)


def _summary_of(run: WorkflowRun) -> bytes | None:
    """Return the summary kept of the run: the execution's while it is its current run."""
    row = (
        RayTaskExecution.objects.only("progress_summary")
        .filter(pk=run.execution_id, run_id=run.run_id)
        .first()
    )
    data = None if row is None else row.progress_summary
    if row is None:
        attempt = _attempt(run)
        data = None if attempt is None else attempt.terminal_summary
    return None if data is None else bytes(data)


def _attempt(run: WorkflowRun) -> TaskAttempt | None:
    columns = ("attempt_number", "execution_generation", "terminal_summary")
    attempts = TaskAttempt.objects.only("execution_id", *columns)
    return attempts.filter(run_id=run.run_id).first()
