"""The participants of a compiled session: where they run, and the proof of their end.

Ray calls an actor dead when it has decided to end it: a process that does not answer is
killed by its raylet five seconds later. On the owner's own node the process itself is the
proof; of another node's there is Ray's word.
"""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import ray
from ray.actor import exit_actor
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError

from actors import internals
from actors.internals import Actor

KILL_S = 8.0
"""How long the participants' end, and that of a teardown it frees, is waited for."""

AGAIN_S = 0.02
LEAVE_S = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a participant runs: its node's id, and its process id there."""

    node_id: str
    pid: int


def places(actors: Sequence[Actor], timeout_s: float) -> tuple[Place, ...]:
    """Return where each actor runs; raise what Ray raises of one that does not answer."""
    asked = [internals.call(actor, _place) for actor in actors]
    found = ray.get(asked, timeout=timeout_s)
    return tuple(place for place in found if isinstance(place, Place))


def answer(actors: Sequence[Actor], timeout_s: float) -> None:
    """Ask each actor for a sign of life; raise what Ray raises of one without."""
    ray.get([internals.call(actor, _nothing) for actor in actors], timeout=timeout_s)


def ask_to_leave(actors: Sequence[Actor]) -> None:
    """Have each actor end by itself: only so it takes its channels' semaphores along."""
    left = [internals.call(actor, _leave) for actor in actors]
    ray.wait(left, num_returns=len(left), timeout=LEAVE_S)


def kill(actors: Sequence[Actor]) -> None:
    """End each actor at once."""
    for actor in actors:
        ray.kill(actor, no_restart=True)


def are_gone(actors: Sequence[Actor], at: Sequence[Place], until_s: float) -> bool:
    """Claim that each actor is known to be dead; one whose death is not known yet waits.

    `at` is where those of them run whose processes are waited for, if they are of this node;
    `until_s` is the monotonic time until which it is waited.
    """
    here = ray.get_runtime_context().get_node_id()
    pids = [place.pid for place in at if place.node_id == here]
    return all(_is_dead(actor, until_s) for actor in actors) and all(
        _is_gone(pid, until_s) for pid in pids
    )


def is_death(ended: "ray.ObjectRef[object]") -> bool:
    """Claim that a call has ended because its actor died."""
    try:
        ray.get(ended)
    except RayActorError:
        return True
    except RayError:
        return False
    return False


def _is_dead(actor: Actor, until_s: float) -> bool:
    while (left := until_s - time.monotonic()) > 0:
        try:
            ray.get(internals.call(actor, _nothing), timeout=left)
        except ActorDiedError:
            return True
        except (RayError, GetTimeoutError):
            # First it is only away: its process has ended, and its death is not told yet.
            logger.debug("A participant is away.", exc_info=True)
        time.sleep(AGAIN_S)
    return False


def _is_gone(pid: int, until_s: float) -> bool:
    while time.monotonic() < until_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            # The id is another user's process by now.
            return True
        time.sleep(AGAIN_S)
    return False


def _place(_actor: object) -> Place:
    return Place(ray.get_runtime_context().get_node_id(), os.getpid())


def _nothing(_actor: object) -> None:
    """Answer, and with that tell that there is somebody."""


def _leave(_actor: object) -> None:
    exit_actor()  # type: ignore[no-untyped-call]
