"""A closer look at one run in the terminal: its failures by cause, or its nodes.

In the snapshot of the picture, one statement more, and bounded whatever the run's size. As
for a picture no permission is asked: see `live`.
"""

import uuid
from dataclasses import dataclass, replace

from django.contrib.auth.models import AnonymousUser

from django_ray.errors import IntegrityFault
from django_ray.protocol import text
from django_ray.protocol.records import Detail
from django_ray.protocol.vocabulary import DetailAvailability, NodeState
from django_ray.readers import context, details, failures, live, run, summary
from django_ray.readers.context import Selected
from django_ray.readers.details import NodeRow
from django_ray.readers.picture import Cause, Closer, Kept, Picture

NODES = 256
"""So many nodes are listed, first registered first: a prefix finds the others."""


@dataclass(frozen=True, slots=True)
class Causes:
    """The failures are looked at."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes whose ids begin so are looked at."""

    prefix: str


type Look = Causes | Nodes
"""What is looked at besides the picture."""


def read(public_id: uuid.UUID, look: Look | None) -> Picture | None:
    """Return the picture of an execution with what was looked at, None: not there.

    Detail that is damaged is named in the reading, and nothing of it is shown closer.
    """
    with context.snapshot():
        reading = summary.read_trusted(public_id)
        if reading is None:
            return None
        picture = live.picture_of(reading)
        if look is None:
            return picture
        try:
            chosen = run.choose(picture.reading, AnonymousUser())
            if chosen.detailed is None:
                return picture
            return replace(picture, closer=_look(chosen.detailed.selected, look))
        except IntegrityFault as fault:
            found = DetailAvailability(fault.availability)
            return replace(
                picture, reading=replace(picture.reading, availability=found)
            )


def _look(selected: Selected, look: Look) -> Closer:
    match look:
        case Causes():
            return _causes(selected)
        case Nodes(prefix):
            return _nodes(selected, prefix)


def _causes(selected: Selected) -> Closer:
    most = failures.EXAMINED
    rows = details.in_order(selected, failures.FAILED, most=most + 1)
    examined = [details.public(selected, row) for row in rows[:most]]
    found = tuple(
        Cause(
            kind=kind,
            text=told if len(members) > 1 else details.fault(members[0].detail)[1],
            nodes=tuple(_kept(row) for row in failures.newest_first(members)),
        )
        for (kind, told), members in failures.by_cause(examined)
    )
    return Closer(causes=found, more=len(rows) > most)


def _nodes(selected: Selected, prefix: str) -> Closer:
    if not text.is_line(prefix):
        return Closer()
    wanted = details.Filter(prefix=prefix or None)
    rows = details.in_order(selected, wanted, most=NODES + 1)
    kept = [_kept(details.public(selected, row)) for row in rows[:NODES]]
    return Closer(nodes=tuple(kept), more=len(rows) > NODES)


def _kept(row: NodeRow) -> Kept:
    detail = row.detail
    return Kept(
        node_id=row.id,
        state=row.state,
        stage=row.stage,
        try_=detail.try_,
        started_ms=details.given(detail.started_ms),
        ended_ms=details.given(detail.ended_ms),
        host=details.given(detail.host) or "",
        said=_said(row.state, detail),
    )


def _said(state: NodeState, detail: Detail) -> str:
    if state is NodeState.FAILED:
        return ": ".join(part for part in details.fault(detail) if part)
    return detail.message if isinstance(detail.message, str) else ""
