"""Connections: where to, how long to wait, and what a failure may say."""

import logging

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from django_ray.errors import ConfigurationError, IntegrityFault, StorageUnavailable
from django_ray.storage import pool
from django_ray.storage.load import Begun, begin
from tests.storage import helpers

SECRET = "correct-horse"


@pytest.fixture
def opened(storage_dsn, admin):
    one = pool.open_pool(storage_dsn)
    yield one
    one.close()


def test_the_dsn_comes_from_the_file_first(monkeypatch, tmp_path):
    file = tmp_path / "dsn"
    file.write_text("host=from-file\n")
    monkeypatch.setenv("DJANGO_RAY_DSN_FILE", str(file))
    monkeypatch.setenv("DATABASE_URL", "postgresql://from-url/db")
    assert pool.dsn() == "host=from-file"


def test_the_dsn_comes_from_the_url_without_a_file(monkeypatch):
    monkeypatch.delenv("DJANGO_RAY_DSN_FILE", raising=False)
    monkeypatch.setenv("DATABASE_URL", "postgresql://from-url/db")
    assert pool.dsn() == "postgresql://from-url/db"


def test_the_dsn_is_libpqs_own_without_either(monkeypatch):
    monkeypatch.delenv("DJANGO_RAY_DSN_FILE", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert pool.dsn() == ""


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_dsn_file_that_cannot_be_read_is_a_configuration_error(
    monkeypatch, tmp_path, content
):
    file = tmp_path / "secret-place"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("DJANGO_RAY_DSN_FILE", str(file))
    with pytest.raises(ConfigurationError) as caught:
        pool.dsn()
    assert "secret-place" not in str(caught.value)


@pytest.mark.parametrize("conninfo", [f"password {SECRET}", f"host=a secret={SECRET}"])
def test_a_dsn_that_does_not_parse_is_never_shown(conninfo):
    with pytest.raises(ConfigurationError) as caught:
        pool.open_pool(conninfo)
    assert_silent(caught.value)


@pytest.mark.parametrize(
    "where",
    [
        {"host": "127.0.0.1", "port": "1"},
        {"host": "/nowhere/correct-horse"},
        {"dbname": SECRET},
        {"user": SECRET},
    ],
    ids=str,
)
def test_a_failed_connection_says_nothing_of_where_it_was_going(
    storage_dsn, caplog, where
):
    conninfo = make_conninfo(storage_dsn, **{"password": SECRET, **where})
    one = pool.open_pool(conninfo, 0.2)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StorageUnavailable) as caught, pool.connection(one):
        raise AssertionError("It connected.")
    one.close()
    assert_silent(caught.value)
    for record in caplog.records:
        assert SECRET not in record.getMessage()
        assert "127.0.0.1" not in record.getMessage()


def assert_silent(exc):
    """No text that a traceback or a log would print holds the secret."""
    assert SECRET not in str(exc)
    assert "127.0.0.1" not in str(exc)
    assert exc.__cause__ is None
    assert exc.__context__ is None


def test_a_connection_bounds_every_wait(opened):
    with pool.connection(opened) as conn:
        found = [
            conn.execute(f"SHOW {name}").fetchone()[0]
            for name in (
                *("statement_timeout", "lock_timeout"),
                *("idle_in_transaction_session_timeout", "plan_cache_mode"),
                *("enable_seqscan", "application_name"),
            )
        ]
    assert found == ["30s", "10s", "15s", "force_generic_plan", "off", "django_ray"]


def test_a_transaction_is_read_committed_whatever_the_roles_default(opened):
    with pool.connection(opened) as conn:
        conn.execute("SET default_transaction_isolation = 'serializable'")
        with conn.transaction():
            level = conn.execute("SHOW transaction_isolation").fetchone()
        conn.execute("RESET default_transaction_isolation")
    assert level == ("read committed",)


def test_a_killed_connection_is_unavailable_once_and_replaced(opened, kill, admin):
    identity = helpers.execution(admin)
    with pool.connection(opened) as conn:
        kill(conn)
        with pytest.raises(StorageUnavailable):
            begin(conn, identity, 7)
    with pool.connection(opened) as conn:
        assert isinstance(begin(conn, identity, 7), Begun)


def test_a_pool_lends_two_connections_and_no_third(storage_dsn, admin):
    one = pool.open_pool(storage_dsn, 0.2)
    third = pytest.raises(StorageUnavailable)
    with pool.connection(one), pool.connection(one), third, pool.connection(one):
        raise AssertionError("There is a third.")
    one.close()


def test_a_closed_pool_is_unavailable(opened):
    opened.close()
    with pytest.raises(StorageUnavailable), pool.connection(opened):
        raise AssertionError("It is closed.")


def test_a_lock_that_is_never_granted_is_unavailable_in_time(conn, connect, admin):
    identity, holder = helpers.execution(admin), connect()
    conn.execute("SET lock_timeout = '50ms'")
    with holder.transaction():
        holder.execute("SELECT 1 FROM django_ray_execution FOR UPDATE")
        with pytest.raises(StorageUnavailable):
            begin(conn, identity, 7)
    assert isinstance(begin(conn, identity, 7), Begun)


def test_a_read_only_server_is_unavailable(conn, admin):
    identity = helpers.execution(admin)
    conn.execute("SET default_transaction_read_only = on")
    with pytest.raises(StorageUnavailable):
        begin(conn, identity, 7)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (errors.UniqueViolation, IntegrityFault),
        (errors.CheckViolation, IntegrityFault),
        (errors.NumericValueOutOfRange, IntegrityFault),
        (errors.CharacterNotInRepertoire, IntegrityFault),
        (errors.UndefinedTable, StorageUnavailable),
        (errors.UndefinedColumn, StorageUnavailable),
        (errors.InsufficientPrivilege, StorageUnavailable),
        (errors.DeadlockDetected, StorageUnavailable),
        (errors.SerializationFailure, StorageUnavailable),
        (errors.QueryCanceled, StorageUnavailable),
        (errors.LockNotAvailable, StorageUnavailable),
        (errors.DiskFull, StorageUnavailable),
        (errors.TooManyConnections, StorageUnavailable),
        (errors.AdminShutdown, StorageUnavailable),
        (errors.ReadOnlySqlTransaction, StorageUnavailable),
        (errors.IdleInTransactionSessionTimeout, StorageUnavailable),
        (errors.TransactionTimeout, StorageUnavailable),
        (errors.InFailedSqlTransaction, StorageUnavailable),
        (errors.DataCorrupted, StorageUnavailable),
        (errors.IndexCorrupted, StorageUnavailable),
        (psycopg.InterfaceError, StorageUnavailable),
    ],
)
def test_an_error_of_the_server_becomes_one_of_ours_without_its_text(error, meaning):
    @pool.translated
    def fail():
        raise error(SECRET)

    with pytest.raises(meaning) as caught:
        fail()
    assert_silent(caught.value)


@pytest.mark.parametrize(
    "error", [errors.SyntaxError, errors.UndefinedFunction, KeyError]
)
def test_a_bug_of_ours_passes_as_it_is(error):
    @pool.translated
    def fail():
        raise error("bug")

    with pytest.raises(error):
        fail()
