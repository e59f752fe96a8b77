"""Names the calls of a graph: paths, and ids that are whole and unique. Contract 4.10."""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from actors.internals import Body, Options
from django_ray.errors import GraphRefused, LimitExceeded, ProtocolError
from django_ray.protocol import text
from django_ray.protocol.limits import V1

ID_PATH = 200
"""Bytes of a callable's path in an id of ours, so that no id we make is too long."""


class Named(Protocol):
    """A call by its path, and by the name that its options give it."""

    @property
    def path(self) -> str: ...

    @property
    def name(self) -> str | None: ...


@functools.lru_cache(maxsize=64)
def path(body: Body) -> str:
    """Return a callable's path as a label."""
    module = getattr(body, "__module__", "")
    inside = getattr(body, "__qualname__", type(body).__name__)
    return shown(f"{module}.{inside}")


def shown(path: str) -> str:
    """Return a path as a label."""
    return text.label(path, V1.label)


def name(options: Options) -> str | None:
    """Return the name that options give to a node."""
    told = options.get("name")
    return told if isinstance(told, str) and told else None


def identify(
    calls: Sequence[Named], prefix: str, redacted: Callable[[str], str]
) -> list[str]:
    """Return the calls' ids; raise GraphRefused for a malformed or repeated one.

    A name stands as it is given but for secrets; a path is numbered by first visit.
    Contract 4.10.
    """
    visits: dict[str, int] = {}
    ids: list[str] = []
    for call in calls:
        if call.name is None:
            label = text.label(call.path, ID_PATH)
            number = visits.get(label, 0)
            visits[label] = number + 1
            ids.append(f"{prefix}{label}#{number}")
        else:
            ids.append(require_id(redacted(f"{prefix}{call.name}")))
    if len(set(ids)) != len(ids):
        raise GraphRefused("two nodes of the graph have one id")
    return ids


def require_id(value: str) -> str:
    """Return a node id as it is; raise GraphRefused, which never quotes it."""
    try:
        return text.require_line(value, "node_id", V1.node_id)
    except LimitExceeded as exc:
        raise GraphRefused(
            f"a node id is {exc.actual:,} bytes; the limit is {exc.limit:,}"
        ) from exc
    except ProtocolError as exc:
        raise GraphRefused(
            "a node id holds control characters or unpaired surrogates"
        ) from exc
