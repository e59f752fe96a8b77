"""HTTP answers: a struct as JSON with its ETag, or a problem with a fixed text.

A problem never says more than its row of the table: neither what was asked, nor what is
stored. So "not yours" and "not there" are the same bytes.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers

from django_ray.protocol import canonical
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers.public import Body, LegacyBody
from django_ray.readers.run import RunPart, Unavailable

RETRY_SECONDS = 5

Code = Literal[
    "absent",
    "corrupt",
    "cursor",
    "expired",
    "method",
    "missing",
    "parameter",
    "quota",
    "unavailable",
]


@dataclass(frozen=True, slots=True)
class Meaning:
    """A problem's status and its one text."""

    status: int
    title: str


PROBLEMS: dict[Code, Meaning] = {
    "absent": Meaning(404, "There is no such run, or it is not yours to see."),
    "corrupt": Meaning(409, "The detail of this run is damaged and not shown."),
    "cursor": Meaning(
        400, "This page of the list is no longer valid. Start at the first page."
    ),
    "expired": Meaning(410, "The detail that was asked for is no longer kept."),
    "method": Meaning(405, "This can only be read."),
    "missing": Meaning(409, "The detail of this run is missing."),
    "parameter": Meaning(400, "A parameter is refused."),
    "quota": Meaning(429, "Asked too often."),
    "unavailable": Meaning(503, "The database does not answer."),
}

FAULTS: dict[DetailAvailability, Code] = {
    DetailAvailability.EXPIRED: "expired",
    DetailAvailability.MISSING: "missing",
    DetailAvailability.CORRUPT: "corrupt",
}
"""What is an error; that detail was never to be kept, or is not yet there, is none."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Problem details (RFC 9457). `run` says which publication is no longer there."""

    code: Code
    status: int
    title: str
    run: RunPart | None = None


def problem(
    code: Code, run: RunPart | None = None, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Return a problem by its code."""
    meaning = PROBLEMS[code]
    body = Problem(code=code, status=meaning.status, title=meaning.title, run=run)
    return private(
        HttpResponse(
            canonical.encode(body),
            status=meaning.status,
            content_type="application/problem+json",
            headers=dict(headers or {}),
        )
    )


def answer(request: HttpRequest, body: msgspec.Struct | None) -> HttpResponseBase:
    """Return what a service said: 200, 304 while its ETag stands, or a problem."""
    if body is None:
        return problem("absent")
    if isinstance(body, Unavailable):
        fault = FAULTS.get(body.run.detail.availability)
        if fault is not None:
            return problem(fault, body.run)
    encoded = canonical.encode(body)
    etag = _etag(body, encoded)
    whole = private(
        HttpResponse(encoded, content_type="application/json", headers={"ETag": etag})
    )
    return get_conditional_response(request, etag=etag, response=whole) or whole


def _etag(body: msgspec.Struct, encoded: bytes) -> str:
    """Name all that an answer changes with: revision, attempt, availability.

    Of a summary the execution's state and cancellation too. What is of no run is named by
    its bytes.
    """
    if isinstance(body, LegacyBody):
        # Nothing says that an older writer's revision rises with its figures.
        return f'"{hashlib.sha256(encoded).hexdigest()[:32]}"'
    if isinstance(body, Body):
        execution = body.execution
        parts = [
            str(execution.attempt),
            str(body.revision),
            body.detail.availability,
            execution.state,
            *(["cancelling"] if execution.cancel_requested_at else []),
        ]
        return f'"{"-".join(parts)}"'
    run = getattr(body, "run", None)
    if isinstance(run, RunPart):
        return f'"{run.attempt}-{run.revision}-{run.detail.availability}"'
    return f'"{hashlib.sha256(encoded).hexdigest()[:32]}"'


def private(response: HttpResponse) -> HttpResponse:
    """Let no shared cache keep an answer, and no other viewer be given it."""
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Cookie", "Authorization"])
    return response
