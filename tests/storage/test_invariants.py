"""The storage invariants of contract 5, each by its sentence, over real publications.

Coordinator, producer, collector, publisher, writer and readers are the product's own, the
database is real; only the handle between processes is a fake. The last sentence, of
cleanup, stands with the cleanup.
"""

import zlib
from dataclasses import replace

import msgspec
import psycopg
import pytest
from django.db import connection

from actors.coordinator import Coordinator
from django_ray.maintenance.audit import audit
from django_ray.progress.delta import Fenced, Revisions
from django_ray.protocol import canonical, frames
from django_ray.protocol import summary as codec
from django_ray.protocol.frames import Failure
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NODE_STATES, DetailAvailability, NodeState
from django_ray.readers import live
from django_ray.storage import stage as staging
from django_ray.storage.publish import publish
from django_ray.storage.summaries import publish_summary
from django_ray.storage.writer import Writer
from tests.actors import rig
from tests.fakes import FakeClock, run_settings
from tests.storage import helpers
from tests.storage.helpers import Book, picture

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "hunter2hunter2"
AUDIT = {
    "rows": "SELECT detail_rows, (SELECT count(*) FROM django_ray_node_detail AS d"
    " WHERE d.run_id = r.id) FROM django_ray_run AS r",
    "bytes": "SELECT detail_bytes, (SELECT coalesce(sum(octet_length(d.record)), 0)"
    " FROM django_ray_node_detail AS d WHERE d.run_id = r.id) FROM django_ray_run AS r",
    "nodes": "SELECT detail_rows, (SELECT node_count FROM django_ray_manifest AS m"
    " WHERE m.run_id = r.id AND m.published) FROM django_ray_run AS r",
}


@pytest.fixture
def conn(db):
    with psycopg.connect(helpers.dsn(), autocommit=True) as opened:
        yield opened
        opened.execute("DELETE FROM django_ray_execution")


class Live:
    """A run whose frames, publications and rows are the product's own."""

    def __init__(self, conn, **changes):
        self.conn = conn
        self.identity = helpers.execution(conn)
        self.settings = msgspec.structs.replace(
            run_settings(), identity=self.identity, **changes
        )
        self.writer = Writer(self.settings, helpers.dsn)
        self.rig = rig.Rig(self.settings, self.writer, FakeClock())
        self.producer = self.rig.producer

    def register(self, count, start=0, **fields):
        for ordinal in range(start, start + count):
            made = rig.node(ordinal, range(max(0, ordinal - 2), ordinal))
            self.producer.node(msgspec.structs.replace(made, **fields))

    def move(self, ordinals, state, **fields):
        for ordinal in ordinals:
            told = rig.state(ordinal, NodeState(state), self.rig.clock())
            self.producer.state(msgspec.structs.replace(told, **fields))

    def end(self, outcome="SUCCEEDED"):
        self.producer.end(frames.End(outcome, self.rig.clock()))
        assert self.rig.settle()

    def said(self):
        row = self.conn.execute("SELECT progress_summary FROM django_ray_execution")
        return codec.decode(row.fetchone()[0])


@pytest.fixture
def make(conn):
    made = []

    def one(**changes):
        made.append(Live(conn, **changes))
        return made[-1]

    yield one
    for each in made:
        each.writer.close()


def test_a_reader_never_sees_rows_of_one_publication_with_the_revision_of_another(
    conn, make
):
    run, statements = make(), []
    (public_id,) = conn.execute("SELECT public_id FROM django_ray_execution").fetchone()
    run.register(40)
    assert run.rig.settle()

    def meanwhile(execute, sql, params, many, context):
        # Between any two statements of the reader another publication commits.
        statements.append(sql)
        name = ("RUNNING", "FAILED")[len(statements) % 2]
        run.move(range(len(statements) % 40), name, try_=len(statements))
        assert run.rig.settle()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(meanwhile):
        pictures = [live.read(public_id) for _ in range(6)]

    assert len(statements) > 6 * 4
    assert {each.reading.availability for each in pictures} == {"AVAILABLE"}
    revisions = [each.reading.summary.detail_revision for each in pictures]
    assert revisions == sorted(set(revisions))
    for each in pictures:
        counts = each.reading.summary.node_counts
        assert each.stages[0].counts == counts
        assert len(each.running) == counts.running
        if counts.failed:
            assert len(each.failures) == min(counts.failed, live.FAILURES)


@pytest.mark.parametrize("total", AUDIT)
def test_retained_totals_equal_the_rows(conn, make, total):
    run, seen = make(), []
    for turn in range(6):
        run.register(60, 60 * turn)
        run.move(range(0, 60 * turn, 3), "RUNNING", try_=turn + 1)
        for ordinal in range(0, 60 * turn, 7):
            text = "é" * (1_000 * (turn % 2))
            run.producer.progress(
                frames.Progress(ordinal, 0, turn + 1, turn + 1, 1, message=text)
            )
        assert run.rig.settle()
        stored, counted = conn.execute(AUDIT[total]).fetchone()
        assert stored == counted
        seen.append(stored)
    assert len(set(seen)) == 6


def test_when_nothing_is_omitted_and_the_producer_ended_the_run_the_seven_counts_equal_the_rows_states(
    conn, make
):
    run = make()
    run.register(70)
    for place, name in enumerate(NODE_STATES):
        run.move(range(place, 70, 7), name)
    run.end("FAILED")

    said = run.said()
    assert said.detail == codec.Detail(
        availability=DetailAvailability.AVAILABLE, complete=True, reasons=()
    )
    rows = conn.execute(
        "SELECT state, count(*) FROM django_ray_node_detail GROUP BY state"
    ).fetchall()
    assert dict(rows) == {
        code: said.node_counts.of(state) for code, state in enumerate(NODE_STATES)
    }
    assert len(rows) == 7


STALE = {
    "another attempt": "UPDATE django_ray_execution SET attempt_number = 9",
    "another generation": "UPDATE django_ray_execution SET execution_generation = 9",
    "another run": "UPDATE django_ray_execution SET run_id = gen_random_uuid()",
    "ended": "UPDATE django_ray_execution SET state = 'SUCCEEDED'",
    "another writer": "UPDATE django_ray_run SET writer_epoch = writer_epoch + 1",
}


@pytest.mark.parametrize("change", STALE)
def test_a_stale_writer_changes_nothing(conn, change):
    book = Book.loaded(conn, 5)
    publication = book.growth(conn, 300)
    alone = book.publication({})
    conn.execute(STALE[change])
    before = picture(conn)

    outcomes = [
        publish(conn, *book.args, publication),
        publish(conn, *book.args, book.publication({1: "RUNNING"})),
        staging.stage(conn, *book.args, helpers.candidate(3, 900)),
        publish_summary(conn, *book.args, without_detail(alone)),
    ]

    assert all(isinstance(outcome, Fenced) for outcome in outcomes)
    assert picture(conn) == before


def without_detail(publication):
    """Return a publication as policies without detail make it."""
    bare = helpers.resummarized(
        publication,
        manifest_id=None,
        detail_revision=None,
        topology_version=None,
        retained_nodes=0,
        retained_edges=0,
        detail=codec.Detail(
            availability=DetailAvailability.OMITTED_BY_POLICY,
            complete=False,
            reasons=(),
        ),
    )
    base, after = (
        Revisions(summary=each.summary)
        for each in (publication.base, publication.after)
    )
    return replace(bare, base=base, after=after, stages=None)


def test_at_most_one_pending_topology_per_run(conn):
    book = Book.loaded(conn, 5)
    pending = "SELECT count(*) FROM django_ray_manifest WHERE NOT published"
    found = []
    for version, nodes in ((2, 300), (3, 310), (4, 6)):
        staging.stage(conn, *book.args, helpers.candidate(version, nodes))
        found += conn.execute(pending).fetchone()
    newer = Book.open(conn, book.identity)
    staging.stage(conn, *newer.args, helpers.candidate(5, 700))
    found += conn.execute(pending).fetchone()

    assert found == [1, 1, 1, 1]
    with pytest.raises(psycopg.errors.UniqueViolation):
        conn.execute(
            "INSERT INTO django_ray_manifest (run_id, topology_version, published,"
            " node_count, edge_count, page_count, encoded_bytes, decoded_bytes,"
            " page_digests, digest, created_at) SELECT run_id, 9, false, node_count,"
            " edge_count, page_count, encoded_bytes, decoded_bytes, page_digests,"
            " digest, now() FROM django_ray_manifest WHERE NOT published"
        )


SIZES = {
    "octet_length(progress_summary) FROM django_ray_execution": V1.summary,
    "octet_length(events) FROM django_ray_run": V1.events * (V1.event_encoded + 1) + 2,
    "octet_length(body) FROM django_ray_stages": V1.stage_row,
    "octet_length(body) FROM django_ray_page": V1.page_encoded,
    "decoded_size FROM django_ray_page": V1.page_decoded,
    "item_count FROM django_ray_page": V1.page_items,
    "encoded_bytes FROM django_ray_manifest": V1.topology_encoded,
    "decoded_bytes FROM django_ray_manifest": V1.topology_decoded,
    "octet_length(record) FROM django_ray_node_detail": V1.record,
    "octet_length(node_id) FROM django_ray_node_detail": V1.node_id,
    "detail_bytes FROM django_ray_run": V1.detail_encoded,
}


def test_every_byte_stored_is_within_section_2(conn, make):
    run = make()
    wide = {"label": '"' * V1.label, "stage": "é" * 256}
    for ordinal in range(700):
        node_id = f"{ordinal}" + '"' * 240
        made = frames.Node(ordinal, node_id, dependencies=(0, ordinal), **wide)
        run.producer.node(
            made if ordinal else msgspec.structs.replace(made, dependencies=())
        )
        error = Failure('"' * 100, "\n" * 1_900)
        run.move([ordinal], "FAILED", error=error, host='"' * V1.host)
        metrics = {f"k{place}": '"' * 120 for place in range(15)}
        run.producer.progress(
            frames.Progress(ordinal, 0, 1, 1, 1, 1, 2, "\t" * 2_000, metrics)
        )
    run.end("FAILED")

    reasons = ("edge_count_limit", "detail_size_limit")
    assert run.said().detail.reasons == reasons
    for column, cap in SIZES.items():
        largest = conn.execute(f"SELECT max({column.replace(' FROM', ') FROM')}")
        assert 0 < largest.fetchone()[0] <= cap, column
    assert audit(run.identity.run_id).findings == ()


def test_a_pages_digest_is_over_its_redacted_canonical_bytes(conn, make):
    run = make(redact=(SECRET,))
    coordinator = Coordinator(
        run.settings, run.producer, max_in_flight=1, clock=run.rig.clock
    )
    for number in range(3):
        name = f"1.load[{number}] password={SECRET}"
        coordinator.register(name, f"load {SECRET}", f"stage {SECRET}", ())
    assert run.rig.settle()

    kind, encoding, digest, body = conn.execute(
        "SELECT kind, encoding, digest, body FROM django_ray_page"
    ).fetchone()
    data = zlib.decompress(body) if encoding == "zlib" else body
    items = msgspec.json.decode(data)
    assert canonical.encode(items) == data
    assert canonical.digest(data) == digest
    assert (kind, len(items)) == ("nodes", 3)
    assert SECRET.encode() not in data
