"""A web server of the app, and browsers that poll it, each in a process of its own.

The server is Django's threaded one over a pool of connections. A browser here keeps its
connection, asks at the pace of the page's script with the ETag it has, and renders nothing.
"""

import asyncio
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

CONNECTIONS = 8
SOON_S, LATEST_S, SLOWER = 1.0, 15.0, 1.4
"""The pace of the page's script: soon while a run changes, then less and less often."""

HOST = "127.0.0.1"
NOT_MODIFIED = 304
CUT_SHORT = 0
"""The status of an answer that did not come."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What became of all requests of some seconds: how often each status, and how long."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """Return how many answers were neither a body nor that nothing has changed."""
        return sum(
            number
            for status, number in self.statuses.items()
            if status not in (200, NOT_MODIFIED)
        )

    @property
    def unchanged(self) -> float:
        """Return which share of the answers said that nothing has changed."""
        return self.statuses[NOT_MODIFIED] / max(self.statuses.total(), 1)


class Service:
    """The server's and the browsers' processes, as the scenario holds them."""

    def __init__(self, path: str, cookies: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        served, theirs = context.Pipe()
        server = context.Process(target=serve, args=(theirs,), daemon=True)
        server.start()
        self.browsers, browsing = context.Pipe()
        browsers = context.Process(
            target=browse, args=(served.recv(), path, cookies, browsing), daemon=True
        )
        browsers.start()
        self._processes: list[BaseProcess] = [server, browsers]

    def begin(self, seconds: float) -> None:
        """Have every browser poll for so long."""
        self.browsers.send(seconds)

    def polled(self) -> Polled:
        """Wait for what became of it."""
        found: Polled = self.browsers.recv()
        return found

    def close(self) -> None:
        """End both processes."""
        for process in self._processes:
            process.kill()
            process.join()


def serve(ready: Connection) -> None:
    """Tell the port, then serve the app until the process is ended."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "cluster.settings"
    import django
    from django.db import connections

    connections.settings["default"]["OPTIONS"]["pool"] = {
        "min_size": CONNECTIONS,
        "max_size": CONNECTIONS,
    }
    django.setup()
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
    from django.core.wsgi import get_wsgi_application

    class Silent(WSGIRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    ThreadedWSGIServer.request_queue_size = 256
    server = ThreadedWSGIServer((HOST, 0), Silent)
    server.daemon_threads = True
    server.set_app(get_wsgi_application())
    ready.send(server.server_port)
    server.serve_forever()


def browse(port: int, path: str, cookies: Sequence[str], asked: Connection) -> None:
    """Poll for the seconds that are asked for, and tell of them, again and again."""
    browsers = [Browser(port, path, cookie) for cookie in cookies]
    while True:
        asked.send(asyncio.run(_all(browsers, asked.recv())))


async def _all(browsers: Sequence["Browser"], seconds: float) -> Polled:
    polled = Polled()
    until = time.perf_counter() + seconds
    await asyncio.gather(*(browser.poll(until, polled) for browser in browsers))
    return polled


class Browser:
    """One user's page: what it knows, and how soon it asks again."""

    def __init__(self, port: int, path: str, cookie: str) -> None:
        self._port = port
        self._head = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nCookie: {cookie}\r\n"
        self._etag = ""
        self._pause_s = SOON_S

    async def poll(self, until: float, polled: Polled) -> None:
        """Ask again and again until then; a connection that is lost is made anew."""
        # The pages were opened at some moment each, not all at once.
        await asyncio.sleep(random.random() * SOON_S)
        while time.perf_counter() < until:
            try:
                reader, writer = await asyncio.open_connection(HOST, self._port)
                with closing(writer):
                    while time.perf_counter() < until:
                        await self._ask(reader, writer, polled)
                        await asyncio.sleep(self._pause_s * random.uniform(0.9, 1.1))
            except (OSError, EOFError):
                polled.statuses[CUT_SHORT] += 1

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, polled: Polled
    ) -> None:
        start = time.perf_counter()
        writer.write(f"{self._head}If-None-Match: {self._etag}\r\n\r\n".encode())
        status, self._etag = await _answer(reader)
        polled.seconds.append(time.perf_counter() - start)
        polled.statuses[status] += 1
        slower = min(self._pause_s * SLOWER, LATEST_S)
        self._pause_s = slower if status == NOT_MODIFIED else SOON_S


async def _answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    told = dict(line.split(": ", 1) for line in head[1:] if line)
    await reader.readexactly(int(told.get("Content-Length", 0)))
    return int(head[0].split()[1]), told.get("ETag", "")
