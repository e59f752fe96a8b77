"""Cleanup when something fails, and when two passes meet."""

import datetime as dt
import threading

import msgspec
import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_ray.errors import StorageUnavailable
from django_ray.maintenance import cleanup
from django_ray.maintenance.audit import audit
from django_ray.maintenance.candidates import Kind
from django_ray.maintenance.cleanup import DIAGNOSTICS, clean
from django_ray.models.progress import CleanupFailure
from django_ray.protocol import summary
from django_ray.readers import context
from tests.app import stored
from tests.app.endings import (
    DAY,
    HOUR,
    NOW,
    age,
    counted,
    ended,
    kept,
    orphan,
    sweep,
)
from tests.storage import helpers
from tests.storage.helpers import Book

pytestmark = pytest.mark.django_db(transaction=True)

COMMAND = "django_ray_cleanup_workflow_progress"


@pytest.fixture
def conn(db):
    with psycopg.connect(helpers.dsn(), autocommit=True) as opened:
        yield opened
        opened.execute("DELETE FROM django_ray_execution")


@pytest.fixture
def hold(conn):
    """Keep runs from being removed: a table of the project's own points at them."""
    conn.execute(
        "CREATE TABLE tests_hold (run_id bigint REFERENCES django_ray_run (id))"
    )

    def held(*books):
        for book in books:
            conn.execute("INSERT INTO tests_hold VALUES (%s)", (book.begun.run_pk,))

    yield held
    conn.execute("DROP TABLE tests_hold")


def runs(conn):
    return {pk for (pk,) in conn.execute("SELECT id FROM django_ray_run").fetchall()}


def test_a_failure_stops_nothing_and_is_recorded(conn, hold):
    first, second = ended(conn, expires=NOW - 2 * DAY), ended(conn)
    hold(first)
    before = kept(conn)
    report = clean(using="default", now=NOW, delete=True, batch_size=9)
    swept = report.swept[0]
    assert (report.failed, swept.failed, swept.removed.items) == (1, 1, 1)
    assert runs(conn) == {first.begun.run_pk}
    assert second.begun.run_pk not in runs(conn)
    (diagnostic,) = report.diagnostics
    assert (diagnostic.kind, diagnostic.recorded) == (Kind.expired_runs, True)
    assert diagnostic.run_id == first.identity.run_id
    assert diagnostic.reason == "IntegrityError 23001" or (
        diagnostic.reason == "IntegrityError 23503"
    )
    row = CleanupFailure.objects.get()
    assert (row.run_id, row.failures, row.failed_at) == (first.begun.run_pk, 1, NOW)
    assert row.diagnostic == diagnostic.reason
    assert kept(conn) == before


def test_what_never_failed_comes_before_what_failed(conn, hold):
    first = ended(conn, expires=NOW - 9 * DAY)
    hold(first)
    sweep(batch_size=1)
    second = ended(conn)
    assert sweep(batch_size=1)[Kind.expired_runs].removed.items == 1
    assert runs(conn) == {first.begun.run_pk}
    assert second.begun.run_pk not in runs(conn)


def test_of_what_failed_the_longest_not_tried_comes_first(conn, hold):
    books = [ended(conn, expires=NOW - days * DAY) for days in (9, 8, 7)]
    hold(*books)
    for hours in range(6):
        sweep(now=NOW + hours * HOUR, batch_size=1)
    failures = CleanupFailure.objects.order_by("failed_at")
    assert [row.run_id for row in failures] == [book.begun.run_pk for book in books]
    assert [row.failures for row in failures] == [2, 2, 2]


def test_a_failure_is_tried_again_and_forgotten_with_its_run(conn, hold):
    hold(ended(conn))
    sweep()
    conn.execute("DELETE FROM tests_hold")
    assert sweep()[Kind.expired_runs].removed.items == 1
    assert not CleanupFailure.objects.exists()


def test_a_success_forgets_the_failure_of_a_run_that_stays(conn):
    book = ended(conn, expires=NOW + DAY)
    orphan(conn, book.begun.run_pk)
    CleanupFailure.objects.create(
        run_id=book.begun.run_pk,
        kind=Kind.unreferenced_pages,
        failures=1,
        failed_at=NOW,
        diagnostic="x",
    )
    assert sweep()[Kind.unreferenced_pages].removed.items == 1
    assert not CleanupFailure.objects.exists()


def test_a_success_leaves_the_failure_of_another_class(conn):
    book = ended(conn, expires=NOW + DAY)
    orphan(conn, book.begun.run_pk)
    CleanupFailure.objects.create(
        run_id=book.begun.run_pk,
        kind=Kind.expired_runs,
        failures=1,
        failed_at=NOW,
        diagnostic="x",
    )
    assert sweep()[Kind.unreferenced_pages].removed.items == 1
    assert CleanupFailure.objects.get().kind == Kind.expired_runs


@pytest.mark.parametrize("fails", [DIAGNOSTICS - 1, DIAGNOSTICS, DIAGNOSTICS + 1])
def test_all_failures_are_counted_and_a_few_are_told(conn, hold, fails):
    hold(*(ended(conn, 0, expires=NOW + DAY) for _ in range(fails)))
    report = clean(using="default", now=NOW, delete=True, batch_size=99)
    assert report.failed == fails
    assert len(report.diagnostics) == min(fails, DIAGNOSTICS)


def test_no_diagnostic_holds_text_of_the_database(conn, hold):
    ended_run = ended(conn)
    hold(ended_run)
    reason = (
        clean(using="default", now=NOW, delete=True, batch_size=9).diagnostics[0].reason
    )
    assert "tests_hold" not in reason
    assert str(ended_run.begun.run_pk) not in reason.split()


def test_a_lost_connection_is_an_items_failure_and_the_pass_goes_on(conn):
    ended(conn, expires=NOW - 2 * DAY)
    ended(conn)
    broken = []

    def cut(execute, sql, params, many, context):
        if sql.lstrip().startswith("DELETE FROM django_ray_run") and not broken:
            broken.append(sql)
            stored.break_connection()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut):
        swept = sweep()[Kind.expired_runs]
    assert (swept.failed, swept.removed.items) == (1, 1)
    assert CleanupFailure.objects.get().diagnostic.startswith("OperationalError")


def test_without_a_database_the_pass_ends_and_says_so(conn, monkeypatch):
    ended(conn)
    ended(conn)
    passed = []

    def cut(execute, sql, params, many, context):
        if sql.lstrip().startswith("DELETE FROM django_ray_run"):
            passed.append(sql)
            stored.break_connection()
            monkeypatch.setitem(connection.settings_dict, "PORT", "1")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut), pytest.raises(StorageUnavailable):
        sweep()
    assert len(passed) == 1


def at(statement, call):
    """Call `call` once, before the statement that begins so."""
    done = []

    def wrapper(execute, sql, params, many, context):
        if sql.lstrip().startswith(statement) and not done:
            done.append(sql)
            call()
        return execute(sql, params, many, context)

    return connection.execute_wrapper(wrapper)


def test_a_target_that_is_due_no_more_under_its_locks_is_spared(conn):
    ended(conn)

    def extend():
        conn.execute("UPDATE django_ray_run SET expires_at = %s", (NOW + DAY,))

    with at("SELECT set_config", extend):
        swept = sweep()[Kind.expired_runs]
    assert (swept.removed.items, swept.removed.rows, swept.spared) == (0, 0, 1)
    assert counted(conn, "run", "node_detail") == (1, 3)


def test_a_run_that_is_gone_under_its_locks_is_spared(conn):
    ended(conn)
    with at(
        "SELECT set_config", lambda: conn.execute("DELETE FROM django_ray_execution")
    ):
        assert sweep()[Kind.expired_runs].spared == 1


def test_a_candidate_that_is_written_anew_is_spared(conn):
    book = Book.loaded(conn, 3)
    fresh = helpers.candidate(3, 5)
    helpers.stage(conn, *book.args, helpers.candidate(2, 4))
    age(conn, "manifest")
    age(conn, "page")
    conn.execute("UPDATE django_ray_execution SET state = 'LOST'")

    def restage():
        conn.execute("UPDATE django_ray_execution SET state = 'RUNNING'")
        helpers.stage(conn, *book.args, fresh)
        conn.execute("UPDATE django_ray_execution SET state = 'LOST'")

    with at("SELECT set_config", restage):
        assert sweep()[Kind.stale_candidates].spared == 1
    assert counted(conn, "manifest") == (2,)


def test_a_run_that_is_half_gone_reads_expired_and_goes_on(conn):
    book = ended(conn, 2_500)
    said = summary.decode(
        conn.execute("SELECT progress_summary FROM django_ray_execution").fetchone()[0]
    )
    said = msgspec.structs.replace(said, expires_at_ms=1)
    deletions = []

    def cut(execute, sql, params, many, context):
        deletions.append(sql.lstrip().startswith("DELETE FROM django_ray_node_detail"))
        if sum(deletions) == 2:
            raise KeyboardInterrupt
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut), pytest.raises(KeyboardInterrupt):
        sweep()
    assert counted(conn, "run", "manifest", "node_detail") == (1, 0, 1_500)
    assert context.select(said, NOW) == context.Expired()
    assert audit(book.identity.run_id).is_expired
    assert sweep()[Kind.expired_runs].removed.rows == 1_500
    assert counted(conn, "run", "page", "node_detail") == (0, 0, 0)


def test_two_passes_at_once_share_the_work_and_neither_fails(conn):
    for _ in range(4):
        ended(conn, 1_500)
        ended(conn, 0)
    reports = []
    barrier = threading.Barrier(2)

    def one():
        try:
            barrier.wait()
            reports.append(clean(using="default", now=NOW, delete=True, batch_size=99))
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.failed for report in reports] == [0, 0]
    rows = sum(report.swept[0].removed.rows for report in reports)
    items = sum(swept.removed.items for report in reports for swept in report.swept)
    assert (items, rows) == (8, 6_000)
    assert counted(conn, "run", "node_detail", "page") == (0, 0, 0)


def test_a_stale_writer_that_stages_meanwhile_leaves_nothing(conn):
    book = ended(conn)
    with psycopg.connect(helpers.dsn()) as writer:
        orphan(writer, book.begun.run_pk, 1, dt.timedelta())
        assert sweep()[Kind.expired_runs].removed.items == 1
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            writer.commit()
    assert counted(conn, "run", "manifest", "page", "node_detail") == (0, 0, 0, 0)


def test_a_stale_writer_commits_while_its_run_is_held(conn):
    book = Book.loaded(conn, 3)
    helpers.stage(conn, *book.args, helpers.candidate(2, 4))
    conn.execute("UPDATE django_ray_execution SET state = 'LOST'")
    conn.execute("UPDATE django_ray_run SET expires_at = %s", (NOW - DAY,))
    with psycopg.connect(helpers.dsn(), options="-c lock_timeout=3s") as writer:
        # As REPLACE_CANDIDATE does, with a page whose run is looked up at the commit.
        orphan(writer, book.begun.run_pk, 1, dt.timedelta())
        writer.execute(
            "UPDATE django_ray_manifest SET node_count = 4 WHERE NOT published"
        )
        with at("SELECT id FROM django_ray_manifest", writer.commit):
            assert sweep()[Kind.expired_runs].failed == 0
    assert counted(conn, "run", "manifest", "page", "node_detail") == (0, 0, 0, 0)


def test_the_command_is_dry_by_default_and_says_what_it_found(conn, capsys):
    ended(conn, 3)
    call_command(COMMAND)
    said = capsys.readouterr().out
    assert "expired runs: 1 to remove, with 3 rows and 2 pages" in said
    assert "dry run" in said
    assert counted(conn, "run") == (1,)


def test_the_command_removes_when_told_to(conn, capsys):
    ended(conn, 3)
    call_command(COMMAND, "--delete", "--batch-size", "1")
    said = capsys.readouterr().out
    assert (
        "expired runs: 1 removed, with 3 rows and 2 pages, the batch was full" in said
    )
    assert counted(conn, "run") == (0,)


def test_the_commands_status_tells_of_a_failure(conn, hold, capsys):
    hold(ended(conn, 3))
    with pytest.raises(SystemExit) as caught:
        call_command(COMMAND, "--delete")
    assert caught.value.code == 1
    assert "failed: expired runs of run" in capsys.readouterr().err


def test_without_a_database_the_commands_status_is_four(conn, monkeypatch, capsys):
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    with pytest.raises(Exception, match="did not answer") as caught:
        call_command(COMMAND)
    assert caught.value.returncode == 4


@pytest.mark.parametrize("size", [1, 99_999, 100_000])
def test_a_batch_up_to_the_largest_is_taken(conn, capsys, size):
    ended(conn, 3)
    call_command(COMMAND, batch_size=size)
    assert "expired runs: 1 to remove" in capsys.readouterr().out


@pytest.mark.parametrize("size", [-1, 0, 100_001, 2**63])
def test_a_batch_past_its_bounds_is_refused(size):
    with pytest.raises(CommandError, match="--batch-size is 1 to 100,000"):
        call_command(COMMAND, batch_size=size)


def test_the_databases_clock_is_the_passes(conn):
    now = conn.execute("SELECT now()").fetchone()[0]
    assert abs(cleanup.database_now("default") - now) < HOUR
