"""Clocks, processor time of process trees, and the database's own counters."""

import time
from collections.abc import Callable, Iterable
from typing import LiteralString

import psutil
import psycopg

HOT = """
SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s
"""

WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"


def seconds(action: Callable[[], object]) -> float:
    """Return how long `action` took on the wall clock."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def processor_seconds() -> float:
    """Return user and system time used so far by all processes of the machine.

    Ray's and PostgreSQL's leave their parents, and some end within a measurement: only the
    machine's own account has them all.
    """
    times = psutil.cpu_times()
    return float(times.user + times.system)


def hot_share(
    writers: Iterable[psycopg.Connection[tuple[object, ...]]], table: str
) -> tuple[int, int]:
    """Return how many rows of a table were updated so far, and how many of them HOT.

    Each backend tells its counters about once a second, so every writer is asked to first.
    """
    row: tuple[object, ...] = ()
    for writer in writers:
        writer.execute("SELECT pg_stat_force_next_flush()")
    for writer in writers:
        row = _row(writer, HOT, (table,))
    return int(str(row[0])), int(str(row[1]))


def wal_bytes(connection: psycopg.Connection[tuple[object, ...]]) -> float:
    """Return the write-ahead log's position in bytes."""
    return float(str(_row(connection, WAL, ())[0]))


def _row(
    connection: psycopg.Connection[tuple[object, ...]],
    statement: LiteralString,
    parameters: tuple[object, ...],
) -> tuple[object, ...]:
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row
