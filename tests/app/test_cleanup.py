"""Cleanup: what is due goes, what is current stays, and nothing else changes."""

import datetime as dt

import psycopg
import pytest
from django.db import connection

from django_ray.maintenance.audit import Finding, audit
from django_ray.maintenance.candidates import WINDOW, Kind
from django_ray.maintenance.cleanup import clean
from django_ray.maintenance.removal import BOUNDS, DELETE_DETAILS
from django_ray.progress.delta import Fenced
from django_ray.storage.publish import publish
from django_ray.storage.stage import stage
from tests.app.endings import (
    DAY,
    HOUR,
    NOW,
    age,
    attempt,
    counted,
    end,
    ended,
    kept,
    orphan,
    sweep,
)
from tests.storage import helpers
from tests.storage.helpers import Book

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def conn(db):
    with psycopg.connect(helpers.dsn(), autocommit=True) as opened:
        yield opened
        opened.execute("DELETE FROM django_ray_execution")


def test_an_expired_run_goes_with_all_that_hangs_on_it(conn):
    book = ended(conn, 300)
    before = kept(conn)
    swept = sweep()[Kind.expired_runs]
    assert (swept.removed.items, swept.removed.rows) == (1, 300)
    assert swept.removed.pages == len(book.topology.pages)
    assert counted(conn, "run", "manifest", "page", "node_detail", "stages") == (0,) * 5
    assert kept(conn) == before


def test_a_dry_run_says_the_same_and_changes_nothing(conn):
    ended(conn, 300)
    ended(conn, 0, expires=None)
    before = helpers.picture(conn)
    dry = sweep(delete=False)
    assert helpers.picture(conn) == before
    wet = sweep()
    assert {kind: swept.removed for kind, swept in dry.items()} == {
        kind: swept.removed for kind, swept in wet.items()
    }


@pytest.mark.parametrize(
    ("seconds", "gone"), [(-1, True), (0, True), (1, False)], ids=["past", "at", "not"]
)
def test_a_run_is_due_from_its_expiry_on(conn, seconds, gone):
    ended(conn, expires=NOW + dt.timedelta(seconds=seconds))
    sweep()
    assert counted(conn, "run") == (0 if gone else 1,)


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "RECONCILE"])
@pytest.mark.parametrize("expires", [None, NOW - 400 * DAY, "-infinity"])
def test_a_current_run_stays_whatever_its_expiry_says(conn, state, expires):
    book = ended(conn, state=state, expires=None)
    conn.execute("UPDATE django_ray_run SET expires_at = %s", (expires,))
    age(conn, "run", 400 * DAY)
    if state == "RUNNING":
        stage(conn, *book.args, helpers.candidate(2, 4))
    age(conn, "manifest")
    age(conn, "page")
    before = helpers.picture(conn)
    sweep()
    assert helpers.picture(conn) == before


def test_a_current_run_that_has_nothing_yet_stays(conn):
    Book.open(conn)
    sweep()
    assert counted(conn, "run") == (1,)


def test_the_run_before_a_retry_goes_while_the_new_one_publishes_on(conn):
    old = ended(conn, 3, state="RUNNING")
    conn.execute(
        "UPDATE django_ray_execution SET run_id = gen_random_uuid(),"
        " attempt_number = 3, execution_generation = 4, progress_summary = NULL"
    )
    row = conn.execute("SELECT id, run_id::text FROM django_ray_execution").fetchone()
    new = Book.open(
        conn,
        type(old.identity)(
            task_execution_pk=row[0],
            attempt_number=3,
            execution_generation=4,
            run_id=row[1],
        ),
    )
    new.commit(conn, new.growth(conn, 2))
    assert sweep()[Kind.expired_runs].removed.items == 1
    new.commit(conn, new.publication({0: "RUNNING"}))
    assert counted(conn, "run", "node_detail") == (1, 2)
    assert audit(new.identity.run_id).findings == ()


@pytest.mark.parametrize("finished", [NOW - 8 * DAY, NOW - 6 * DAY])
def test_an_ended_run_without_expiry_is_kept_from_its_attempts_end_on(conn, finished):
    ended(conn, expires=None)
    age(conn, "run", 30 * DAY)
    conn.execute(
        "INSERT INTO django_ray_attempt (execution_id, attempt_number,"
        " execution_generation, run_id, worker, state, claimed_at, finished_at,"
        " error_class, error_text) SELECT id, attempt_number, execution_generation,"
        " run_id, 'w', 'FAILED', now(), %s, '', '' FROM django_ray_execution",
        (finished,),
    )
    sweep()
    assert counted(conn, "run") == (0 if finished < NOW - 7 * DAY else 1,)


@pytest.mark.parametrize(("days", "gone"), [(8, True), (6, False)])
def test_without_attempt_and_expiry_it_is_kept_from_its_beginning_on(conn, days, gone):
    ended(conn, expires=None)
    age(conn, "run", days * DAY)
    sweep()
    assert counted(conn, "run") == (0 if gone else 1,)


@pytest.mark.parametrize("past", [-1, 0, 1])
def test_a_candidate_nobody_published_is_stale_after_an_hour(conn, past):
    book = Book.loaded(conn, 300)
    stage(conn, *book.args, helpers.candidate(2, 600))
    end(conn, book)
    attempt(conn, book)
    age(conn, "manifest", HOUR + dt.timedelta(seconds=past))
    age(conn, "page", HOUR + dt.timedelta(seconds=past))
    before = counted(conn, "page")[0]
    swept = sweep()[Kind.stale_candidates]
    stale = past >= 0
    assert swept.removed.items == stale
    assert counted(conn, "manifest") == (2 - stale,)
    assert swept.removed.pages == before - counted(conn, "page")[0]
    assert bool(swept.removed.pages) is stale
    # Nothing closed the summary here, and nothing else disagrees.
    assert audit(book.identity.run_id).findings == (Finding("summary_state"),)


@pytest.mark.parametrize("past", [-1, 0, 1])
def test_pages_no_manifest_names_go_after_an_hour_and_no_other(conn, past):
    book = ended(conn, 300, expires=NOW + DAY)
    named = counted(conn, "page")[0]
    age(conn, "page")
    orphan(conn, book.begun.run_pk, 3, HOUR + dt.timedelta(seconds=past))
    removed = sweep()[Kind.unreferenced_pages].removed.items
    assert removed == (3 if past >= 0 else 0)
    assert counted(conn, "page")[0] == named + 3 - removed


def test_an_empty_row_of_an_ended_run_goes(conn):
    ended(conn, 0, expires=NOW + DAY)
    assert sweep()[Kind.empty_shells].removed.items == 1
    assert counted(conn, "run") == (0,)


@pytest.mark.parametrize(
    "content",
    [
        "UPDATE django_ray_run SET events = '[]'",
        "UPDATE django_ray_run SET session = '{}'",
        "INSERT INTO django_ray_stages (run_id, body) SELECT id, '{}' FROM"
        " django_ray_run",
    ],
)
def test_a_row_that_holds_something_is_no_shell(conn, content):
    ended(conn, 0, expires=NOW + DAY)
    conn.execute(content)
    sweep()
    assert counted(conn, "run") == (1,)


def test_a_second_pass_finds_nothing(conn):
    ended(conn)
    stage_left = ended(conn, 3, expires=NOW + DAY)
    orphan(conn, stage_left.begun.run_pk)
    ended(conn, 0)
    sweep()
    after = helpers.picture(conn)
    again = sweep()
    assert all(swept.examined == 0 for swept in again.values())
    assert helpers.picture(conn) == after


def test_no_class_is_examined_past_the_batch(conn):
    for _ in range(3):
        ended(conn)
        ended(conn, 0, expires=NOW + DAY)
        book = ended(conn, 2, expires=NOW + DAY)
        orphan(conn, book.begun.run_pk, 3)
    swept = sweep(batch_size=2)
    assert {kind: one.removed.items for kind, one in swept.items()} == {
        Kind.expired_runs: 2,
        Kind.stale_candidates: 0,
        Kind.unreferenced_pages: 2,
        Kind.empty_shells: 2,
    }
    assert swept[Kind.expired_runs].is_full
    assert not swept[Kind.stale_candidates].is_full
    assert counted(conn, "run") == (5,)


def test_what_expired_first_goes_first(conn):
    late = ended(conn, expires=NOW - DAY)
    ended(conn, expires=NOW - 2 * DAY)
    sweep(batch_size=1)
    left = conn.execute("SELECT id FROM django_ray_run").fetchall()
    assert left == [(late.begun.run_pk,)]


def test_runs_past_one_window_are_found(conn):
    for _ in range(3):
        conn.execute(
            "INSERT INTO django_ray_execution (public_id, task_path, backend,"
            " queue_name, priority, arguments, state, attempt_number,"
            " execution_generation, run_id, enqueued_at, options, plan_fingerprint)"
            " SELECT gen_random_uuid(), 't', 'd', 'd', 0, '{}', 'LOST', 1, 1,"
            " gen_random_uuid(), now(), '{}', '' FROM generate_series(1, 100)"
        )
    conn.execute(
        "INSERT INTO django_ray_run (execution_id, attempt_number,"
        " execution_generation, run_id, writer_epoch, summary_revision,"
        " detail_revision, topology_version, detail_rows, detail_bytes,"
        " retention_days, created_at, expires_at, events) SELECT id, 1, 1, run_id, 1,"
        " 1, 0, 0, 0, 0, 7, now(), %s, '[]' FROM django_ray_execution ORDER BY id",
        (NOW + DAY,),
    )
    conn.execute(
        "UPDATE django_ray_run SET expires_at = %s WHERE id IN"
        " (SELECT id FROM django_ray_run ORDER BY id OFFSET 250)",
        (NOW - DAY,),
    )
    assert WINDOW < 250
    assert sweep()[Kind.expired_runs].removed.items == 50


def test_a_stale_writer_of_a_removed_run_changes_nothing(conn):
    book = Book.loaded(conn, 3)
    late = book.publication({0: "RUNNING"})
    end(conn, book)
    conn.execute("UPDATE django_ray_run SET expires_at = %s", (NOW - DAY,))
    sweep()
    before = helpers.picture(conn)
    assert publish(conn, *book.args, late) == Fenced("task")
    assert isinstance(stage(conn, *book.args, helpers.candidate(2, 4)), Fenced)
    assert helpers.picture(conn) == before


def test_a_long_run_goes_by_statements_of_bounded_rows(conn):
    ended(conn, 2_500)
    removed = []

    def watch(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.lstrip().startswith("DELETE FROM django_ray_node_detail"):
            removed.append(context["cursor"].rowcount)
        return result

    with connection.execute_wrapper(watch):
        assert sweep()[Kind.expired_runs].removed.rows == 2_500
    assert removed == [1_000, 1_000, 500]


def test_a_pass_rests_after_each_step_and_holds_nothing_then(conn):
    ended(conn, 1_500)
    rested = []

    def rest(worked):
        rested.append(worked)
        assert not connection.in_atomic_block

    clean(using="default", now=NOW, delete=True, batch_size=9, rest=rest)
    assert len(rested) == 2
    assert all(worked > 0 for worked in rested)


@pytest.mark.deep
def test_a_run_of_25000_rows_goes_in_short_statements(conn):
    book = ended(conn, 25_000)
    other = ended(conn, 25_000, expires=NOW + DAY)
    spent = []

    def timed(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        spent.append(context["cursor"].rowcount)
        return result

    with connection.execute_wrapper(timed):
        removed = sweep()[Kind.expired_runs].removed
    assert (removed.items, removed.rows) == (1, 25_000)
    assert max(spent) <= 1_000
    attempt(conn, other)
    assert audit(other.identity.run_id).findings == ()
    assert book.begun.run_pk != other.begun.run_pk
    assert counted(conn, "run", "node_detail") == (1, 25_000)


def test_a_part_of_the_rows_is_found_by_key(conn):
    run_pk = ended(conn, 1_500).begun.run_pk
    ended(conn, 1_500)
    conn.execute("ANALYZE django_ray_node_detail")
    query = DELETE_DETAILS.replace("%(run)s", str(run_pk))
    with conn.transaction():
        conn.execute(BOUNDS)
        lines = conn.execute(f"EXPLAIN {query.replace('%(most)s', '1000')}").fetchall()
    plan = "\n".join(line for (line,) in lines)
    assert "Seq Scan" not in plan
    assert plan.count("django_ray_node_detail_pk") == 2
