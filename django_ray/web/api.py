"""JSON over the readers, without logic of its own.

Whoever may not see an execution gets the same bytes as for one that is not there.
"""

import uuid

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.views.decorators.http import require_safe

from django_ray.errors import StorageUnavailable
from django_ray.protocol import canonical
from django_ray.readers import public
from django_ray.readers import summary as reader
from django_ray.readers.access import Viewer
from django_ray.readers.picture import Reading

RETRY_SECONDS = 5


@require_safe
def summary(request: HttpRequest, public_id: uuid.UUID) -> HttpResponseBase:
    """Answer the summary of one execution; 304 while its ETag stands."""
    try:
        reading = reader.read(public_id, _viewer(request))
    except StorageUnavailable:
        answer = _problem(503, "The database does not answer.")
        answer["Retry-After"] = str(RETRY_SECONDS)
        return answer
    if reading is None:
        return _problem(404, "There is no such run, or it is not yours to see.")
    etag = _etag(reading)
    answer = _private(
        HttpResponse(
            public.encode(reading),
            content_type="application/json",
            headers={"ETag": etag},
        )
    )
    return get_conditional_response(request, etag=etag, response=answer) or answer


def _problem(status: int, title: str) -> HttpResponse:
    return _private(
        HttpResponse(
            canonical.encode({"status": status, "title": title}),
            status=status,
            content_type="application/problem+json",
        )
    )


def _viewer(request: HttpRequest) -> Viewer:
    """Return the user; nobody where no authentication is installed."""
    user: Viewer = getattr(request, "user", None) or AnonymousUser()
    return user


def _etag(reading: Reading) -> str:
    """Name everything the body changes with: revision, attempt, state, cancellation."""
    execution, found = reading.execution, reading.summary
    revision = reading.availability if found is None else str(found.revision)
    if reading.legacy is not None:
        # Nothing says that an older writer's revision rises with its figures.
        revision = canonical.digest(public.encode(reading)).hex()
    parts = [
        str(execution.attempt_number),
        revision,
        execution.state,
        *(["cancelling"] if execution.cancel_requested_at else []),
    ]
    return f'"{"-".join(parts)}"'


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Cookie", "Authorization"])
    return response
