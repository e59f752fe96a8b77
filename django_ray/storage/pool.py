"""Connections of the processes that write progress without Django.

Where the database is comes from the process's own environment, never from a message, an
actor option or a runtime environment: contract 4.16. Every failure to reach it leaves
here as StorageUnavailable, without psycopg's error as cause or context: libpq's text names
host, user and at times the whole connection string, and PostgreSQL's details name values.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import psycopg_pool
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from django_ray.errors import (
    ConfigurationError,
    DjangoRayError,
    IntegrityFault,
    StorageUnavailable,
)
from django_ray.protocol.vocabulary import DetailAvailability

type Connection = psycopg.Connection[TupleRow]
type Pool = psycopg_pool.ConnectionPool[psycopg.Connection[TupleRow]]

WAIT_SECONDS = 5.0
"""How long one call may wait for a connection; the publisher tries again."""

SETTINGS: LiteralString = """
SELECT set_config(name, value, false)
FROM (VALUES
    ('statement_timeout', '30s'),
    ('lock_timeout', '10s'),
    ('idle_in_transaction_session_timeout', '15s'),
    ('plan_cache_mode', 'force_generic_plan'),
    ('enable_seqscan', 'off'),
    ('enable_hashjoin', 'off'),
    ('enable_mergejoin', 'off'),
    ('enable_memoize', 'off'),
    ('jit', 'off')
) AS setting (name, value)
"""

_CAUSES = (
    ("authentication failed", "the credentials are refused"),
    ("does not exist", "the database or role does not exist"),
    ("refused", "nothing listens there"),
    ("No such file", "nothing listens there"),
    ("too many", "no connection is free"),
    ("remaining connection slots", "no connection is free"),
    ("starting up", "the server is starting"),
    ("shutting down", "the server is stopping"),
    ("timeout", "the server did not answer in time"),
)


class WriterConnection(psycopg.Connection[TupleRow]):
    """A connection that fails without naming where it was going.

    The pool logs what its connections raise, so the text is replaced where it is born.
    """

    @classmethod
    def connect(cls, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Connect, or raise OperationalError with one of a few fixed texts."""
        try:
            return super().connect(*args, **kwargs)
        except psycopg.Error as exc:
            text = str(exc)
        cause = next((said for seen, said in _CAUSES if seen in text), "no connection")
        raise psycopg.OperationalError(cause)


def dsn() -> str:
    """Return the connection string of this process's node.

    From the file `DJANGO_RAY_DSN_FILE` names, then `DATABASE_URL`, then empty: libpq's own
    environment decides.
    """
    named = os.environ.get("DJANGO_RAY_DSN_FILE")
    if not named:
        return os.environ.get("DATABASE_URL", "")
    try:
        return Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError("DJANGO_RAY_DSN_FILE cannot be read.") from exc


def open_pool(conninfo: str, wait_s: float = WAIT_SECONDS) -> Pool:
    """Open a pool of at most two connections; it connects when first asked.

    Keepalives and the user time-out end a connection whose peer vanished without a word.
    """
    try:
        conninfo_to_dict(conninfo)
    except psycopg.Error:
        parsed = False
    else:
        parsed = True
    if not parsed:
        raise ConfigurationError("The connection string does not parse.")
    return psycopg_pool.ConnectionPool(
        conninfo,
        connection_class=WriterConnection,
        kwargs={
            "autocommit": True,
            "application_name": "django_ray",
            "connect_timeout": int(WAIT_SECONDS),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
            "prepare_threshold": 0,
        },
        configure=configure,
        min_size=0,
        max_size=2,
        num_workers=1,
        max_idle=60.0,
        timeout=wait_s,
        reconnect_timeout=wait_s,
        name="django_ray",
        open=True,
    )


def configure(conn: Connection) -> None:
    """Make a connection fit for the writer's statements: called once for each.

    A collector that is stopped or cut off inside a transaction must not keep the task row
    from its lifecycle, nor wait without end for a lock or a statement: the server ends
    what idles or waits too long, and the publication is tried again. The planner may only
    go by key, and remembers no row: a generic plan made while the tables are empty would
    read them whole for as long as it is cached, however large they have grown. READ
    COMMITTED is named because the writing statement needs a snapshot younger than its
    locks, whatever the role's default.
    """
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    conn.execute(SETTINGS, prepare=False)


@contextmanager
def connection(pool: Pool) -> Iterator[Connection]:
    """Lend a connection of the pool; raise StorageUnavailable when there is none."""
    conn = _lend(pool)
    try:
        yield conn
    finally:
        pool.putconn(conn)


def translated[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Let no psycopg error about the server or the data out of `function`.

    What is left is a bug of ours, and passes as it is.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except psycopg.Error as exc:
            fault = fault_of(exc)
            if fault is None:
                raise
        raise fault

    return call


def fault_of(exc: psycopg.Error) -> DjangoRayError | None:
    """Return what a psycopg error means to callers; None for a bug of ours."""
    code = exc.sqlstate or "no SQLSTATE"
    match exc:
        case psycopg.IntegrityError() | psycopg.DataError():
            constraint = exc.diag.constraint_name or "no constraint"
            return IntegrityFault(
                f"PostgreSQL refused the values: {constraint} ({code}).",
                DetailAvailability.CORRUPT,
            )
        case (
            errors.UndefinedTable()
            | errors.UndefinedColumn()
            | errors.InsufficientPrivilege()
        ):
            return StorageUnavailable(
                f"The database lacks django_ray's tables, or the rights ({code})."
            )
        # The server's own ends of a transaction are internal errors, as damage of its is.
        case (
            psycopg.OperationalError()
            | psycopg.InterfaceError()
            | psycopg.InternalError()
        ):
            return StorageUnavailable(f"PostgreSQL did not answer ({code}).")
        case _:
            return None


@translated
def _lend(pool: Pool) -> Connection:
    return pool.getconn()
