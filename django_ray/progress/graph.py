"""Registers nodes with their dependencies, in topological order. Contract 4.1.

The coordinator's side: a node's ordinal is its place in the order of registration, and
every dependency has a smaller one, so neither a cycle nor an unknown endpoint can be
expressed past here. What is kept a node is its id, in a file past 250,000 of them, and a
fingerprint. Whoever registers from several threads holds one lock over it.
"""

import hashlib
from array import array
from collections.abc import Iterable

from django_ray.errors import GraphRefused, LimitExceeded, ProtocolError
from django_ray.progress.spill import BATCH, IN_MEMORY, Ids
from django_ray.protocol import frames, text
from django_ray.protocol.limits import Limits

_FINGERPRINT = 16


class Graph:
    """The nodes of one run and their order."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._ids = Ids(IN_MEMORY, BATCH)
        self._fingerprints = bytearray()

    def __len__(self) -> int:
        return len(self._fingerprints) // _FINGERPRINT

    def register(
        self, node_id: str, label: str, stage: str, dependencies: Iterable[int]
    ) -> tuple[int, frames.Node | None]:
        """Register a node and return its ordinal with the record that tells of it.

        There is no record when an identical node stands already. Raise GraphRefused, with
        nothing changed, when another stands under the id, the id is malformed, a
        dependency is not registered, or nobody can tell whether the id is new.
        """
        self._require_id(node_id)
        label = text.label(label, self._limits.label)
        stage = text.label(stage, self._limits.label)
        runs = _runs(dependencies, len(self))
        fingerprint = _fingerprint(label, stage, runs)
        known = self._ids.get(node_id)
        if known is not None:
            place = known * _FINGERPRINT
            if self._fingerprints[place : place + _FINGERPRINT] != fingerprint:
                raise GraphRefused("another node stands under the same id")
            return known, None
        ordinal = len(self)
        if ordinal > frames.MAXIMUM_ORDINAL:
            raise GraphRefused("there are more nodes than ordinals")
        self._ids.add(node_id, ordinal)
        self._fingerprints += fingerprint
        return ordinal, self._record(ordinal, node_id, label, stage, runs)

    def _require_id(self, node_id: object) -> None:
        limit = self._limits.node_id
        if not isinstance(node_id, str):
            raise GraphRefused("a node id is not text")
        if not node_id:
            raise GraphRefused("a node id is empty")
        try:
            text.require_line(node_id, "node_id", limit)
        except LimitExceeded as exc:
            # The count of bytes, even where the check stopped at the characters.
            actual = text.size(node_id)
            raise GraphRefused(
                f"node_id is {actual:,} bytes; the limit is {limit:,}"
            ) from exc
        except ProtocolError as exc:
            raise GraphRefused(
                "node_id holds control characters or unpaired surrogates"
            ) from exc

    def _record(
        self, ordinal: int, node_id: str, label: str, stage: str, runs: tuple[int, ...]
    ) -> frames.Node:
        room = 2 * self._limits.dependency_runs
        return frames.Node(
            ordinal=ordinal,
            id=node_id,
            label=label,
            stage=stage,
            dependencies=runs[:room],
            further=sum(runs[room + 1 :: 2]),
        )


def _runs(dependencies: Iterable[int], known: int) -> tuple[int, ...]:
    """Return ordinals, in any order and repeated, as ascending runs of neighbours."""
    if isinstance(dependencies, range) and dependencies.step == 1:
        # A join of a whole fan-out, without an object for each of its edges.
        if not dependencies:
            return ()
        _require_known(dependencies[0], dependencies[-1], known)
        return (dependencies[0], len(dependencies))
    ordinals = set(dependencies)
    if not ordinals:
        return ()
    for ordinal in ordinals:
        if type(ordinal) is not int:
            raise GraphRefused("a dependency is not an ordinal")
    ascending = sorted(ordinals)
    _require_known(ascending[0], ascending[-1], known)
    runs = array("q")
    first = previous = ascending[0]
    for ordinal in ascending[1:]:
        if ordinal != previous + 1:
            runs.extend((first, previous + 1 - first))
            first = ordinal
        previous = ordinal
    runs.extend((first, previous + 1 - first))
    return tuple(runs)


def _require_known(least: int, greatest: int, known: int) -> None:
    if least < 0 or greatest >= known:
        raise GraphRefused("a dependency is not registered")


def _fingerprint(label: str, stage: str, runs: tuple[int, ...]) -> bytes:
    # Neither text holds a NUL: it parts them.
    told = f"{label}\0{stage}\0".encode() + array("q", runs).tobytes()
    return hashlib.blake2b(told, digest_size=_FINGERPRINT).digest()
