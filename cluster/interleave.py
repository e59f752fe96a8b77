"""Plays a few actors over real connections, one statement at a time, in any order asked.

Each actor calls the product's own functions on a thread and a connection of its own. Before
a statement that touches our tables, and before an end of a transaction, its connection
waits until it is told to go on; so the order in which statements reach PostgreSQL is the
player's choice, and nothing else moves meanwhile. Whether a statement waits for another
actor's lock is asked of PostgreSQL itself; such an actor cannot be chosen until the lock is
its own, and has then moved without being chosen. BEGIN, SET and set_config go by: they
neither read nor lock.
"""

import queue
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import GeneratorType
from typing import LiteralString

import psycopg
from psycopg.rows import TupleRow

STUCK_S = 30.0
GLANCE_S = 0.003
"""How long a statement may take before PostgreSQL is asked whether it waits; twice as long
before it is asked again."""

BLOCKED: LiteralString = """
SELECT pid FROM unnest(%(pids)s::int4[]) AS actor (pid)
WHERE pg_blocking_pids(pid) && %(pids)s::int4[]
"""

OURS = "django_ray_"
TABLE = re.compile(rf"{OURS}(\w+)")
ENDS = {
    "_commit_gen": "COMMIT",
    "_exit_gen": "COMMIT",
    "_rollback_gen": "ROLLBACK",
}
"""How psycopg names the conversation that ends a transaction."""

type Connection = psycopg.Connection[TupleRow]
type Arrive = Callable[[str], None]
type Choose = Callable[[int, int], int]
"""Given the position and how many actors can move, the index of the one that does."""


class State(Enum):
    """Where an actor stands."""

    parked = "before a statement"
    moving = "in a statement, perhaps waiting for a lock"
    done = "at its end"


def step_through(conn: Connection, arrive: Arrive, *, ends: bool) -> None:
    """Let `arrive` be called with each statement of `conn` before it is sent.

    With `ends`, before the end of a transaction too; one that only read holds no lock that
    its end could give back.
    """
    send = conn.wait

    def wait(conversation, *args, **options):  # type: ignore[no-untyped-def]
        said = _statement(conversation)
        if OURS in said or (ends and said in ENDS.values()):
            arrive(said)
        return send(conversation, *args, **options)

    vars(conn)["wait"] = wait


def _statement(conversation: object) -> str:
    """Return what psycopg is about to say: an end, or the text of a query."""
    if not isinstance(conversation, GeneratorType) or conversation.gi_frame is None:
        return ""
    end = ENDS.get(conversation.__name__)
    if end is not None:
        return end
    query = conversation.gi_frame.f_locals.get("query", "")
    return query.decode() if isinstance(query, bytes) else str(query)


class Actor:
    """One thread with one connection, which plays its part again and again."""

    def __init__(
        self,
        name: str,
        connect: Callable[[Arrive], Connection],
        part: Callable[[], object],
    ) -> None:
        self.name = name
        self.state = State.done
        self.statement = ""
        self.outcome: object = None
        self.pid = 0
        self._connect = connect
        self._part = part
        self._go = threading.Semaphore(0)
        self._news: queue.Queue[Actor] = queue.Queue()
        self._leaving = False
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def start(self, news: "queue.Queue[Actor]") -> None:
        """Connect, from the actor's thread; tell all that happens by `news`."""
        self._news = news
        self._thread.start()
        self._go.release()
        news.get(timeout=STUCK_S)
        if isinstance(self.outcome, Exception):
            raise self.outcome

    def go(self) -> None:
        """Let the parked actor send its statement, or a done one begin its part."""
        self.state = State.moving
        self._go.release()

    def dismiss(self) -> None:
        """Let the actor run to the end of its part, if it is in one, and leave."""
        self._leaving = True
        # Once for the statement it may be parked at, once for its next part.
        self._go.release(2)

    def join(self) -> None:
        """Wait until the actor has left; its connection goes with it."""
        self._thread.join(STUCK_S)

    def _live(self) -> None:
        self._go.acquire()
        try:
            conn = self._connect(self._arrive)
        except Exception as exc:
            self._tell(State.done, exc)
            return
        self.pid = conn.info.backend_pid
        self._tell(State.done, None)
        self._go.acquire()
        while not self._leaving:
            try:
                outcome = self._part()
            except Exception as exc:
                # What a part raises is an outcome: the world judges it.
                outcome = exc
            self._tell(State.done, outcome)
            self._go.acquire()
        conn.close()

    def _arrive(self, statement: str) -> None:
        if self._leaving:
            return
        self.statement = statement
        self._tell(State.parked, None)
        self._go.acquire()

    def _tell(self, state: State, outcome: object) -> None:
        self.outcome = outcome
        self.state = state
        self._news.put(self)


@dataclass(slots=True)
class Play:
    """One interleaving: who moved, out of how many that could, and how all ended."""

    moves: list[str] = field(default_factory=list)
    choices: list[tuple[int, int]] = field(default_factory=list)
    outcomes: dict[str, object] = field(default_factory=dict)
    waits: int = 0


class Theatre:
    """Actors that are connected, and the connection that asks who waits."""

    def __init__(self, actors: Sequence[Actor], watch: Connection) -> None:
        self._watch = watch
        # Not a SimpleQueue: CPython's may wait for ever once its time is over as it wakes.
        self._news: queue.Queue[Actor] = queue.Queue()
        self.actors = {actor.name: actor for actor in actors}
        for actor in actors:
            actor.start(self._news)

    def close(self) -> None:
        """Let every actor leave."""
        for actor in self.actors.values():
            actor.dismiss()
        for actor in self.actors.values():
            actor.join()

    def play(self, names: Sequence[str], choose: Choose) -> Play:
        """Let the named actors play their parts in the order that `choose` makes."""
        cast = [self.actors[name] for name in names]
        play = Play()
        for actor in cast:
            actor.go()
            self._settle([actor])
        while any(actor.state is not State.done for actor in cast):
            ready = [actor for actor in cast if actor.state is State.parked]
            if not ready:
                raise AssertionError(f"All wait for each other after {play.moves}.")
            picked = choose(len(play.choices), len(ready))
            play.choices.append((picked, len(ready)))
            play.moves.append(_brief(ready[picked]))
            ready[picked].go()
            play.waits += self._settle(cast)
        play.outcomes = {actor.name: actor.outcome for actor in cast}
        return play

    def _settle(self, cast: Sequence[Actor]) -> int:
        """Wait until whoever moves waits for another's lock; return how many do."""
        until = time.monotonic() + STUCK_S
        patience = GLANCE_S
        while True:
            moving = [actor for actor in cast if actor.state is State.moving]
            if not moving or (
                not self._heard(patience)
                and self._all_wait(moving, [each.pid for each in cast])
            ):
                return len(moving)
            if time.monotonic() > until:
                raise AssertionError(f"{moving[0].name} is stuck.")
            patience = min(2 * patience, 30 * GLANCE_S)

    def _heard(self, patience: float) -> bool:
        try:
            self._news.get(timeout=patience)
        except queue.Empty:
            return False
        return True

    def _all_wait(self, moving: Sequence[Actor], pids: list[int]) -> bool:
        rows = self._watch.execute(BLOCKED, {"pids": pids}).fetchall()
        waiting = {pid for (pid,) in rows}
        # One that has moved on since is no longer in this state.
        return all(
            actor.pid in waiting and actor.state is State.moving for actor in moving
        )


def _brief(actor: Actor) -> str:
    verb = actor.statement.split()[0]
    table = TABLE.search(actor.statement)
    return f"{actor.name} {verb} {table[1] if table else ''}".rstrip()


def every(play: Callable[[Choose], Play]) -> Iterator[Play]:
    """Play all interleavings there are, each once, in lexical order of their choices."""
    path: list[tuple[int, int]] = []
    while True:
        fixed = path

        def choose(position: int, ready: int, fixed=fixed) -> int:  # type: ignore[no-untyped-def]
            if position >= len(fixed):
                return 0
            picked, number = fixed[position]
            if number != ready:
                raise AssertionError(f"Choice {position} is not what it was before.")
            return int(picked)

        played = play(choose)
        yield played
        path = played.choices
        while path and path[-1][0] + 1 == path[-1][1]:
            path = path[:-1]
        if not path:
            return
        picked, number = path[-1]
        path = [*path[:-1], (picked + 1, number)]


def seeded(seed: int) -> Choose:
    """Return choices by a seed."""
    chance = random.Random(seed)
    return lambda _position, ready: chance.randrange(ready)
