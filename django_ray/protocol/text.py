"""Text PostgreSQL and a terminal accept, within a byte bound.

Refused everywhere: NUL and unpaired surrogates, which PostgreSQL does not store, and the
control characters a terminal would obey. A line (an id, a label, a host) holds no control
character at all; other text keeps line feed and tab. Contract 2.

Parsed text is checked and refused, text born here is made to fit: no cut is silent.
"""

import re

from django_ray.errors import LimitExceeded, ProtocolError

REPLACEMENT = "\ufffd"
"""What stands where a refused character stood."""

ELLIPSIS = "…"

_unsafe = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_style = re.compile("\x1b\\[[0-9;:]{0,32}m")
_unsafe_line = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_clean(value: str) -> bool:
    """Claim that `value` may be stored and printed; it may hold several lines."""
    return value.isprintable() or _unsafe.search(value) is None


def is_line(value: str) -> bool:
    """Claim that `value` may be stored and printed within one line."""
    return value.isprintable() or _unsafe_line.search(value) is None


def size(value: str) -> int:
    """Count the UTF-8 bytes of `value`, an unpaired surrogate as three."""
    return (
        len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    )


def require(value: str, boundary: str, limit: int) -> str:
    """Return parsed text as it is, or raise: too long, or with refused characters."""
    if _is_plain(value, limit):
        return value
    _require_size(value, boundary, limit)
    if not is_clean(value):
        raise ProtocolError("unsafe_text")
    return value


def require_line(value: str, boundary: str, limit: int) -> str:
    """Return a parsed line as it is, or raise: too long, or not one clean line."""
    if _is_plain(value, limit):
        return value
    _require_size(value, boundary, limit)
    if not is_line(value):
        raise ProtocolError("unsafe_text")
    return value


def unstyled(value: str) -> str:
    """Return `value` without the sequences that colour text in a terminal."""
    return _style.sub("", value) if "\x1b" in value else value


def clean(value: str) -> str:
    """Return `value` with every refused character replaced."""
    return value if is_clean(value) else _unsafe.sub(REPLACEMENT, value)


def fit(value: str, limit: int) -> str:
    """Return `value` made safe, within `limit` bytes; a cut ends with its full size.

    Only the part that may be kept is looked at, so that 10 MB cost little more than 2 KiB.
    """
    head = clean(value[: limit + 1])
    if len(value) <= limit and size(head) <= limit:
        return head
    return cut(head, limit, size(value))


def cut(head: str, limit: int, whole: int) -> str:
    """Shorten safe text, the head of `whole` bytes, to `limit` bytes with its marker."""
    return _shorten(head, limit, f"{ELLIPSIS} [{whole:,} bytes]")


def label(value: str, limit: int) -> str:
    """Return `value` as one safe line within `limit` bytes, a cut ending with `…`."""
    line = value[: limit + 1]
    if not is_line(line):
        line = _unsafe_line.sub(REPLACEMENT, line)
    if len(value) <= limit and size(line) <= limit:
        return line
    return _shorten(line, limit, ELLIPSIS)


def _is_plain(value: str, limit: int) -> bool:
    # Nearly every text is: one look at it instead of three.
    return len(value) <= limit and value.isascii() and value.isprintable()


def _require_size(value: str, boundary: str, limit: int) -> None:
    # Bytes are never fewer than characters: a huge text is refused without encoding it.
    actual = len(value) if len(value) > limit else size(value)
    if actual > limit:
        raise LimitExceeded(boundary, limit, actual)


def _shorten(value: str, limit: int, marker: str) -> str:
    tail = marker if size(marker) <= limit else ELLIPSIS
    room = limit - size(tail)
    if room < 0:
        return ""
    # A character divided by the cut is dropped as a whole.
    return value[:room].encode()[:room].decode("utf-8", "ignore") + tail
