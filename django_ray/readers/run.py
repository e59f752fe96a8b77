"""The run an answer is about: authorized, chosen by attempt, and read in one snapshot.

What an answer holds is of one publication, and begins with a `RunPart` that names it. Where
there is no detail to answer from, the answer is `Unavailable` and says why: another type,
so that no intentional, expired or damaged absence looks like an empty graph. ADR-0004.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from django_ray.errors import IntegrityFault
from django_ray.identity import MAXIMUM_63, RunIdentity
from django_ray.protocol.summary import Detail, Part, Summary
from django_ray.protocol.vocabulary import RETAINED, DetailAvailability
from django_ray.readers import archive, context, summary
from django_ray.readers.access import Viewer, key_of
from django_ray.readers.context import Selected
from django_ray.readers.picture import Execution, Reading

Positive = Annotated[int, Meta(ge=1, le=MAXIMUM_63)]
Count = Annotated[int, Meta(ge=0, le=MAXIMUM_63)]


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every question about a run may name: an attempt, else it is the current one."""

    attempt: Positive | None = None


class RunPart(Part, frozen=True, kw_only=True):
    """The run an answer is about, and the publication it shows.

    Under an EXPIRED cursor: the run and the publication that the cursor was made from.
    """

    attempt: int
    detail: Detail
    detail_revision: int | None
    execution: uuid.UUID
    revision: int | None
    run_id: uuid.UUID | None
    topology_version: int | None


class Unavailable(Part, frozen=True):
    """There is no detail to answer from; `run.detail.availability` says why."""

    run: RunPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Detailed:
    """A run whose detail can be read: its summary, and where it leads."""

    part: RunPart
    summary: Summary
    selected: Selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One run in one snapshot, after its execution proved to be the viewer's to see."""

    viewer: str
    execution: Execution
    part: RunPart
    detailed: Detailed | None

    @property
    def identity(self) -> RunIdentity | None:
        """The run's four fields; None before the first claim."""
        return identity_of(self.execution)


def answer[T](
    public_id: uuid.UUID,
    viewer: Viewer,
    query: Query,
    read: Callable[[Chosen], T | Unavailable],
) -> T | Unavailable | None:
    """Return what `read` makes of the run; None where nothing is there, or not his.

    Opens the snapshot. MISSING and CORRUPT become `Unavailable`: no older revision is
    fallen back to.
    """
    with context.snapshot():
        reading = summary.authorized(public_id, viewer)
        if reading is not None and query.attempt is not None:
            reading = archive.find(reading, query.attempt)
        if reading is None:
            return None
        try:
            return read(choose(reading, viewer))
        except IntegrityFault as fault:
            return Unavailable(part_of(reading, fault.availability))


def of_detail[T](
    public_id: uuid.UUID,
    viewer: Viewer,
    query: Query,
    read: Callable[[Detailed], T],
) -> T | Unavailable | None:
    """Return what `read` makes of the run's detail, or why there is none."""

    def readable(chosen: Chosen) -> T | Unavailable:
        detailed = chosen.detailed
        return Unavailable(chosen.part) if detailed is None else read(detailed)

    return answer(public_id, viewer, query, readable)


def part_of(reading: Reading, availability: str) -> RunPart:
    """Return the head of an answer whose detail turned out to be so."""
    execution, said = reading.execution, reading.summary
    detail = Detail(
        availability=DetailAvailability(availability), complete=False, reasons=()
    )
    if said is not None and said.detail.availability == availability:
        detail = said.detail
    return RunPart(
        attempt=execution.attempt_number,
        detail=detail,
        detail_revision=said.detail_revision if said else None,
        execution=execution.public_id,
        revision=said.revision if said else None,
        run_id=execution.run_id,
        topology_version=said.topology_version if said else None,
    )


def identity_of(execution: Execution) -> RunIdentity | None:
    """Return the four fields of the run an execution is at; None before its claim."""
    if execution.run_id is None:
        return None
    return RunIdentity(
        task_execution_pk=execution.pk,
        attempt_number=execution.attempt_number,
        execution_generation=execution.execution_generation,
        run_id=str(execution.run_id),
    )


def choose(reading: Reading, viewer: Viewer) -> Chosen:
    """Return the run of an authorized reading; raise IntegrityFault, see `answer`."""
    availability: str = reading.availability
    said, detailed = reading.summary, None
    if said is not None and availability in RETAINED:
        selected = context.select(said, reading.read_at)
        if isinstance(selected, context.Expired):
            availability = DetailAvailability.EXPIRED
        else:
            part = part_of(reading, availability)
            detailed = Detailed(part=part, summary=said, selected=selected)
    return Chosen(
        viewer=key_of(viewer),
        execution=reading.execution,
        part=part_of(reading, availability),
        detailed=detailed,
    )
