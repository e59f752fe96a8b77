"""The envelope in which an outer task's outcome travels: bounded, nothing of the user's.

A result is JSON; an error is its class's path and redacted text. So the host and the worker
need none of the user's code, and nothing they handle can fail to unpickle. Contract 4.12.
"""

import json
import re
import traceback
from typing import Annotated, Any

import msgspec
from django.utils.json import normalize_json
from msgspec import Meta

from django_ray.errors import DjangoRayError, LimitExceeded, ProtocolError
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.protocol import failures, text
from django_ray.protocol.limits import MIB, V1
from django_ray.protocol.redaction import Redactor

RESULT = 16 * MIB
"""The largest result of a task, in bytes of JSON."""

NESTING = 500
"""The most lists and objects within each other: less than what Python's stack allows."""

ERROR_TEXT = V1.record
"""The largest stored traceback; its last lines are kept."""

ERROR_CLASS = V1.label
FRAMES = 64

UNFORMATTED = "its own code does not let it be formatted"

_CONTAINERS = (dict, list)
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Succeeded(msgspec.Struct, frozen=True, tag="succeeded"):
    """The user's function returned."""

    result: Annotated[bytes, Meta(max_length=RESULT)]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The user's function raised, or its result cannot be stored.

    `retry` is what its compiled sessions leave; None where none was sent an input, and
    where nothing is known beside what the attempt's row says.
    """

    error_class: Annotated[str, Meta(max_length=ERROR_CLASS)]
    error_text: Annotated[str, Meta(max_length=ERROR_TEXT)]
    retry: RetryDisposition | None = None


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """The outer task was interrupted; `retry` as in Failed."""

    retry: RetryDisposition | None = None


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The row did not let the run start: it is another run's by now."""


Outcome = Succeeded | Failed | Cancelled | Refused

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Outcome)


def encode(outcome: Outcome) -> bytes:
    """Encode an outcome for its host."""
    return _encoder.encode(outcome)


def decode(data: bytes) -> Outcome:
    """Parse an envelope; raise ProtocolError when it is none."""
    try:
        outcome: Outcome = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise ProtocolError("malformed_outcome") from exc
    return outcome


def of_result(value: object, redactor: Redactor) -> Succeeded | Failed:
    """Return what becomes of a returned value: Failed when it cannot be stored."""
    try:
        return Succeeded(storable(value, "result", RESULT))
    except Exception as exc:
        # What reading it raises is the user's, where the value is of a class of his.
        return of_error(exc, redactor)


def storable(value: object, boundary: str, limit: int) -> bytes:
    """Return `value` as JSON that PostgreSQL stores.

    Raises TypeError or ValueError for what is not JSON, for NaN and infinities, for text
    with NUL or an unpaired surrogate, for what nests too deeply or holds itself, and for
    objects that cannot be read; LimitExceeded above `limit` bytes.
    """
    body = json.dumps(_plain(value, boundary), allow_nan=False, ensure_ascii=False)
    try:
        data = body.encode()
    except UnicodeEncodeError as exc:
        raise ValueError("Text holds an unpaired surrogate.") from exc
    if len(data) > limit:
        raise LimitExceeded(boundary, limit, len(data))
    if _NUL.search(body):
        raise ValueError("Text holds a NUL character.")
    return data


def _plain(value: object, boundary: str) -> object:
    """Return `value` as dicts, lists and scalars."""
    try:
        plain = normalize_json(value)
    except (TypeError, ValueError):
        raise
    except RecursionError as exc:
        raise ValueError(_too_deep(boundary)) from exc
    except Exception as exc:
        # A sequence or mapping of the user's is read by its own code.
        kind = text.label(type(exc).__qualname__, V1.error_kind)
        raise TypeError(
            f"An object of the {boundary} cannot be read: it raised {kind}."
        ) from exc
    if _is_deeper(plain, NESTING):
        raise ValueError(_too_deep(boundary))
    return plain


def _is_deeper(value: object, most: int) -> bool:
    within: list[Any] = [[value]]
    for _ in range(most + 1):
        within = [
            each
            for one in within
            for each in (one.values() if isinstance(one, dict) else one)
            if isinstance(each, _CONTAINERS)
        ]
        if not within:
            return False
    return True


def _too_deep(boundary: str) -> str:
    return (
        f"A list or object of the {boundary} holds itself, or they nest too deeply: "
        f"{NESTING} levels at most."
    )


def of_error(exc: BaseException, redactor: Redactor) -> Failed:
    """Return a raised error's class path and its traceback, redacted and bounded."""
    own = failures.own(exc)
    module, qualname = failures.names(type(own))
    name = text.label(qualname, V1.error)
    try:
        error_text = _traceback(exc, own, redactor)
    except BaseException:
        # Formatting runs the error's own code, and that may raise or exit.
        error_text = f"{name}: {UNFORMATTED}"
    error_class = text.label(f"{module}.{name}", ERROR_CLASS)
    return Failed(error_class=error_class, error_text=error_text)


def lost(reason: str) -> Failed:
    """Return the error of a run whose processes are gone; `reason` is a fixed word."""
    return of_fault(DjangoRayError(f"The run's process was lost ({reason})."))


def interrupted(reason: str, retry: RetryDisposition | None) -> Failed:
    """Return the error of a run that was ended from outside; `reason` is a fixed word."""
    error = of_fault(DjangoRayError(f"The run was ended from outside ({reason})."))
    return msgspec.structs.replace(error, retry=retry)


def of_fault(exc: DjangoRayError) -> Failed:
    """Return an error of ours, whose text holds nothing from outside."""
    kind = type(exc)
    return Failed(
        error_class=f"{kind.__module__}.{kind.__qualname__}",
        error_text=text.fit(f"{kind.__qualname__}: {exc}", ERROR_TEXT),
    )


def _traceback(exc: BaseException, own: BaseException, redactor: Redactor) -> str:
    """Format the error, each piece redacted before it is cut; keep what comes last.

    Where the piece with Ray's own traceback is cut, the error it holds at its end follows.
    """
    pieces: list[str] = []
    formatted = traceback.TracebackException(
        type(exc), exc, exc.__traceback__, limit=-FRAMES, compact=True
    )
    room = ERROR_TEXT
    said = [*formatted.format()]
    if own is not exc and text.size(said[-1]) > V1.error:
        said += traceback.format_exception_only(own)
    for piece in reversed(said):
        fitted = redactor.fit(piece, V1.error)
        room -= text.size(fitted)
        if room < 0:
            break
        pieces.append(fitted)
    return "".join(reversed(pieces))
