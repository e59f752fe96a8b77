"""What does cleanup of 200,000 expired rows cost a live run that publishes beside it?

In pairs, in turn: the live run publishes at a fixed rate while nothing else happens, and
while another process removes eight expired runs of 25,000 rows. Lag is from when a
publication was due to its commit. The cleaning process is there in both, waiting in one.
"""

import multiprocessing
import os
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import LiteralString

from cluster import runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.protocol.vocabulary import NodeState

EXECUTIONS: LiteralString = """
INSERT INTO django_ray_execution (
    public_id, task_path, backend, queue_name, priority, arguments, state,
    attempt_number, execution_generation, run_id, enqueued_at, options,
    plan_fingerprint, progress_summary
)
SELECT gen_random_uuid(), e.task_path, e.backend, e.queue_name, 0, e.arguments,
    'SUCCEEDED', 1, 1, gen_random_uuid(), now(), e.options, '', e.progress_summary
FROM django_ray_execution AS e, generate_series(1, %(number)s)
WHERE e.id = %(task)s
RETURNING id
"""
ATTEMPTS: LiteralString = """
INSERT INTO django_ray_attempt (
    execution_id, attempt_number, execution_generation, run_id, worker, state,
    claimed_at, error_class, error_text, terminal_summary
)
SELECT id, 1, 1, run_id, 'worker', state, now(), '', '', progress_summary
FROM django_ray_execution WHERE id = ANY (%(executions)s)
"""
RUNS: LiteralString = """
INSERT INTO django_ray_run (
    execution_id, attempt_number, execution_generation, run_id, writer_epoch,
    summary_revision, detail_revision, topology_version, detail_rows, detail_bytes,
    retention_days, expires_at, created_at
)
SELECT e.id, 1, 1, e.run_id, 1, r.summary_revision, r.detail_revision,
    r.topology_version, r.detail_rows, r.detail_bytes, 7, now() - interval '1 day',
    now() - interval '8 days'
FROM django_ray_execution AS e, django_ray_run AS r
WHERE e.id = ANY (%(executions)s) AND r.id = %(run)s
RETURNING id
"""
BELOW: tuple[LiteralString, ...] = (
    """
INSERT INTO django_ray_manifest (
    run_id, topology_version, published, node_count, edge_count, page_count,
    encoded_bytes, decoded_bytes, page_digests, digest, created_at
)
SELECT c, topology_version, published, node_count, edge_count, page_count,
    encoded_bytes, decoded_bytes, page_digests, digest, created_at
FROM django_ray_manifest, unnest(%(clones)s::int8[]) AS c WHERE run_id = %(run)s
""",
    """
INSERT INTO django_ray_page (
    run_id, digest, kind, item_count, encoding, encoded_size, decoded_size, body,
    created_at
)
SELECT c, digest, kind, item_count, encoding, encoded_size, decoded_size, body,
    created_at
FROM django_ray_page, unnest(%(clones)s::int8[]) AS c WHERE run_id = %(run)s
""",
    """
INSERT INTO django_ray_node_detail (
    run_id, ordinal, node_key, node_id, stage, state, detail_revision, record
)
SELECT c, ordinal, node_key, node_id, stage, state, detail_revision, record
FROM unnest(%(clones)s::int8[]) AS c, django_ray_node_detail WHERE run_id = %(run)s
""",
    """
INSERT INTO django_ray_stages (run_id, body)
SELECT c, body FROM django_ray_stages, unnest(%(clones)s::int8[]) AS c
WHERE run_id = %(run)s
""",
)
ATTEMPT: LiteralString = """
INSERT INTO django_ray_attempt (execution_id, attempt_number, execution_generation, run_id,
    worker, state, claimed_at, error_class, error_text, terminal_summary)
SELECT id, attempt_number, execution_generation, run_id, 'w', state, now(), '', '',
    progress_summary
FROM django_ray_execution WHERE id = %s
"""
KEPT: LiteralString = """
SELECT string_agg(md5(e.progress_summary), '' ORDER BY e.id),
    string_agg(md5(a.terminal_summary), '' ORDER BY e.id)
FROM django_ray_execution AS e LEFT JOIN django_ray_attempt AS a ON a.execution_id = e.id
WHERE e.state = 'SUCCEEDED'
"""
LEFT: LiteralString = """
SELECT (SELECT count(*) FROM django_ray_run), (SELECT count(*) FROM django_ray_node_detail),
    (SELECT count(*) FROM django_ray_manifest)
"""
VACUUMED = "VACUUM (ANALYZE) django_ray_node_detail, django_ray_page, django_ray_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Expired runs a pass removes, and what the live run publishes how often."""

    runs: int = 8
    nodes: int = 25_000
    live_nodes: int = 5_000
    changed: int = 250
    interval_s: float = 0.1
    quiet_s: float = 10.0
    pairs: int = 3


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What one pass reported from its process."""

    seconds: float
    longest_s: float
    statements: int
    items: int
    rows: int
    failed: int


def clean(channel: Connection) -> None:
    """Serve passes of cleanup from a process of its own: one for each word sent."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "cluster.settings"
    import django

    django.setup()
    from django.db import connection

    from django_ray.maintenance import cleanup

    spent: list[float] = []

    def timed(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            spent.append(time.perf_counter() - start)

    now = cleanup.database_now("default")
    channel.send(None)
    with connection.execute_wrapper(timed):
        while channel.recv():
            spent.clear()
            start = time.perf_counter()
            report = cleanup.clean(
                using="default",
                now=now,
                delete=True,
                batch_size=1_000,
                rest=cleanup.unhurried,
            )
            seconds = time.perf_counter() - start
            channel.send(
                Cleaned(
                    seconds=seconds,
                    longest_s=max(spent),
                    statements=len(spent),
                    items=sum(swept.removed.items for swept in report.swept),
                    rows=sum(swept.removed.rows for swept in report.swept),
                    failed=report.failed,
                )
            )


class Cleanup:
    __doc__ = __doc__

    name = "cleanup"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.quiet: list[list[float]] = []
        self.beside: list[list[float]] = []
        self.passes: list[Cleaned] = []
        self.process: multiprocessing.process.BaseProcess | None = None
        self.try_ = 1

    def setup(self, harness: Harness) -> None:
        """Publish the run that is cloned and the live one; start the other process."""
        self.admin = harness.connect()
        self.template = self._mind(harness, self.parameters.nodes)
        self.template.end()
        self.template.publish()
        ended = (self.template.identity.task_execution_pk,)
        self.admin.execute(
            "UPDATE django_ray_execution SET state = 'SUCCEEDED' WHERE id = %s", ended
        )
        self.admin.execute(ATTEMPT, ended)
        self.live = self._mind(harness, self.parameters.live_nodes)
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=clean, args=(theirs,), daemon=True)
        self.process.start()
        self.channel.recv()
        self.kept: list[tuple[object, ...]] = []

    def _mind(self, harness: Harness, nodes: int) -> runs.Mind:
        mind = runs.Mind(harness.connect(), runs.execution())
        mind.register(runs.layered(nodes, 4 * nodes))
        mind.publish()
        mind.move(range(nodes), NodeState.SUCCEEDED, 1)
        mind.publish()
        return mind

    def measure(self) -> None:
        """Publish with and without a pass beside it, in turn; the first pair warms up."""
        for pair in range(self.parameters.pairs + 1):
            self._expire()
            quiet = self._publish(self.parameters.quiet_s) if pair % 2 else []
            self.channel.send(True)
            beside = self._publish(None)
            cleaned: Cleaned = self.channel.recv()
            if not pair % 2:
                self.admin.execute(VACUUMED)
                quiet = self._publish(self.parameters.quiet_s)
            if pair:
                self.quiet.append(quiet)
                self.beside.append(beside)
                self.passes.append(cleaned)
        self.channel.send(False)

    def _expire(self) -> None:
        """Make the runs that are to be removed: copies of the one that is not."""
        task, run = self.template.identity.task_execution_pk, self.template.begun.run_pk
        number = self.parameters.runs
        ids = {"task": task, "run": run, "number": number}
        executions = [row[0] for row in self.admin.execute(EXECUTIONS, ids)]
        self.admin.execute(ATTEMPTS, {"executions": executions})
        rows = self.admin.execute(RUNS, {**ids, "executions": executions})
        clones = [row[0] for row in rows]
        for statement in BELOW:
            self.admin.execute(statement, {"clones": clones, "run": run})
        kept = self.admin.execute(KEPT).fetchone()
        assert kept is not None
        self.kept.append(kept)
        self.admin.execute(VACUUMED)
        self.admin.execute("CHECKPOINT")

    def _publish(self, seconds: float | None) -> list[float]:
        """Publish at the fixed rate, so long or until the pass is done; return the lags."""
        lags: list[float] = []
        states = (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED)
        start = time.perf_counter()
        due = start
        while due - start < seconds if seconds else not self.channel.poll():
            self.try_ += 1
            first = self.try_ * self.parameters.changed
            nodes = self.parameters.live_nodes
            ordinals = sorted(
                (first + n) % nodes for n in range(self.parameters.changed)
            )
            self.live.move(ordinals, states[self.try_ % 3], self.try_)
            time.sleep(max(0.0, due - time.perf_counter()))
            self.live.publish()
            lags.append(time.perf_counter() - due)
            due += self.parameters.interval_s
        return lags

    def verify(self) -> None:
        """All that expired is gone, and nothing else; no summary changed by a byte."""
        asked = self.parameters
        for cleaned in self.passes:
            assert cleaned.failed == 0, f"{cleaned.failed} failed"
            assert (cleaned.items, cleaned.rows) == (
                asked.runs,
                asked.runs * asked.nodes,
            ), cleaned
            assert cleaned.longest_s < 1.0, (
                f"a statement took {cleaned.longest_s:.2f} s"
            )
        left = self.admin.execute(LEFT).fetchone()
        assert left == (2, asked.nodes + asked.live_nodes, 2), left
        # Executions are only added, so what was kept before begins what is kept now.
        now = self.admin.execute(KEPT).fetchone()
        assert now is not None
        for before in self.kept:
            for old, new in zip(before, now, strict=True):
                assert str(new).startswith(str(old)), "A summary changed."
        assert runs.require_sound(self.live.identity.run_id) == asked.live_nodes
        assert runs.require_sound(self.template.identity.run_id) == asked.nodes

    def result(self) -> Result:
        """Return the lags and their ratios, and how long statements and passes took."""
        pairs = list(zip(self.beside, self.quiet, strict=True))
        figures = {
            "lag_ratio": Figure(
                values=tuple(median(a) / median(b) for a, b in pairs),
                unit="x without cleanup",
            ),
            "slow_lag_ratio": Figure(
                values=tuple(_slow(a) / _slow(b) for a, b in pairs),
                unit="x without cleanup, 95 % of lags below",
            ),
            "lag_beside": _milliseconds(median(lags) for lags in self.beside),
            "lag_quiet": _milliseconds(median(lags) for lags in self.quiet),
            "longest_statement": Figure(
                values=tuple(1_000 * cleaned.longest_s for cleaned in self.passes),
                unit="ms",
                reach=1_000.0,
            ),
            "pass": Figure(
                values=tuple(cleaned.seconds for cleaned in self.passes), unit="s"
            ),
        }
        number = self.passes[0].statements
        return Result(
            figures=figures,
            parameters=asdict(self.parameters),
            notes=(
                f"{number:,} statements a pass",
                f"{sum(map(len, self.beside)):,} publications beside cleanup",
            ),
        )

    def teardown(self) -> None:
        """End the other process; the database goes with the harness."""
        if self.process is not None:
            self.process.terminate()
            self.process.join()


def _slow(lags: list[float]) -> float:
    return quantiles(lags, n=20)[-1]


def _milliseconds(values) -> Figure:  # type: ignore[no-untyped-def]
    return Figure(values=tuple(1_000 * value for value in values), unit="ms")


def scenario() -> Cleanup:
    """Return the scenario with its default parameters."""
    return Cleanup(Parameters())
