"""Node detail, each row proven by itself: key, state, epoch and bounds.

A row is current whatever its own `detail_revision`, as long as it is not newer than the
run's: unchanged rows stay as they are while the epoch advances. ADR-0004.
"""

from dataclasses import dataclass
from typing import LiteralString

from msgspec import UnsetType

from django_ray.errors import IntegrityFault
from django_ray.protocol import canonical, text
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, Stored, decode_detail
from django_ray.protocol.summary import Part
from django_ray.protocol.vocabulary import (
    CODES,
    DetailAvailability,
    NodeState,
)
from django_ray.readers.context import Fetched, Selected, fetch

ROWS: LiteralString = """
SELECT ordinal, node_key,
    CASE WHEN octet_length(node_id) <= %(node_id)s THEN node_id END,
    stage, state, detail_revision,
    CASE WHEN octet_length(record) <= %(size)s THEN record END
FROM django_ray_node_detail
WHERE run_id = %(run)s
"""
MATCHING: LiteralString = """
  AND (%(states)s::int2[] IS NULL OR state = ANY (%(states)s::int2[]))
  AND (%(stage)s::int2 IS NULL OR stage = %(stage)s::int2)
  AND (%(prefix)s::text IS NULL OR starts_with(node_id, %(prefix)s::text))
  AND (%(since)s::int8 IS NULL OR detail_revision > %(since)s::int8)
"""
IN_ORDER: LiteralString = f"""{ROWS}{MATCHING}
  AND ordinal > %(after)s
ORDER BY ordinal LIMIT %(most)s
"""
NEWEST: LiteralString = f"""{ROWS}{MATCHING}
  AND (%(revision)s::int8 IS NULL
       OR detail_revision < %(revision)s::int8
       OR (detail_revision = %(revision)s::int8 AND ordinal > %(ordinal)s::int8))
ORDER BY detail_revision DESC, ordinal LIMIT %(most)s
"""
"""Rows come by ordinal: were equal revisions to go the other way, each row of a run that
was published at once would displace all that were sorted before."""
BY_KEY: LiteralString = f"{ROWS} AND node_key = %(key)s"
SIZES = {"node_id": V1.node_id, "size": V1.record}


def given[T](value: T | UnsetType) -> T | None:
    """Return what a record says, None where it says nothing."""
    return None if isinstance(value, UnsetType) else value


def fault(detail: Detail) -> tuple[str, str]:
    """Return a failed node's error class and text, in words where none is kept."""
    error = detail.error
    if isinstance(error, UnsetType):
        return "", "no error reported"
    if isinstance(error.omitted, str):
        return error.kind, f"error not kept: {error.omitted}"
    return error.kind, error.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A node's row as it is stored; what is oversized, or an id that is no line, is not.

    `node_id` is empty then, `record` None: `parse` refuses both.
    """

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


class Filter(Stored, frozen=True, kw_only=True):
    """Which rows: every condition that is given holds."""

    prefix: str | None = None
    since: int | None = None
    stage: int | None = None
    states: tuple[NodeState, ...] = ()


def in_order(run: Selected, wanted: Filter, *, after: int = -1, most: int) -> list[Row]:
    """Return at most so many rows after an ordinal, by ordinal, in one statement."""
    return _rows(run, IN_ORDER, wanted, {"after": after, "most": most})


def newest(
    run: Selected, wanted: Filter, *, before: tuple[int, int] | None = None, most: int
) -> list[Row]:
    """Return at most so many rows, the newest change first, in one statement.

    `before` is the revision and the ordinal of the row to go on behind.
    """
    revision, ordinal = before or (None, None)
    values = {"revision": revision, "ordinal": ordinal, "most": most}
    return _rows(run, NEWEST, wanted, values)


def by_key(run: Selected, node_key: bytes) -> Row | None:
    """Return one row by its unique key, in one statement."""
    found = fetch(BY_KEY, {"run": run.run_pk, "key": node_key, **SIZES})
    return _row(found[0]) if found else None


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
        row.node_id != ""
        and row.node_key == canonical.node_key(row.node_id)
        and CODES[detail.state] == row.state
        and 0 <= row.ordinal < run.manifest.node_count
        and 0 <= row.stage < V1.stages
        and 1 <= row.detail_revision <= run.detail_revision
    )
    if not sound:
        raise _corrupt("A stored node detail disagrees with its row.")
    return detail


def _rows(
    run: Selected,
    statement: LiteralString,
    wanted: Filter,
    values: dict[str, int | None],
) -> list[Row]:
    states = [CODES[state] for state in wanted.states] or None
    found = fetch(
        statement,
        {
            "run": run.run_pk,
            **SIZES,
            "states": states,
            "stage": wanted.stage,
            "prefix": wanted.prefix,
            "since": wanted.since,
            **values,
        },
    )
    return [_row(each) for each in found]


def _row(found: Fetched) -> Row:
    ordinal, key, node_id, stage, state, revision, record = found
    return Row(
        ordinal=ordinal,
        node_key=bytes(key),
        node_id=node_id if node_id is not None and text.is_line(node_id) else "",
        stage=stage,
        state=state,
        detail_revision=revision,
        record=None if record is None else bytes(record),
    )


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
