"""A proxy before PostgreSQL that loses the answers of some commits.

It passes bytes on as they are and reads just enough of the protocol to see a COMMIT of its
client. For one that is chosen it waits until the server has answered that it is done, keeps
that answer to itself, and cuts the connection: what the client's network would have done.
"""

import select
import socket
import threading
from collections.abc import Callable, Iterator

from psycopg.conninfo import conninfo_to_dict, make_conninfo

CHUNK = 65_536
LOOK_S = 0.2
"""How often a relay looks whether the proxy is to end."""


class Messages:
    """Cuts one direction of a connection into its messages: type and body."""

    def __init__(self, *, begins_untyped: bool) -> None:
        self._held = bytearray()
        self._untyped = begins_untyped

    def read(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Take bytes as they come; yield every message that they complete."""
        held = self._held
        held += data
        while True:
            lead = 0 if self._untyped else 1
            if len(held) < lead + 4:
                return
            end = lead + int.from_bytes(held[lead : lead + 4])
            if len(held) < end:
                return
            kind, body = bytes(held[:lead]), bytes(held[lead + 4 : end])
            del held[:end]
            self._untyped = False
            yield kind, body


class Link:
    """One connection's view of its commits; `lose` is asked at each."""

    def __init__(self, lose: Callable[[], bool]) -> None:
        self._lose = lose
        self._asked = Messages(begins_untyped=True)
        self._answered = Messages(begins_untyped=False)
        self._losing = False
        self._done = False
        self._held = bytearray()
        self.commits = 0

    def ask(self, data: bytes) -> None:
        """Take what the client sent."""
        for kind, body in self._asked.read(data):
            if kind == b"Q" and body.startswith(b"COMMIT"):
                self._losing = self._lose()

    def answer(self, data: bytes) -> bytes | None:
        """Take what the server sent; return what may pass, None to cut the connection."""
        self._held += data
        for kind, body in self._answered.read(data):
            if kind == b"C" and body.startswith(b"COMMIT"):
                self._done = True
                self.commits += 1
            elif kind == b"Z":
                if self._done and self._losing:
                    return None
                self._done = self._losing = False
        if self._losing:
            return b""
        passed, self._held = bytes(self._held), bytearray()
        return passed


class Proxy:
    """Listens on a port of its own; `lose` is asked at every COMMIT.

    `commits` counts those that were done over connections that have ended, `lost` those of
    them whose answer was kept back.
    """

    def __init__(self, dsn: str, lose: Callable[[], bool]) -> None:
        self._server = conninfo_to_dict(dsn)
        self._lose = lose
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(LOOK_S)
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.commits = 0
        self.lost = 0
        self.dsn = make_conninfo(
            dsn,
            host="127.0.0.1",
            port=self._listener.getsockname()[1],
            sslmode="disable",
            gssencmode="disable",
        )

        self._start(self._accept)

    def close(self) -> None:
        """Cut what is open, and wait for it."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            self._start(self._relay, client)

    def _connect(self) -> socket.socket:
        host = str(self._server.get("host") or "127.0.0.1")
        port = int(self._server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _relay(self, client: socket.socket) -> None:
        link = Link(self._lose)
        with client, self._connect() as server:
            while not self._ending.is_set():
                ready, _, _ = select.select([client, server], [], [], LOOK_S)
                if not all(self._pass(link, each, client, server) for each in ready):
                    break
        with self._lock:
            self.commits += link.commits

    def _pass(
        self,
        link: Link,
        source: socket.socket,
        client: socket.socket,
        server: socket.socket,
    ) -> bool:
        """Pass on what `source` has sent; False when the connection is to be cut."""
        try:
            data = source.recv(CHUNK)
            if source is client:
                link.ask(data)
                server.sendall(data)
                return bool(data)
            passed = link.answer(data)
            if passed is None:
                with self._lock:
                    self.lost += 1
                return False
            client.sendall(passed)
        except ConnectionError:
            return False
        return bool(data)
