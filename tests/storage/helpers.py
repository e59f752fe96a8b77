"""A naive writer, and the values that tests of storage publish."""

import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import msgspec
import psycopg
import pytest
from django.db import connection
from psycopg.pq import Trace

from django_ray.errors import IntegrityFault
from django_ray.identity import RunIdentity
from django_ray.progress.delta import Publication, Published, Revisions, Rows
from django_ray.progress.pages import Candidate, Manifest, manifest_digest, seal
from django_ray.progress.rollup import Stages
from django_ray.protocol import canonical, records, summary
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EdgeItem, NodeItem
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    DetailAvailability,
    ExecutionStrategy,
    NodeState,
    ReportingPolicy,
    WorkflowState,
)
from django_ray.storage.load import Begun, begin
from django_ray.storage.publish import publish
from django_ray.storage.stage import Staged, stage

INSERT_EXECUTION = """
INSERT INTO django_ray_execution (
    public_id, task_path, backend, queue_name, priority, arguments, state,
    attempt_number, execution_generation, run_id, enqueued_at, options, plan_fingerprint
)
VALUES (%s, 'tests.task', 'default', 'default', 0, '{}', %s, %s, %s, %s, now(), '{}', '')
RETURNING id
"""

TABLES = ("execution", "run", "manifest", "page", "node_detail", "stages")


def dsn():
    """Return the test database, as libpq names it."""
    settings = connection.settings_dict
    return psycopg.conninfo.make_conninfo(
        host=settings["HOST"],
        port=settings["PORT"] or None,
        user=settings["USER"],
        password=settings["PASSWORD"] or None,
        dbname=settings["NAME"],
    )


def execution(conn, state="RUNNING"):
    """Insert an execution in the middle of its run; return that run's identity."""
    run_id = str(uuid.uuid4())
    row = conn.execute(INSERT_EXECUTION, (uuid.uuid4(), state, 2, 3, run_id)).fetchone()
    return RunIdentity(
        task_execution_pk=row[0],
        attempt_number=2,
        execution_generation=3,
        run_id=run_id,
    )


def node_id(ordinal):
    return f"1.leaf[{ordinal}]"


def rows(states, fresh=0, message=None):
    """Return the rows of {ordinal: state}; the last `fresh` of them were never stored."""
    ordinals = sorted(states)
    ids = [node_id(ordinal) for ordinal in ordinals]
    extra = {} if message is None else {"message": message}
    return Rows(
        ordinals=ordinals,
        keys=[canonical.node_key(each) for each in ids],
        ids=ids,
        stages=[0] * len(ordinals),
        states=[NODE_STATES.index(NodeState(states[each])) for each in ordinals],
        records=[
            records.encode(records.Detail(state=NodeState(states[each]), **extra))
            for each in ordinals
        ],
        fresh=fresh,
    )


def rollup(counts=(0, 0, 0, 0, 0, 0, 0), rank=0, edges=None):
    """Return a stage row of one stage with these counts; in a chain unless told."""
    stages = Stages(V1)
    index = stages.index("leaf")
    edges = max(sum(counts) - 1, 0) if edges is None else edges
    if edges:
        stages.link(index, index, edges)
    for state, count in zip(NODE_STATES, counts, strict=True):
        for _ in range(count):
            stages.add(index, rank, retained=True)
            stages.move(index, NodeState.PENDING, state, 0)
    return stages.encode()


def counted(states, edges):
    """Return the stage row of {ordinal: state} and so many edges, all of one stage."""
    found = [0] * len(NODE_STATES)
    for state in states.values():
        found[NODE_STATES.index(NodeState(state))] += 1
    return rollup(found, edges=edges)


def chain(count):
    return [(target, target - 1) for target in range(1, count)]


def candidate(version, nodes, edges=None):
    """Return a topology of `nodes` nodes, in a chain unless told, in pages of 256."""
    edges = chain(nodes) if edges is None else edges
    pages = [*node_pages(0, nodes), *edge_pages(edges)]
    return of_pages(version, pages, nodes, len(edges))


def node_pages(start, stop):
    items = [
        NodeItem(ordinal=n, id=node_id(n), label="leaf", stage="leaf", rank=0)
        for n in range(start, stop)
    ]
    return _paged("nodes", items)


def edge_pages(edges):
    items = [EdgeItem(target=target, source=source) for target, source in edges]
    return _paged("edges", items)


def _paged(kind, items):
    cuts = [items[at : at + 256] for at in range(0, len(items), 256)]
    return [seal(kind, len(cut), canonical.encode(cut)) for cut in cuts]


def of_pages(version, pages, nodes, edges):
    digests = tuple(page.digest for page in pages)
    return Candidate(
        manifest=Manifest(
            version=version,
            node_count=nodes,
            edge_count=edges,
            encoded_bytes=sum(len(page.body) for page in pages),
            decoded_bytes=sum(page.decoded_size for page in pages),
            digests=digests,
            digest=manifest_digest(nodes, edges, digests),
        ),
        pages=tuple(pages),
    )


@dataclass
class Book:
    """A writer that keeps what it believes to be published."""

    identity: RunIdentity
    begun: Begun
    base: Revisions
    manifest_id: int | None = None
    topology: Candidate | None = None
    states: dict[int, str] = field(default_factory=dict)

    @classmethod
    def open(cls, conn, identity=None):
        identity = identity or execution(conn)
        begun = begin(conn, identity, 7)
        assert isinstance(begun, Begun)
        return cls(identity, begun, begun.revisions, begun.manifest_id)

    @classmethod
    def loaded(cls, conn, nodes):
        """Open a run and publish so many pending nodes."""
        book = cls.open(conn)
        book.commit(conn, book.growth(conn, nodes))
        return book

    @property
    def args(self):
        return (self.identity, self.begun.run_pk, self.begun.writer_epoch)

    def growth(self, conn, nodes, edges=None, **extra):
        """Stage a topology of `nodes` nodes, and compose the publication of it."""
        grown = candidate(self.base.topology + 1, nodes, edges)
        staged = stage(conn, *self.args, grown)
        assert isinstance(staged, Staged)
        states = dict.fromkeys(range(len(self.states), nodes), "PENDING")
        return self.publication(
            states, fresh=len(states), staged=(grown, staged.manifest_id), **extra
        )

    def publication(self, states=None, *, fresh=0, message=None, staged=None, **extra):
        """Compose the next publication; `staged` is (candidate, manifest id)."""
        changed = rows(states or {}, fresh, message)
        topology, manifest_id = staged or (self.topology, self.manifest_id)
        after = Revisions(
            summary=self.base.summary + 1,
            detail=self.base.detail + bool(changed.ordinals),
            topology=topology.manifest.version if topology else self.base.topology,
        )
        believed = {**self.states, **(states or {})}
        said = compose(self.identity, after, topology, manifest_id, believed)
        fields = {
            "base": self.base,
            "after": after,
            "rows": changed,
            "summary": summary.encode(said),
            "candidate": staged[0] if staged else None,
            "stages": counted(believed, topology.manifest.edge_count)
            if topology
            else None,
        }
        return Publication(**{**fields, **extra})

    def commit(self, conn, publication):
        outcome = publish(conn, *self.args, publication)
        assert isinstance(outcome, Published), outcome
        self.settle(publication)
        return outcome

    def settle(self, publication):
        """Believe in a publication that was committed."""
        self.base = publication.after
        self.manifest_id = summary.decode(publication.summary).manifest_id
        self.topology = publication.candidate or self.topology
        names = [NODE_STATES[code].value for code in publication.rows.states]
        self.states.update(zip(publication.rows.ordinals, names, strict=True))


def compose(identity, after, topology, manifest_id, states):
    counts = {}
    for state in states.values():
        counts[state.lower()] = counts.get(state.lower(), 0) + 1
    return summary.Summary(
        changed_at_ms=1,
        declared_nodes=len(states),
        detail=summary.Detail(
            availability=DetailAvailability.AVAILABLE
            if topology
            else DetailAvailability.NOT_REPORTED,
            complete=topology is not None,
            reasons=(),
        ),
        detail_revision=after.detail or None,
        discovered_edges=0,
        discovered_nodes=len(states),
        ended_at_ms=None,
        ended_by_minute=(),
        expires_at_ms=None,
        hosts=0,
        limits_profile="v1",
        manifest_id=manifest_id,
        node_counts=summary.NodeCounts(**counts),
        observed_at_ms=1,
        percent=0,
        plan_fingerprint="",
        policy=ReportingPolicy.full,
        retained_edges=topology.manifest.edge_count if topology else 0,
        retained_nodes=topology.manifest.node_count if topology else 0,
        retention_days=7,
        revision=after.summary,
        run=summary.run_of(identity),
        schema=3,
        session=None,
        started_at_ms=1,
        state=WorkflowState.RUNNING,
        storage="database",
        storage_protocol=1,
        strategy=ExecutionStrategy.dynamic,
        terminal=None,
        topology_version=after.topology or None,
    )


def ended(expires_at_ms):
    """Return what a summary says of a failed run, as its producer ends it."""
    return {
        "ended_at_ms": 2,
        "expires_at_ms": expires_at_ms,
        "state": WorkflowState.FAILED,
        "terminal": summary.Terminal(
            derived=False, outcome=WorkflowState.FAILED, reason=""
        ),
    }


def resummarized(publication, **changes):
    """Return the publication with fields of its summary changed."""
    said = msgspec.structs.replace(summary.decode(publication.summary), **changes)
    return replace(publication, summary=summary.encode(said))


def picture(conn):
    """Return every stored byte of every run, to compare with later."""
    return {
        table: conn.execute(
            f"SELECT t::text FROM django_ray_{table} AS t ORDER BY 1"
        ).fetchall()
        for table in TABLES
    }


@contextmanager
def round_trips(conn):
    """Count how often the server was waited for: the trace of libpq itself."""
    counted = []
    with tempfile.TemporaryFile("w+") as file:
        conn.pgconn.trace(file.fileno())
        conn.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        yield counted
        conn.pgconn.untrace()
        file.seek(0)
        answers = ("ReadyForQuery", "CopyInResponse")
        counted.append(
            sum(
                line.startswith("B") and any(answer in line for answer in answers)
                for line in file
            )
        )


def refused(conn, admin, book, publication, availability="CORRUPT"):
    """Assert that the publication is refused and nothing changed."""
    before = picture(admin)
    with pytest.raises(IntegrityFault) as caught:
        publish(conn, *book.args, publication)
    assert caught.value.availability == availability
    assert picture(admin) == before


COMMIT = "COMMIT"


def hook(conn, at, call):
    """Call `call(conn)` before the connection's statement `at`, from 0, or its COMMIT.

    COPY counts as a statement; BEGIN and COMMIT go by without a cursor.
    """
    seen = []

    class Hooked(psycopg.Cursor):
        def execute(self, query, *args, **kwargs):
            self.step("execute")
            result = super().execute(query, *args, **kwargs)
            if at == COMMIT and "pg_notify" in query:
                call(self.connection)
            return result

        def copy(self, *args, **kwargs):
            self.step("copy")
            return super().copy(*args, **kwargs)

        def step(self, name):
            if len(seen) == at:
                call(self.connection)
            seen.append(name)

    conn.cursor_factory = Hooked
    return conn


def await_blocked(admin, conn):
    """Wait until `conn` waits for a lock of another connection."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        row = admin.execute(
            "SELECT cardinality(pg_blocking_pids(%s))", (conn.info.backend_pid,)
        ).fetchone()
        if row[0]:
            return
    raise AssertionError("It never waited for a lock.")
