"""A Ray of one's own on this machine, as a process that outlives its drivers.

A Ray made by `ray.init()` dies with the process that made it, and runs must not. This one
is `ray start --head` in a session of its own: a terminal's Ctrl-C does not reach it, and
the end of that session's processes is its end. Ray binds to the machine's address, so
token authentication is on, with a token generated for each start. Architecture 5.11.
"""

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from django_ray.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 256 * 1024 * 1024
START_SECONDS = 180.0
ASK_SECONDS = 2.0
KILL_SECONDS = 10.0
STEP_SECONDS = 0.05

logger = logging.getLogger(__name__)

_FOREIGN = ("RAY_ADDRESS", "RAY_JOB_ID", "RAY_AUTH_TOKEN_PATH")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a started Ray answers, and what a driver must have in its environment."""

    ray: str
    dashboard: str
    credentials: Mapping[str, str]


class LocalRay:
    """One head node on free ports; `stop` leaves no process and no folder.

    Its processes see `environment` and nothing else of the caller, so database
    credentials are the node's own, as on a cluster. Contract 4.16. Temporary files of
    theirs lie in its folder, and go with it.
    """

    def __init__(
        self, *, num_cpus: int, environment: Mapping[str, str], dashboard: bool
    ) -> None:
        self._num_cpus = num_cpus
        self._dashboard = dashboard
        self._credentials = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        kept = {key: environment[key] for key in environment if key not in _FOREIGN}
        self._environment = {**kept, **self._credentials}
        self._folder: Path | None = None
        self._session: int | None = None

    def __enter__(self) -> Address:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Address:
        """Start the head and wait for it; ConfigurationError says that it cannot."""
        # Ray's sockets lie in it, and a socket's path is at most 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="dr-", dir=_short_folder()))
        # The dashboard's sockets lie where TMPDIR says, and nobody removes them.
        own = self._folder / "t"
        own.mkdir()
        client, dashboard = _free_ports(2)
        # Not with --block: it ends the whole node when any helper process of it fails.
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head"),
            *("--disable-usage-stats", "--port=0"),
            f"--node-ip-address={LOOPBACK}",
            f"--temp-dir={self._folder}",
            f"--num-cpus={self._num_cpus}",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
            f"--ray-client-server-port={client}",
            f"--dashboard-host={LOOPBACK}",
            f"--dashboard-port={dashboard}",
            f"--include-dashboard={str(self._dashboard).lower()}",
        ]
        try:
            self._launch(command, self._folder / "start.log", own)
        except BaseException:
            self.stop()
            raise
        return Address(
            ray=(self._folder / "ray_current_cluster").read_text().strip(),
            dashboard=f"http://{LOOPBACK}:{dashboard}",
            credentials=dict(self._credentials),
        )

    def _launch(self, command: list[str], log: Path, temporary: Path) -> None:
        with log.open("wb") as output:
            launcher = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self._environment, "TMPDIR": str(temporary)},
                start_new_session=True,
            )
        self._session = launcher.pid
        try:
            code = launcher.wait(START_SECONDS)
        except subprocess.TimeoutExpired as exc:
            launcher.kill()
            launcher.wait()
            raise _refused("The local Ray did not start in time.", log) from exc
        if code:
            raise _refused(f"The local Ray ended at its start ({code}).", log)

    def stop(self) -> None:
        """End every process of this Ray and remove its folder; a second call is nothing."""
        session, self._session = self._session, None
        if session is not None:
            # Some of Ray's processes do not end by a request: they get the chance to.
            _end_session(session, signal.SIGTERM, ASK_SECONDS)
            _end_session(session, signal.SIGKILL, KILL_SECONDS)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def node_environment(
    environment: Mapping[str, str], *, database_url: str, settings_module: str
) -> dict[str, str]:
    """Return what a local node needs beside `environment`: database, settings, path.

    A database given there already stays. The path makes importable in Ray's processes
    what is importable here.
    """
    path = os.pathsep.join([entry or str(Path.cwd()) for entry in sys.path])
    node = {**environment, "PYTHONPATH": path}
    node["DJANGO_SETTINGS_MODULE"] = settings_module
    if "DJANGO_RAY_DSN_FILE" not in node:
        node.setdefault("DATABASE_URL", database_url)
    return node


def _refused(message: str, log: Path) -> ConfigurationError:
    logger.error("%s Ray said: %s", message, log.read_text(errors="replace")[-2_000:])
    return ConfigurationError(message)


def _short_folder() -> str | None:
    return "/tmp" if os.access("/tmp", os.W_OK) else None


def _free_ports(number: int) -> list[int]:
    """Choose ports that are free now, below the range the kernel gives to clients."""
    found: list[int] = []
    while len(found) < number:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            found.append(port)
    return found


def _end_session(leader: int, number: signal.Signals, seconds: float) -> None:
    """Signal what is left in the session that `leader` made; nobody else is in it.

    The leader itself is gone, but no process gets its number while its session lives.
    """
    deadline = time.monotonic() + seconds
    signalled: set[int] = set()
    while members := {pid for pid in _processes() if _session(pid) == leader}:
        for pid in members - signalled:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        signalled |= members
        if time.monotonic() > deadline:
            return
        time.sleep(STEP_SECONDS)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid) if not _is_zombie(pid) else None
    except (ProcessLookupError, PermissionError):
        return None


def _is_zombie(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "Z"


def _processes() -> Iterator[int]:
    names = [entry.name for entry in Path("/proc").glob("[0-9]*")]
    if not names:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid="], capture_output=True, check=False
        )
        names = listed.stdout.decode().split()
    yield from map(int, names)
