"""Real PostgreSQL for the tests of storage: connections that really commit."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from django_ray.maintenance.audit import audit
from django_ray.storage import pool
from tests.storage import helpers


@pytest.fixture
def storage_dsn(db):
    """The test database, as libpq names it."""
    return helpers.dsn()


@pytest.fixture
def unaudited():
    """For a test that damages what is stored: append to it."""
    return []


@pytest.fixture
def admin(storage_dsn, unaudited):
    """A connection to look and to interfere with.

    After the test the audit of every run is clean, and then the tables are empty.
    """
    with psycopg.connect(storage_dsn, autocommit=True) as conn:
        yield conn
        ids = conn.execute("SELECT run_id::text FROM django_ray_run").fetchall()
        found = [] if unaudited else [audit(run_id).findings for (run_id,) in ids]
        conn.execute("DELETE FROM django_ray_execution")
        assert not any(found)


@pytest.fixture
def connect(storage_dsn, admin):
    """Open connections as the pool does; all are closed after the test."""
    opened = []

    def open_one(**options):
        conn = psycopg.connect(
            storage_dsn, autocommit=True, prepare_threshold=0, **options
        )
        pool.configure(conn)
        opened.append(conn)
        return conn

    yield open_one
    for conn in opened:
        conn.close()


@pytest.fixture
def conn(connect):
    return connect()


@pytest.fixture
def kill(admin):
    """End the server's side of a connection, and wait until it is gone."""

    def end(conn):
        admin.execute(
            "SELECT pg_terminate_backend(%s, 10000)", (conn.info.backend_pid,)
        )

    return end


@pytest.fixture
def aside():
    """Run a call on a thread of its own; the result is a future."""
    with ThreadPoolExecutor(2) as threads:
        yield threads.submit
