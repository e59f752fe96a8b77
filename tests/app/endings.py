"""Runs that have ended, and passes of cleanup over them."""

import datetime as dt

from django_ray.maintenance.cleanup import clean
from tests.storage.helpers import Book

NOW = dt.datetime.now(dt.UTC)
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)


def sweep(*, now=NOW, delete=True, batch_size=100):
    """Make a pass; return it by class."""
    report = clean(using="default", now=now, delete=delete, batch_size=batch_size)
    return {swept.kind: swept for swept in report.swept}


def ended(conn, nodes=3, *, expires=NOW - DAY, state="SUCCEEDED"):
    """Publish a run of so many nodes and end its execution."""
    book = Book.loaded(conn, nodes) if nodes else Book.open(conn)
    end(conn, book, state)
    conn.execute(
        "UPDATE django_ray_run SET expires_at = %s WHERE id = %s",
        (expires, book.begun.run_pk),
    )
    return book


def end(conn, book, state="SUCCEEDED"):
    conn.execute(
        "UPDATE django_ray_execution SET state = %s WHERE id = %s",
        (state, book.identity.task_execution_pk),
    )


def attempt(conn, book):
    """Keep an ended execution's attempt as the lifecycle would."""
    conn.execute(
        "INSERT INTO django_ray_attempt (execution_id, attempt_number,"
        " execution_generation, run_id, worker, state, claimed_at, error_class,"
        " error_text, terminal_summary)"
        " SELECT id, attempt_number, execution_generation, run_id, 'w', state,"
        " now(), '', '', progress_summary FROM django_ray_execution WHERE id = %s",
        (book.identity.task_execution_pk,),
    )


def age(conn, table, by=2 * HOUR):
    """Make all rows of a table so old at NOW."""
    conn.execute(f"UPDATE django_ray_{table} SET created_at = %s", (NOW - by,))


def counted(conn, *tables):
    return tuple(
        conn.execute(f"SELECT count(*) FROM django_ray_{table}").fetchone()[0]
        for table in tables
    )


def kept(conn):
    """Return every byte of the tables cleanup may not change."""
    return [
        conn.execute(
            f"SELECT t::text FROM django_ray_{name} AS t ORDER BY 1"
        ).fetchall()
        for name in ("execution", "attempt", "lease")
    ]


def orphan(conn, run_pk, number=1, by=2 * HOUR):
    """Store pages that no manifest names."""
    conn.execute(
        "INSERT INTO django_ray_page (run_id, digest, kind, item_count, encoding,"
        " encoded_size, decoded_size, body, created_at) SELECT %s,"
        " sha256(n::text::bytea), 'nodes', 1, 'identity', 1, 1, 'x', %s"
        " FROM generate_series(1, %s) AS n",
        (run_pk, NOW - by, number),
    )
