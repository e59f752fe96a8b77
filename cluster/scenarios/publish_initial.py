"""What does the first publication of a graph cost, against a raw COPY of the same bytes?

From a registered graph to the committed publication: take, encode, page, digest, stage,
publish. The baseline copies the very rows and page bodies of that publication, as they
stand in the product's tables, into the same tables of another run, in one transaction.
"""

import gc
from dataclasses import asdict, dataclass
from typing import LiteralString

import psycopg

from cluster import runs
from cluster.harness import Harness
from cluster.measure import seconds
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.protocol import summary
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import TruncationReason
from django_ray.storage.pool import Connection

DETAILS: LiteralString = """
SELECT ordinal, node_key, node_id, stage, state, detail_revision, record
FROM django_ray_node_detail WHERE run_id = %s ORDER BY ordinal
"""
COPY_DETAILS: LiteralString = """
COPY django_ray_node_detail
    (run_id, ordinal, node_key, node_id, stage, state, detail_revision, record)
FROM STDIN (FORMAT BINARY)
"""
COPY_MS = {25_000: (77, 99)}
"""What COPY of the detail rows alone took when the design was chosen."""

DETAIL_TYPES = ["int8", "int4", "bytea", "text", "int2", "int2", "int8", "bytea"]
PAGES: LiteralString = """
SELECT digest, kind, item_count, encoding, encoded_size, decoded_size, body, created_at
FROM django_ray_page WHERE run_id = %s ORDER BY id
"""
COPY_PAGES: LiteralString = """
COPY django_ray_page (run_id, digest, kind, item_count, encoding, encoded_size,
    decoded_size, body, created_at)
FROM STDIN (FORMAT BINARY)
"""
SUMMARY: LiteralString = (
    "SELECT progress_summary FROM django_ray_execution WHERE id = %s"
)
PAGE_TYPES = [
    *("int8", "bytea", "varchar", "int2", "varchar"),
    *("int4", "int4", "bytea", "timestamptz"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Nodes of each graph; edges are four a node up to the retained 100,000."""

    nodes: tuple[int, ...] = (1_000, 10_000, 25_000, 50_000, 100_000)
    edges_each: int = 4
    repeats: int = 5


class PublishInitial:
    __doc__ = __doc__

    name = "publish_initial"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.published: list[tuple[RunIdentity, int]] = []

    def setup(self, harness: Harness) -> None:
        """Connect as a collector does, and as the baseline does."""
        self.conn = harness.connect()
        self.raw: Connection = harness.connect()
        self.graphs = {
            nodes: runs.layered(nodes, nodes * self.parameters.edges_each)
            for nodes in self.parameters.nodes
        }

    def measure(self) -> None:
        """Publish and copy in turn, for each size; the first pair is the warm-up."""
        for nodes in self.parameters.nodes:
            ours: list[float] = []
            bare: list[float] = []
            for repeat in range(self.parameters.repeats + 1):
                ours_s, bare_s = self._pair(nodes)
                if repeat:
                    ours.append(ours_s)
                    bare.append(bare_s)
            self._keep(nodes, ours, bare)

    def _pair(self, nodes: int) -> tuple[float, float]:
        mind = runs.Mind(self.conn, runs.execution())
        mind.register(self.graphs[nodes])
        gc.collect()
        ours = seconds(mind.publish)
        self.published.append((mind.identity, nodes))
        other = runs.Mind(self.conn, runs.execution())
        details = self.raw.execute(DETAILS, (mind.begun.run_pk,)).fetchall()
        pages = self.raw.execute(PAGES, (mind.begun.run_pk,)).fetchall()
        gc.collect()
        return ours, seconds(
            lambda: _copy(self.raw, other.begun.run_pk, details, pages)
        )

    def _keep(self, nodes: int, ours: list[float], bare: list[float]) -> None:
        judged = nodes == V1.retained_nodes
        self.figures[f"ratio_{nodes}"] = Figure(
            values=tuple(a / b for a, b in zip(ours, bare, strict=True)),
            unit="x raw COPY",
            reach=4.0 if judged else None,
            beyond=2.5 if judged else None,
        )
        for key, values in (("publish", ours), ("copy", bare)):
            self.figures[f"{key}_{nodes}"] = Figure(
                values=tuple(1_000 * value for value in values), unit="ms"
            )

    def verify(self) -> None:
        """Audit every run that was published; its counters are exact at any size."""
        for identity, nodes in self.published:
            rows = runs.require_sound(identity.run_id)
            row = self.raw.execute(SUMMARY, (identity.task_execution_pk,)).fetchone()
            assert row is not None
            said = summary.decode(row[0])
            retained = min(nodes, V1.retained_nodes)
            assert rows == said.retained_nodes == retained
            assert said.discovered_nodes == said.node_counts.pending == nodes
            assert said.discovered_edges == nodes * self.parameters.edges_each
            assert said.retained_edges == retained * self.parameters.edges_each
            assert said.detail.complete is (retained == nodes)
            assert said.detail.reasons == (
                () if retained == nodes else (TruncationReason.node_count_limit,)
            )

    def result(self) -> Result:
        """Return the ratios and both absolute times."""
        notes = [
            f"{nodes} nodes: COPY of rows and pages took "
            f"{self.figures[f'copy_{nodes}'].median:.0f} ms, that of the rows alone "
            f"{least} to {most} ms at the design's choice"
            for nodes, (least, most) in COPY_MS.items()
            if nodes in self.parameters.nodes
        ]
        return Result(
            figures=self.figures,
            parameters=asdict(self.parameters),
            notes=tuple(notes),
        )

    def teardown(self) -> None:
        """The database goes with the harness."""


def _copy(
    conn: psycopg.Connection[tuple[object, ...]],
    run: int,
    details: list[tuple[object, ...]],
    pages: list[tuple[object, ...]],
) -> None:
    with conn.transaction(), conn.cursor() as cursor:
        for statement, types, rows in (
            (COPY_DETAILS, DETAIL_TYPES, details),
            (COPY_PAGES, PAGE_TYPES, pages),
        ):
            with cursor.copy(statement) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row((run, *row))


def scenario() -> PublishInitial:
    """Return the scenario with its default parameters."""
    return PublishInitial(Parameters())
