"""What does a publication of k changed rows cost, against the barest transaction that could?

From the dirty set to the commit: take, encode, one fenced transaction. The baseline locks
the task row and the run row, updates the same k rows from arrays, sets totals and a summary
of the same size, and commits: no check, no old size, no notification.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import LiteralString

import psycopg

from cluster import runs
from cluster.harness import Harness
from cluster.measure import hot_share, seconds, wal_bytes
from cluster.scenario import Figure, Result
from django_ray.protocol.vocabulary import NodeState

TABLE = "django_ray_node_detail"
BARE_MS = {1: 1.1, 250: 4.1, 2_500: 21.0, 25_000: 209.0}
"""What the barest transaction took when the design was chosen, to judge this one by."""

LOCK_TASK: LiteralString = "SELECT 1 FROM django_ray_execution WHERE id = %s FOR UPDATE"
LOCK_RUN: LiteralString = "SELECT 1 FROM django_ray_run WHERE id = %s FOR UPDATE"
BARE: LiteralString = """
WITH written AS (
    UPDATE django_ray_node_detail AS d SET record = i.record, state = i.state
    FROM unnest(%(ordinals)b::int4[], %(states)b::int2[], %(records)b::bytea[])
        AS i (ordinal, state, record)
    WHERE d.run_id = %(run)s AND d.ordinal = i.ordinal
), run AS (
    UPDATE django_ray_run SET detail_bytes = detail_bytes WHERE id = %(run)s
)
UPDATE django_ray_execution SET progress_summary = %(summary)b WHERE id = %(task)s
"""
READ: LiteralString = """
SELECT ordinal, state, record FROM django_ray_node_detail
WHERE run_id = %s AND ordinal = ANY(%s) ORDER BY ordinal
"""
SUMMARY: LiteralString = (
    "SELECT progress_summary FROM django_ray_execution WHERE id = %s"
)


class CountingCursor(psycopg.Cursor[tuple[object, ...]]):
    """Counts the statements of its connection; BEGIN and COMMIT are two more."""

    executed = 0

    def execute(  # type: ignore[no-untyped-def]
        self, *arguments, **options
    ):
        CountingCursor.executed += 1
        return super().execute(*arguments, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Rows changed in each batch, among `nodes` retained ones."""

    nodes: int = 25_000
    changed: tuple[int, ...] = (1, 250, 2_500, 25_000)
    repeats: tuple[int, ...] = (60, 30, 12, 6)
    seed: int = 7


class PublishSparse:
    __doc__ = __doc__

    name = "publish_sparse"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.statements: dict[int, set[int]] = {}
        self.random = random.Random(parameters.seed)
        self.try_ = 1

    def setup(self, harness: Harness) -> None:
        """Publish the graph once, on two runs: the product's and the baseline's."""
        self.raw = harness.connect()
        self.watch = harness.connect()
        nodes = runs.layered(self.parameters.nodes, 4 * self.parameters.nodes)
        self.minds = []
        for _ in range(2):
            conn = harness.connect()
            conn.cursor_factory = CountingCursor
            mind = runs.Mind(conn, runs.execution())
            mind.register(nodes)
            mind.publish()
            # Records reach their size before the clock, as in a run under way.
            for state in (NodeState.RUNNING, NodeState.SUCCEEDED):
                mind.move(range(self.parameters.nodes), state, 1)
                mind.publish()
                self.watch.execute(f"VACUUM {TABLE}")
            self.minds.append(mind)
        self.watch.execute(f"VACUUM ANALYZE {TABLE}")

    def measure(self) -> None:
        """Publish and update in turn for each k; the first pair is the warm-up."""
        counts = zip(self.parameters.changed, self.parameters.repeats, strict=True)
        for changed, repeats in counts:
            ours: list[float] = []
            bare: list[float] = []
            wal: list[float] = []
            self.statements[changed] = set()
            hot_before = hot_share(self._writers(), TABLE)
            for repeat in range(repeats + 1):
                ours_s, bare_s, log = self._pair(changed)
                if repeat:
                    ours.append(ours_s)
                    bare.append(bare_s)
                    wal.append(log)
            hot_after = hot_share(self._writers(), TABLE)
            self._keep(changed, ours, bare, wal)
            updates, hot = (b - a for a, b in zip(hot_before, hot_after, strict=True))
            self.figures[f"hot_{changed}"] = Figure(
                values=(hot / updates if updates else 1.0,), unit="share of updates"
            )
            self.watch.execute(f"VACUUM {TABLE}")

    def _writers(self) -> list[psycopg.Connection[tuple[object, ...]]]:
        return [*(mind.conn for mind in self.minds), self.raw, self.watch]

    def _pair(self, changed: int) -> tuple[float, float, float]:
        ordinals = sorted(self.random.sample(range(self.parameters.nodes), changed))
        self.try_ += 1
        ours, baseline = self.minds
        states = (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED)
        ours.move(ordinals, states[self.try_ % 3], self.try_)
        before, log = CountingCursor.executed, wal_bytes(self.watch)
        ours_s = seconds(ours.publish)
        self.statements[changed].add(CountingCursor.executed - before + 2)
        log = wal_bytes(self.watch) - log
        # By a third connection: the baseline's server process begins as cold as ours did.
        rows = self.watch.execute(READ, (ours.begun.run_pk, ordinals)).fetchall()
        summary = self.watch.execute(
            SUMMARY, (ours.identity.task_execution_pk,)
        ).fetchone()
        assert summary is not None
        arguments = {
            "ordinals": [row[0] for row in rows],
            "states": [row[1] for row in rows],
            "records": [row[2] for row in rows],
            "run": baseline.begun.run_pk,
            "task": baseline.identity.task_execution_pk,
            "summary": summary[0],
        }
        return ours_s, seconds(lambda: self._bare(arguments)), log

    def _bare(self, arguments: dict[str, object]) -> None:
        with self.raw.transaction():
            self.raw.execute(LOCK_TASK, (arguments["task"],))
            self.raw.execute(LOCK_RUN, (arguments["run"],))
            self.raw.execute(BARE, arguments)

    def _keep(
        self,
        changed: int,
        ours: Sequence[float],
        bare: Sequence[float],
        wal: Sequence[float],
    ) -> None:
        self.figures[f"ratio_{changed}"] = Figure(
            values=tuple(a / b for a, b in zip(ours, bare, strict=True)),
            unit="x bare transaction",
            reach=2.0,
            beyond=1.3,
        )
        for key, values in (("publish", ours), ("bare", bare)):
            self.figures[f"{key}_{changed}"] = Figure(
                values=tuple(1_000 * value for value in values), unit="ms"
            )
        self.figures[f"wal_{changed}"] = Figure(
            values=tuple(value / 1024 for value in wal), unit="KiB"
        )

    def verify(self) -> None:
        """Audit the run; the statements are constant, and updates stay HOT."""
        rows = runs.require_sound(self.minds[0].identity.run_id)
        assert rows == self.parameters.nodes
        for changed, counts in self.statements.items():
            assert len(counts) == 1, f"{changed} rows took {sorted(counts)} statements"
        for changed in self.parameters.changed[:-1]:
            share = self.figures[f"hot_{changed}"].median
            assert share >= 0.95, f"HOT share {share:.2f} at {changed} rows"

    def result(self) -> Result:
        """Return ratios, times, log volume, HOT shares and statement counts."""
        notes = [
            f"{changed} rows: {min(counts)} round trips; the bare transaction took "
            f"{self.figures[f'bare_{changed}'].median:.1f} ms, at the design's choice "
            f"{BARE_MS.get(changed, '-')} ms"
            for changed, counts in sorted(self.statements.items())
        ]
        return Result(
            figures=self.figures,
            parameters=asdict(self.parameters),
            notes=tuple(notes),
        )

    def teardown(self) -> None:
        """The database goes with the harness."""


def scenario() -> PublishSparse:
    """Return the scenario with its default parameters."""
    return PublishSparse(Parameters())
