"""The tests' own database in place of a harness's, for a small run of a scenario."""

from contextlib import ExitStack

import psycopg
from psycopg.rows import TupleRow

from django_ray.storage import pool
from tests.storage import helpers


class Here:
    """What a scenario asks of its harness; the database is the test's."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.url = helpers.dsn()

    def connect(self) -> psycopg.Connection[TupleRow]:
        conn = self._stack.enter_context(psycopg.connect(self.url, autocommit=True))
        pool.configure(conn)
        return conn
