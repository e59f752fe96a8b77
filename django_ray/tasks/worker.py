"""Claims and adopts executions, watches their hosts, and has their ends recorded.

The loop holds no truth of its own: what it watches is under a lease in PostgreSQL, and a
host keeps its outcome until the row has it. So a step that PostgreSQL interrupted is done
again by the next one. Architecture 2, contract 4.14.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from django.db import connection
from django.db.utils import Error

from actors.names import Ended, HostOutcome, Lost, Running
from django_ray.away import is_away
from django_ray.identity import RunIdentity
from django_ray.protocol.redaction import Redactor
from django_ray.tasks import interruption, transitions
from django_ray.tasks.interruption import Watched
from django_ray.tasks.recording import Recorder
from django_ray.tasks.transitions import Held, Orphan
from django_ray.tasks.watch import Fleet, Host

START_PAUSE = timedelta(seconds=5)
"""How long nothing is claimed after a host did not start: the rest of a queue waits for
the cluster instead of failing with it."""

ANSWER_S = 0.5
"""How long a step waits for one host."""

LOOK_PAUSE = timedelta(seconds=2)
"""How often a worker looks for work that nobody told it of."""

ADOPT_PAUSE = timedelta(seconds=2)
"""How often at most a worker looks for runs that nobody watches."""

ASK_PAUSE = timedelta(seconds=1)
"""How often a worker looks whether a run of its own is to be ended."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What one worker serves, and how."""

    owner: str
    cluster: str
    backends: Collection[str]
    queues: Collection[str]
    concurrency: int
    lease: timedelta
    redact: tuple[str, ...]


class Worker:
    """One worker process; `step` is what its loop does."""

    def __init__(
        self, terms: Terms, fleet: Fleet, clock: Callable[[], datetime]
    ) -> None:
        self._terms = terms
        self._fleet = fleet
        self._clock = clock
        self._recorder = Recorder(fleet, Redactor(terms.redact), clock)
        self._watched: dict[int, Watched] = {}
        self._is_unsure = True
        self._seen = self._look_at = clock()
        self._due_now(self._seen)

    @property
    def is_idle(self) -> bool:
        """Claim that no run is being watched."""
        return not self._watched

    def run(
        self,
        stopping: Callable[[], bool],
        wait: Callable[[float], bool],
        *,
        poll_s: float,
        idle_s: float,
    ) -> None:
        """Work until it is `stopping`, then until what is under way has ended.

        It looks for work when something has moved, when `wait` says that there may be
        some, and else every two seconds.
        """
        while not (stopping() and self.is_idle):
            now = self._tick()
            is_looking = not stopping() and now >= self._look_at
            if is_looking:
                self._look_at = now + LOOK_PAUSE
            moved = self.step(claiming=is_looking)
            if moved or wait(idle_s if self.is_idle else poll_s):
                self._look_at = now

    def step(self, *, claiming: bool) -> bool:
        """Renew, record, claim; say whether anything moved.

        PostgreSQL being away is not an end: what is watched stays watched.
        """
        try:
            return self._advance(claiming)
        except Error as exc:
            if not is_away(exc):
                raise
            if not self._is_unsure:
                logger.warning("PostgreSQL is away (%s); trying again.", type(exc))
            self._is_unsure = True
            connection.close()
            return False

    def _advance(self, claiming: bool) -> bool:
        now = self._tick()
        if self._is_unsure and now >= self._paused_until:
            self._recover()
        self._keep_leases()
        moved = self._collect()
        # After it: an outcome that had come before an interruption is the run's.
        self._interrupt(now)
        if claiming and now >= self._paused_until:
            moved = self._adopt(now) or self._claim() or moved
        return moved

    def _tick(self) -> datetime:
        """Return the time; where the clock was set back, no pause lasts until it is there."""
        now = self._clock()
        if now < self._seen:
            self._due_now(now)
        self._seen = now
        return now

    def _due_now(self, now: datetime) -> None:
        self._look_at = self._renew_at = self._paused_until = now
        self._adopt_at = self._ask_at = now

    def _recover(self) -> None:
        """Go on with what a claim or an adoption took whose answer was lost."""
        orphans = transitions.unwatched(self._terms.owner, self._watched)
        self._is_unsure = False
        for orphan in orphans:
            self._resume(orphan)

    def _keep_leases(self) -> None:
        """Renew what is watched, if it is time; a lease is three pauses long."""
        now = self._tick()
        if now >= self._renew_at:
            self._renew()
            self._renew_at = now + self._terms.lease / 3

    def _renew(self) -> None:
        for pk, watched in list(self._watched.items()):
            if not transitions.renew(watched.held, self._terms.lease):
                logger.warning("The lease of execution %s is another's now.", pk)
                del self._watched[pk]

    def _adopt(self, now: datetime) -> bool:
        """Take over one run that nobody watches; look for one now and then."""
        if now < self._adopt_at or self._is_full:
            return False
        orphan = transitions.adopt(
            owner=self._terms.owner,
            cluster=self._terms.cluster,
            backends=self._terms.backends,
            queues=self._terms.queues,
            lease=self._terms.lease,
            watched=self._watched,
        )
        if orphan is None:
            self._adopt_at = now + max(self._terms.lease / 3, ADOPT_PAUSE)
            return False
        logger.warning("Adopted execution %s.", orphan.held.identity.task_execution_pk)
        self._resume(orphan)
        return True

    def _resume(self, orphan: Orphan) -> None:
        """Watch a run whose host is there; start one that has not begun; else it is lost.

        An outer task begins its row at most once, so a start too many changes nothing.
        """
        try:
            host = self._fleet.find(orphan.held.identity)
        except Exception:
            # Nobody can tell: the lease stays this worker's, and it asks again.
            logger.warning("A run's host could not be looked for.", exc_info=True)
            self._paused_until = self._clock() + START_PAUSE
            self._is_unsure = True
            return
        if host is not None:
            self._watch(orphan.held, host)
        elif orphan.has_begun:
            self._recorder.lost(orphan.held, "host_gone")
        else:
            self._start(orphan.held)

    @property
    def _is_full(self) -> bool:
        return len(self._watched) >= self._terms.concurrency

    def _claim(self) -> bool:
        if self._is_full:
            return False
        held = transitions.claim(
            owner=self._terms.owner,
            cluster=self._terms.cluster,
            backends=self._terms.backends,
            queues=self._terms.queues,
            lease=self._terms.lease,
            now=self._clock(),
        )
        if held is not None:
            self._start(held)
        return held is not None

    def _start(self, held: Held) -> None:
        try:
            host = self._fleet.start(held.identity)
        except Exception as exc:
            # Whatever the cluster raises is this one execution's end, not the worker's.
            logger.exception("A host could not be started.")
            self._paused_until = self._clock() + START_PAUSE
            self._recorder.not_started(held, exc)
        else:
            self._watch(held, host)

    def _watch(self, held: Held, host: Host) -> None:
        self._watched[held.identity.task_execution_pk] = Watched(held, host)

    def _collect(self) -> bool:
        """Have recorded what has ended, or must have ended by now."""
        moved = False
        for pk, watched in list(self._watched.items()):
            # Hosts that do not answer may take longer than a lease, all together.
            self._keep_leases()
            if pk not in self._watched:
                continue
            said = watched.host.outcome(ANSWER_S)
            must_end = watched.press(self._clock())
            if isinstance(said, Running) and not must_end:
                continue
            self._record(watched, said)
            del self._watched[pk]
            moved = True
        return moved

    def _record(self, watched: Watched, said: HostOutcome) -> None:
        held, ending = watched.held, watched.interruption
        if ending is not None:
            envelope = said.envelope if isinstance(said, Ended) else None
            self._recorder.interrupted(held, ending.why, envelope)
        elif isinstance(said, Ended):
            self._recorder.ended(held, said.envelope)
        elif isinstance(said, Lost):
            self._recorder.lost(held, said.reason)

    def _interrupt(self, now: datetime) -> None:
        """Interrupt the runs that are asked to end; look for them now and then."""
        if now < self._ask_at or not self._watched:
            return
        self._ask_at = now + ASK_PAUSE
        for pk, why in interruption.decide(self._watched).items():
            self._watched[pk].interrupt(why, now)


def payload_of(identity: RunIdentity) -> bytes:
    """Encode what the outer task is told: whose it is; the rest is in the row."""
    return msgspec.msgpack.encode(identity)
