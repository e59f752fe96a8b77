"""Server-sent events that only ring: the revision at which a run was published.

Needs ASGI. Under WSGI the answer is 204, at which a browser's EventSource gives up, and the
page goes on polling. The right to see is asked anew every few seconds, with the user and
his session as they then are, and the stream ends when it is gone. Every stream ends after
some minutes; a browser opens it again by itself.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY, get_user, get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.handlers.asgi import ASGIRequest
from django.db import connections, transaction
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    StreamingHttpResponse,
)

from django_ray.errors import StorageUnavailable
from django_ray.readers import context, summary
from django_ray.readers.access import Viewer
from django_ray.readers.picture import Reading
from django_ray.web import api
from django_ray.web.answers import problem
from django_ray.web.bell import BELL, Waiter

CHECK_SECONDS = 10.0
LIFE_SECONDS = 300.0
STREAMS = 16
"""So many at once for one asker in one process."""

QUIET = b": no news\n\n"

read = sync_to_async(summary.authorized)

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@transaction.non_atomic_requests
async def stream(request: HttpRequest, public_id: uuid.UUID) -> HttpResponseBase:
    """Answer a stream of revisions, 204 where there can be none."""
    refused = await sync_to_async(api.refuse)(request)
    if refused is not None:
        return refused
    viewer = api.viewer_of(request)
    try:
        found = await read(public_id, viewer)
    except StorageUnavailable:
        return api.unavailable()
    if found is None:
        return problem("absent")
    if not isinstance(request, ASGIRequest):
        return HttpResponse(status=204, headers=HEADERS)
    if BELL.waits(api.asker_of(request)) >= STREAMS:
        return problem("quota", headers={"Retry-After": str(int(CHECK_SECONDS))})
    if request.method == "HEAD":
        return HttpResponse(content_type="text/event-stream", headers=HEADERS)
    return StreamingHttpResponse(
        rings(request, public_id, CHECK_SECONDS, LIFE_SECONDS),
        content_type="text/event-stream",
        headers=HEADERS,
    )


async def rings(
    request: HttpRequest, public_id: uuid.UUID, check: float, life: float
) -> AsyncIterator[bytes]:
    """Yield an event for each revision rung, and for the current one at each check.

    Begins with the current revision, so that nothing published before is missed. Times are
    seconds.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + life
    waiter = Waiter(public_id, api.asker_of(request))
    told: int | None = None
    with BELL.waiting(waiter):
        while True:
            found = await look(request, public_id)
            if found is None:
                return
            # Even with nothing new there are bytes, so that a dead connection is noticed.
            current = None if found.summary is None else found.summary.revision
            yield QUIET if current == told else _event(current)
            told = current
            if loop.time() >= ends:
                return
            until = min(ends, loop.time() + check)
            while (revision := await _rung(waiter, until)) is not None:
                yield _event(revision)
                told = revision


@sync_to_async
def look(request: HttpRequest, public_id: uuid.UUID) -> Reading | None:
    """Return the summary if it may still be seen, and the database says so."""
    try:
        return summary.authorized(public_id, _viewer_now(request))
    except StorageUnavailable:
        return None
    finally:
        # Otherwise every open page would hold a connection while it only waits.
        connections.close_all()


async def _rung(waiter: Waiter, until: float) -> int | None:
    """Return a revision that was rung; None when it is time to look again."""
    if asyncio.get_running_loop().time() >= until:
        # A run that publishes faster than its viewer reads rings without a pause.
        return None
    try:
        async with asyncio.timeout_at(until):
            return await waiter.wait()
    except TimeoutError:
        return None


def _event(revision: int | None) -> bytes:
    """Return the event of a revision; there is none before the first report."""
    if revision is None:
        return QUIET
    return b"event: revision\ndata: %d\n\n" % revision


def _viewer_now(request: HttpRequest) -> Viewer:
    """Return the user as he is now: his session may be over, his account closed."""
    viewer = api.viewer_of(request)
    session = getattr(request, "session", None)
    with context.answering():
        if session is not None and SESSION_KEY in session:
            again = HttpRequest()
            again.session = type(session)(session.session_key)
            fresh: Viewer = get_user(again)
            return fresh
        if isinstance(viewer, get_user_model()):
            found = get_user_model()._default_manager.filter(pk=viewer.pk).first()
            return AnonymousUser() if found is None else found
    return viewer
