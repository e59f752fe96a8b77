"""Who takes part in a race, each on a connection of its own, and one race after another."""

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import LiteralString

import psycopg
from django.db import connection

from cluster.interleave import (
    Actor,
    Arrive,
    Choose,
    Connection,
    Play,
    Theatre,
    every,
    seeded,
    step_through,
)
from cluster.races import World
from cluster.verdict import Judge, look
from django_ray.maintenance import removal
from django_ray.storage import pool

STALE = ("stale", "foreign")
"""Writers whose epoch, and whose run, is not current any more."""

COLLECTOR = ("new", "promoter", "stager", "grower")
"""What the newest collector may be doing: a small publication, one with a topology that is
staged, the staging of one, both. It does one thing at a time."""

WRITERS = ("new", "grower", "heir")
"""Who publishes; the last is a collector that was restarted."""

ALONE = (*STALE, *COLLECTOR[:3], "heir", "lifecycle", "cleanup", "reader")
"""Whose statements are few enough for all orders of two. `sweep`, a whole pass of cleanup,
and `grower` meet the others by seeds."""

FEW = ("stale", "new", "lifecycle", "cleanup", "reader")
"""Whose are few enough for all orders of three."""

PATIENT: LiteralString = """
SELECT set_config(name, value, false)
FROM (VALUES
    ('synchronous_commit', 'off'),
    ('lock_timeout', '0'),
    ('statement_timeout', '0'),
    ('idle_in_transaction_session_timeout', '0')
) AS setting (name, value)
"""
"""Nothing here survives a crash, and an actor waits as long as the player lets it."""

UNHURRIED: LiteralString = """
SELECT set_config('lock_timeout', '0', true),
    set_config('statement_timeout', '0', true),
    set_config('enable_seqscan', 'off', true)
"""
"""What cleanup sets for a transaction of its own, without its patience."""

TIDY = 1_000
"""After so many races, what they left dead in the tables is vacuumed away."""


class Race:
    """Everybody, connected to one database, and what became of all races so far."""

    def __init__(self, url: str) -> None:
        removal.BOUNDS = UNHURRIED
        self._admin = _connected(url)
        self._watch = _connected(url)
        self.world = World(self._admin)
        self.judge = Judge(self.world)
        self._theatre = Theatre(actors(self.world, url), self._watch)
        self.answers: dict[tuple[str, ...], Counter[str]] = {}
        self.races = self.waits = 0

    def close(self) -> None:
        """Let everybody leave, and the execution go."""
        self._theatre.close()
        self.world.remove()
        self._admin.close()
        self._watch.close()

    def every(self, names: Sequence[str]) -> int:
        """Play and judge every interleaving of these actors; return how many there are."""
        return sum(1 for _ in every(lambda choose: self.play(names, choose)))

    def seeds(self, seeds: range) -> int:
        """Play five actors by each seed, which chooses among the kinds of writer too."""
        for seed in seeds:
            stale = STALE[seed % len(STALE)]
            writer = WRITERS[seed % len(WRITERS)]
            cleaner = ("cleanup", "sweep")[seed // 2 % 2]
            self.play((stale, writer, "lifecycle", cleaner, "reader"), seeded(seed))
        return len(seeds)

    def play(self, names: Sequence[str], choose: Choose) -> Play:
        """Play one interleaving from the beginning, and judge it."""
        self.world.restore()
        play = self._theatre.play(names, choose)
        try:
            self.judge.judge(play.outcomes)
        except AssertionError as exc:
            line = traceback.extract_tb(exc.__traceback__)[-1].line
            order = "; ".join(play.moves)
            raise AssertionError(f"{line} {exc} after {order}") from exc
        self._count(names, play)
        return play

    def _count(self, names: Sequence[str], play: Play) -> None:
        answers = self.answers.setdefault(tuple(names), Counter())
        answers.update(
            f"{name} {answer if isinstance(answer, str) else type(answer).__name__}"
            for name, answer in play.outcomes.items()
        )
        self.waits += play.waits
        self.races += 1
        if not self.races % TIDY:
            for table in self.world.tables:
                self._admin.execute(f"VACUUM {table}".encode())


def actors(world: World, url: str) -> list[Actor]:
    """Return everybody, not yet connected."""
    return [
        _writer("stale", url, world.write_stale),
        _writer("foreign", url, world.write_foreign),
        _writer("new", url, world.write_new),
        _writer("promoter", url, world.promote),
        _writer("stager", url, world.stage),
        _writer("grower", url, world.grow),
        _writer("heir", url, world.take_over),
        _django("lifecycle", world.time_out, ends=True),
        _django("cleanup", world.clean_up, ends=True),
        _django("sweep", world.sweep, ends=True),
        _django("reader", lambda: look(world), ends=False),
    ]


def pairs() -> list[tuple[str, ...]]:
    """Return every two that can meet."""
    return [pair for pair in combinations(ALONE, 2) if not set(pair) <= {*COLLECTOR}]


def triples() -> list[tuple[str, ...]]:
    """Return every three with a writer."""
    return [three for three in combinations(FEW, 3) if {*three} & {"stale", "new"}]


def _writer(name: str, url: str, part: Callable[[Connection], object]) -> Actor:
    held: list[Connection] = []

    def connect(arrive: Arrive) -> Connection:
        conn = _connected(url)
        step_through(conn, arrive, ends=True)
        held.append(conn)
        return conn

    return Actor(name, connect, lambda: part(held[0]))


def _connected(url: str) -> Connection:
    conn = psycopg.connect(url, autocommit=True, prepare_threshold=0)
    pool.configure(conn)
    conn.execute(PATIENT)
    return conn


def _django(name: str, part: Callable[[], object], *, ends: bool) -> Actor:
    def connect(arrive: Arrive) -> Connection:
        connection.ensure_connection()
        conn: Connection = connection.connection
        with connection.cursor() as cursor:
            cursor.execute(PATIENT)
        step_through(conn, arrive, ends=ends)
        return conn

    return Actor(name, connect, part)
