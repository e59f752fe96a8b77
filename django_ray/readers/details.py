"""Node detail, each row proven by itself: key, state, epoch and bounds.

A row is current whatever its own `detail_revision`, as long as it is not newer than the
run's: unchanged rows stay as they are while the epoch advances. ADR-0004.
"""

from dataclasses import dataclass

from django.db.models import Case, F, Q, QuerySet, When

from django_ray.errors import IntegrityFault
from django_ray.models.progress import NodeDetail
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, decode_detail
from django_ray.protocol.summary import Part
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    DetailAvailability,
    NodeState,
)
from django_ray.readers.context import Selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A node's row as it is stored; `record` is None where it is oversized."""

    ordinal: int
    node_key: bytes
    node_id: str
    stage: int
    state: int
    detail_revision: int
    record: bytes | None


class NodeRow(Part, frozen=True, kw_only=True):
    """One retained node; `detail_revision` is that of its last change."""

    detail: Detail
    detail_revision: int
    id: str
    ordinal: int
    stage: int
    state: NodeState


def of_state(run: Selected, state: NodeState, *order: str, most: int) -> list[Row]:
    """Return at most so many rows of one state, in an order, in one statement."""
    return read(run, Q(state=NODE_STATES.index(state)), *order, most=most)


def read(run: Selected, matching: Q, *order: str, most: int) -> list[Row]:
    """Return at most so many of the run's rows that match, in an order, in one statement."""
    rows = NodeDetail.objects.filter(matching, run_id=run.run_pk).order_by(*order)
    return _read(rows[:most])


def public(run: Selected, row: Row) -> NodeRow:
    """Return a row as readers are given it; raise as `parse`."""
    detail = parse(run, row)
    return NodeRow(
        detail=detail,
        detail_revision=row.detail_revision,
        id=row.node_id,
        ordinal=row.ordinal,
        stage=row.stage,
        state=detail.state,
    )


def parse(run: Selected, row: Row) -> Detail:
    """Return a row's record; raise IntegrityFault(CORRUPT) when the row is not sound."""
    if row.record is None:
        raise _corrupt("A stored node detail is oversized.")
    detail = decode_detail(row.record)
    sound = (
        row.node_key == canonical.node_key(row.node_id)
        and NODE_STATES.index(detail.state) == row.state
        and 0 <= row.ordinal < run.manifest.node_count
        and 0 <= row.stage < V1.stages
        and 1 <= row.detail_revision <= run.detail_revision
    )
    if not sound:
        raise _corrupt("A stored node detail disagrees with its row.")
    return detail


def _read(rows: QuerySet[NodeDetail]) -> list[Row]:
    record = When(record__octets__lte=V1.record, then=F("record"))
    return [
        Row(
            ordinal=ordinal,
            node_key=bytes(key),
            node_id=node_id,
            stage=stage,
            state=state,
            detail_revision=revision,
            record=None if capped is None else bytes(capped),
        )
        for ordinal, key, node_id, stage, state, revision, capped in rows.annotate(
            capped=Case(record)
        ).values_list(
            "ordinal",
            "node_key",
            "node_id",
            "stage",
            "state",
            "detail_revision",
            "capped",
        )
    ]


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
