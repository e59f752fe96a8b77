"""How others speak of a run's detached actors: their names, and what its host answers.

Without Ray, so that whoever only compares names does not load it.
"""

from dataclasses import dataclass
from typing import Literal

from django_ray.identity import RunIdentity

Kind = Literal["collector", "host"]
KINDS: tuple[Kind, ...] = ("collector", "host")


@dataclass(frozen=True, slots=True)
class ActorName:
    """What a detached actor is, and of which run under which generation. Contract 4.7."""

    kind: Kind
    run_id: str
    generation: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.run_id}:{self.generation}"


def short(run_id: str) -> str:
    """Return as much of a run's id as a dashboard or the prefix of a log line shows."""
    return run_id[:8]


def of_run(identity: RunIdentity) -> tuple[ActorName, ...]:
    """Return the names of all the actors a run may have."""
    return tuple(
        ActorName(kind, identity.run_id, identity.execution_generation)
        for kind in KINDS
    )


def parse(name: str) -> ActorName | None:
    """Return the parts of an actor's name, None of a name that is not ours."""
    kind, _, rest = name.partition(":")
    run_id, _, generation = rest.partition(":")
    for known in KINDS:
        if kind == known and run_id and generation.isdecimal():
            return ActorName(known, run_id, int(generation))
    return None


@dataclass(frozen=True, slots=True)
class Running:
    """The outer task has not ended, as far as its host has answered."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The outer task has ended; `envelope` is its outcome."""

    envelope: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No outcome will come; `reason` is the class of Ray's error."""

    reason: str


HostOutcome = Running | Ended | Lost
