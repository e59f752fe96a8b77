"""What of a leaf's output is shown: plain, without secrets, bounded. Contract 2 and 4.16.

An author names a projector beside a function; what it makes of the function's output comes
here. It is foreign: lists, tuples, dicts and text of any subclass are read by their base
type's own methods, and no more of them is looked at than a preview may hold.
"""

import inspect
import math
from collections.abc import Callable, Iterable

from django_ray.errors import ConfigurationError, LimitExceeded, ProtocolError
from django_ray.protocol import canonical, text, values
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Omitted
from django_ray.protocol.redaction import MARK, Redactor

ATTRIBUTE = "django_ray_preview"
"""Where a function carries the path of its projector."""

Projector = Callable[..., object] | str


def path_of(projector: Projector) -> str:
    """Return `package.module.name` of a projector; raise ConfigurationError without one.

    Only the path travels: so a projector that cannot be imported where the leaf runs
    costs the preview, not the leaf.
    """
    path = projector
    if not isinstance(path, str):
        module = getattr(projector, "__module__", None)
        path = f"{module}.{getattr(projector, '__qualname__', '')}"
        if "." in getattr(projector, "__qualname__", "."):
            path = ""
    parts = path.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise ConfigurationError(
            "A projector is a function at the top level of a module, or its path."
        )
    return path


def mark(function: object, path: str) -> None:
    """Let a function carry the path of its projector."""
    if not inspect.isfunction(function):
        raise ConfigurationError("preview decorates a function, below ray.remote.")
    setattr(function, ATTRIBUTE, path)


def marked(function: object) -> str | None:
    """Return the path of a function's projector, None without one."""
    path = getattr(function, ATTRIBUTE, None)
    return path if isinstance(path, str) else None


def encode(projected: object, redactor: Redactor) -> bytes:
    """Return what a projector made as canonical JSON within the bounds of a preview.

    Raises LimitExceeded or ProtocolError for what is none, and whatever a foreign class
    raises. Keys that differ in their secrets alone become one, whose value is the mark.
    """
    data = canonical.encode(_plain(projected, 1, values.Shape(), redactor))
    values.require_preview(data)
    return data


def omitted(reason: str) -> bytes:
    """Return what stands in the place of a preview that is not shown."""
    return canonical.encode(Omitted(omitted=reason))


def reason_of(error: BaseException) -> str:
    """Return the bounded name under which a preview is omitted for an error."""
    if isinstance(error, LimitExceeded):
        return error.boundary
    return error.reason if isinstance(error, ProtocolError) else "preview_malformed"


def _plain(
    value: object, depth: int, shape: values.Shape, redactor: Redactor
) -> object:
    shape.item()
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        return _text(value, redactor)
    if isinstance(value, dict):
        shape.mapping(dict.__len__(value), depth)
        return _entries(dict.items(value), depth, shape, redactor)
    if isinstance(value, list):
        shape.sequence(list.__len__(value), depth)
        return _items(list.__iter__(value), depth, shape, redactor)
    if isinstance(value, tuple):
        shape.sequence(tuple.__len__(value), depth)
        return _items(tuple.__iter__(value), depth, shape, redactor)
    return _number(values.plain_number(value))


def _items(
    items: Iterable[object], depth: int, shape: values.Shape, redactor: Redactor
) -> list[object]:
    return [_plain(item, depth + 1, shape, redactor) for item in items]


def _entries(
    entries: Iterable[tuple[object, object]],
    depth: int,
    shape: values.Shape,
    redactor: Redactor,
) -> dict[str, object]:
    taken: dict[str, object] = {}
    for key, value in entries:
        if not isinstance(key, str):
            raise ProtocolError("preview_key_not_text")
        name = text.require(str.__str__(key), "preview_key", V1.preview_key)
        shown, hides = redactor.key(name)
        if hides or shown in taken:
            shape.item()
            taken[shown] = MARK
        else:
            taken[shown] = _plain(value, depth + 1, shape, redactor)
    return taken


def _text(value: str, redactor: Redactor) -> str:
    plain = str.__str__(value)
    # A character is at least a byte: a huge text is refused without being read.
    if len(plain) > V1.preview_string:
        raise LimitExceeded("preview_string", V1.preview_string, len(plain))
    return redactor.text(text.clean(plain))


def _number(value: object) -> int | float:
    if type(value) is int:
        if not values.MINIMUM_INTEGER <= value <= values.MAXIMUM_INTEGER:
            raise ProtocolError("preview_integer_too_large")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ProtocolError("preview_not_finite")
        return value
    raise ProtocolError("preview_value_not_plain")
