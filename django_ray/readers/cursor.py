"""Where a list goes on: signed, and bound to all that its page was made of. ADR-0004.

A cursor is Django's signature over canonical JSON, under this module's own salt; a key in
SECRET_KEY_FALLBACKS still opens what it signed. It is no authorization: that is asked anew
with every page. The binding over the four identity fields and the viewer is a keyed hash,
for the internal key would be guessed from a plain one.

Anything but the very cursor of the very question raises InvalidCursor. A cursor whose
publication is over is no forgery: it is EXPIRED, and names that publication.
"""

import uuid
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from django.conf import settings
from django.core.signing import BadSignature, Signer, b64_decode, b64_encode
from django.utils.crypto import constant_time_compare, salted_hmac
from msgspec import Meta

from django_ray.errors import InvalidCursor
from django_ray.identity import MAXIMUM_63, RunIdentity
from django_ray.models.executions import TaskAttempt
from django_ray.protocol import canonical
from django_ray.protocol.frames import Number
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Stored
from django_ray.protocol.summary import Detail
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.run import Chosen, RunPart

SALT = "django_ray.readers.cursor"
SCHEMA: Final = 1

Key = Annotated[int, Meta(ge=0, le=MAXIMUM_63)]
Hash = Annotated[str, Meta(min_length=64, max_length=64)]


class Cursor(Stored, frozen=True, array_like=True):
    """What a cursor says; readable, but for the binding.

    `query` is a digest over collection, filters, order and the limit after the cap;
    `after` the last stable key; `returned` how many records were, up to here. A list that
    belongs to no run has no `run_id`, and epochs of 0.
    """

    schema: Literal[1]
    binding: Hash
    run_id: str
    revision: Number
    topology_version: Number
    detail_revision: Number
    query: Hash
    after: Annotated[tuple[Key, ...], Meta(min_length=1, max_length=3)]
    returned: Number


_decoder = msgspec.json.Decoder(Cursor)


def digest(collection: str, filters: object, limit: int) -> str:
    """Return what a cursor is bound to of its question."""
    return canonical.digest(canonical.encode((collection, filters, limit))).hex()


def binding(identity: RunIdentity | None, viewer: str) -> str:
    """Return the binding that a new cursor carries."""
    return next(_bindings(identity, viewer))


def sign(said: Cursor) -> str:
    """Return the cursor as text, at most 2 KiB."""
    return Signer(salt=SALT).sign(b64_encode(canonical.encode(said)).decode())


def parse(text: str, query: str) -> Cursor:
    """Return what a cursor of this question says; raise InvalidCursor otherwise."""
    if len(text) > V1.cursor:
        raise InvalidCursor
    try:
        payload = Signer(salt=SALT).unsign(text)
        said = _decoder.decode(b64_decode(payload.encode()))
    except (BadSignature, msgspec.MsgspecError, ValueError) as exc:
        raise InvalidCursor from exc
    if said.query != query:
        raise InvalidCursor
    return said


def require_binding(said: Cursor, identity: RunIdentity | None, viewer: str) -> None:
    """Raise InvalidCursor unless the cursor was made for this run and this viewer."""
    if not _is_bound(said, identity, viewer):
        raise InvalidCursor


def resume(text: str, query: str, chosen: Chosen, *, live: bool) -> Cursor | RunPart:
    """Return the cursor, or the publication it was made from, which is over.

    `live` collections change with the detail revision, others with the topology alone.
    Raises InvalidCursor.
    """
    said = parse(text, query)
    if said.run_id != str(chosen.execution.run_id):
        return _expired(said, chosen, _earlier_attempt(said, chosen))
    require_binding(said, chosen.identity, chosen.viewer)
    part = chosen.part
    current = (part.topology_version, part.detail_revision if live else 0)
    if (said.topology_version, said.detail_revision) != current:
        return _expired(said, chosen, part.attempt)
    return said


def _earlier_attempt(said: Cursor, chosen: Chosen) -> int:
    """Return whose cursor it is of this execution's other attempts, or raise."""
    attempts = TaskAttempt.objects.filter(
        execution_id=chosen.execution.pk, run_id=_uuid(said.run_id)
    ).only("attempt_number", "execution_generation", "run_id")
    attempt = next(iter(attempts), None)
    if attempt is None:
        raise InvalidCursor
    identity = RunIdentity(
        task_execution_pk=chosen.execution.pk,
        attempt_number=attempt.attempt_number,
        execution_generation=attempt.execution_generation,
        run_id=str(attempt.run_id),
    )
    require_binding(said, identity, chosen.viewer)
    return attempt.attempt_number


def _expired(said: Cursor, chosen: Chosen, attempt: int) -> RunPart:
    return RunPart(
        attempt=attempt,
        detail=Detail(
            availability=DetailAvailability.EXPIRED, complete=False, reasons=()
        ),
        detail_revision=said.detail_revision or None,
        execution=chosen.execution.public_id,
        revision=said.revision,
        run_id=_uuid(said.run_id),
        topology_version=said.topology_version,
    )


def _uuid(value: str) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except ValueError as exc:
        raise InvalidCursor from exc


def _is_bound(said: Cursor, identity: RunIdentity | None, viewer: str) -> bool:
    return any(
        constant_time_compare(said.binding, own) for own in _bindings(identity, viewer)
    )


def _bindings(identity: RunIdentity | None, viewer: str) -> Iterator[str]:
    """Yield the binding under the key, then under those that may still be in use."""
    fields = (
        None
        if identity is None
        else (
            identity.task_execution_pk,
            identity.attempt_number,
            identity.execution_generation,
            identity.run_id,
        )
    )
    value = canonical.encode((fields, viewer))
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield salted_hmac(SALT, value, secret=key, algorithm="sha256").hexdigest()
