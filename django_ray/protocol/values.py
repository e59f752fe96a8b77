"""Progress, metrics and previews within their bounds, or a named refusal.

What a task author reports and what a frame carries pass the same checks, so that nothing a
producer accepted is refused by the collector. Contract 2.
"""

import math
import numbers
from collections.abc import Mapping
from itertools import chain

import msgspec

from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.protocol import canonical, text
from django_ray.protocol.limits import V1

MINIMUM_INTEGER = -(2**63)
MAXIMUM_INTEGER = 2**63 - 1

_decoder = msgspec.json.Decoder()

Amount = int | float
Metric = bool | int | float | str


def progress(current: object, total: object) -> tuple[Amount | None, Amount | None]:
    """Return what an author reports as plain numbers, or raise as `require_progress`.

    Numbers of other libraries and subclasses become plain: the wire knows no other.
    """
    amounts = plain_number(current), plain_number(total)
    require_progress(*amounts)
    return _amount(amounts[0]), _amount(amounts[1])


def metrics(reported: object) -> dict[str, Metric]:
    """Return what an author reports as a plain mapping, or raise as `require_metrics`."""
    if not isinstance(reported, Mapping):
        raise ProtocolError("metrics_not_a_mapping")
    if len(reported) > V1.metrics_keys:
        raise LimitExceeded("metrics_keys", V1.metrics_keys, len(reported))
    plain: dict[str, Metric] = {}
    for key, value in reported.items():
        if not isinstance(key, str):
            raise ProtocolError("metrics_key_not_text")
        plain[str.__str__(key)] = _metric(_plain_metric(value))
    require_metrics(plain)
    return plain


def require_progress(current: object, total: object) -> None:
    """Raise ProtocolError unless these are progress: finite, not negative, in order."""
    done, whole = _amount(current), _amount(total)
    if done is not None and whole is not None and done > whole:
        raise ProtocolError("progress_past_total")


def require_metrics(reported: object) -> None:
    """Raise LimitExceeded or ProtocolError unless this is a flat, bounded mapping."""
    if type(reported) is not dict:
        raise ProtocolError("metrics_not_a_mapping")
    if len(reported) > V1.metrics_keys:
        raise LimitExceeded("metrics_keys", V1.metrics_keys, len(reported))
    for key, value in reported.items():
        if type(key) is not str or not key:
            raise ProtocolError("metrics_key_not_text")
        text.require_line(key, "metric_key", V1.metric_key)
        _metric(value)
    actual = len(canonical.encode(reported))
    if actual > V1.metrics_encoded:
        raise LimitExceeded("metrics", V1.metrics_encoded, actual)


class Shape:
    """Counts what a preview is made of, and raises LimitExceeded at the first too many.

    A walk that asks before it goes on looks at no more than a preview may hold.
    """

    def __init__(self) -> None:
        self._items = 0

    def item(self) -> None:
        """Count one value, the outermost and those in containers alike."""
        self._items += 1
        if self._items > V1.preview_items:
            raise LimitExceeded("preview_items", V1.preview_items, self._items)

    def sequence(self, length: int, depth: int) -> None:
        """Allow a list of a length, the outermost at depth 1."""
        self._nest(depth)
        if length > V1.preview_list_items:
            raise LimitExceeded("preview_list_items", V1.preview_list_items, length)

    def mapping(self, length: int, depth: int) -> None:
        """Allow an object with so many entries, the outermost at depth 1."""
        self._nest(depth)
        if length > V1.preview_entries:
            raise LimitExceeded("preview_entries", V1.preview_entries, length)

    def _nest(self, depth: int) -> None:
        if depth > V1.preview_nesting:
            raise LimitExceeded("preview_nesting", V1.preview_nesting, depth)


def require_preview(value: bytes) -> None:
    """Raise LimitExceeded or ProtocolError unless this is one bounded canonical value."""
    if len(value) > V1.preview_encoded:
        raise LimitExceeded("preview", V1.preview_encoded, len(value))
    _require_item(require_canonical(value), 1, Shape())


def require_canonical(data: bytes) -> object:
    """Return what canonical JSON bytes hold, or raise: they are stored as they are.

    Containers in a record are nested at most 6 deep, the value itself included.
    """
    try:
        parsed: object = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise ProtocolError("malformed_json") from exc
    if canonical.encode(parsed) != data:
        raise ProtocolError("json_not_canonical")
    _require_nesting(parsed)
    return parsed


def require_lines(value: object) -> None:
    """Raise ProtocolError unless text and keys are lines, and integers fit 63 bits."""
    match value:
        case str():
            if not text.is_line(value):
                raise ProtocolError("unsafe_text")
        case int():
            if not MINIMUM_INTEGER <= value <= MAXIMUM_INTEGER:
                raise ProtocolError("integer_too_large")
        case list() | tuple():
            for item in value:
                require_lines(item)
        case dict():
            for key, item in value.items():
                require_lines(key)
                require_lines(item)


def _require_nesting(value: object) -> None:
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, list | dict)]:
        depth += 1
        if depth > V1.nesting:
            raise LimitExceeded("nesting", V1.nesting, depth)
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = list(chain.from_iterable(inner))


def plain_number(value: object) -> object:
    """Make a plain number of any real one; leave the rest to be refused."""
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def _plain_metric(value: object) -> object:
    return str.__str__(value) if isinstance(value, str) else plain_number(value)


def _amount(value: object) -> Amount | None:
    if value is None:
        return None
    # Exact types: the wire's encoder knows no subclass, and a bool is no number.
    if type(value) is int and 0 <= value <= MAXIMUM_INTEGER:
        return value
    if type(value) is float and 0 <= value < math.inf:
        return value
    if type(value) is not int and type(value) is not float:
        raise ProtocolError("progress_not_a_number")
    if type(value) is float and not math.isfinite(value):
        raise ProtocolError("progress_not_finite")
    if value < 0:
        raise ProtocolError("progress_negative")
    raise ProtocolError("progress_too_large")


def _metric(value: object) -> Metric:
    if type(value) is bool:
        return value
    if type(value) is str:
        return text.require(value, "metric_string", V1.metric_string)
    if type(value) is int:
        if not MINIMUM_INTEGER <= value <= MAXIMUM_INTEGER:
            raise ProtocolError("metrics_integer_too_large")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ProtocolError("metrics_not_finite")
        return value
    raise ProtocolError("metrics_value_not_plain")


def _require_item(value: object, depth: int, shape: Shape) -> None:
    shape.item()
    match value:
        case str():
            text.require(value, "preview_string", V1.preview_string)
        case list():
            shape.sequence(len(value), depth)
            for item in value:
                _require_item(item, depth + 1, shape)
        case dict():
            shape.mapping(len(value), depth)
            for key, item in value.items():
                text.require(key, "preview_key", V1.preview_key)
                _require_item(item, depth + 1, shape)
