"""JSON over the readers, without logic of its own.

A view checks method, quota and parameters before it knows of any run, so those answers are
the same for every run; then the service decides who may see what.
"""

import time
import uuid
from collections.abc import Callable

import msgspec
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.http import HttpRequest, HttpResponseBase, QueryDict

from django_ray.errors import InvalidCursor, ReadError, StorageUnavailable
from django_ray.readers import context
from django_ray.readers.access import Viewer, key_of
from django_ray.web import quota
from django_ray.web.answers import RETRY_SECONDS, answer, problem
from django_ray.web.endpoints import Endpoint

SAFE = ("GET", "HEAD")
NOWHERE = uuid.UUID(int=0)

type View = Callable[..., HttpResponseBase]


def view[Q: msgspec.Struct](endpoint: Endpoint[Q]) -> View:
    """Return the view of one endpoint. It opens its own transactions."""

    @transaction.non_atomic_requests
    def ask(request: HttpRequest, public_id: uuid.UUID = NOWHERE) -> HttpResponseBase:
        refused = refuse(request)
        if refused is not None:
            return refused
        try:
            query = parse(endpoint.query, request.GET)
            return answer(request, endpoint.read(public_id, viewer_of(request), query))
        except InvalidCursor:
            return problem("cursor")
        except (msgspec.ValidationError, ReadError):
            return problem("parameter")
        except StorageUnavailable:
            return unavailable()

    return ask


def refuse(request: HttpRequest) -> HttpResponseBase | None:
    """Return the answer to a request that is refused whatever it is about."""
    if request.method not in SAFE:
        return problem("method", headers={"Allow": ", ".join(SAFE)})
    try:
        with context.answering():
            who = asker_of(request)
    except StorageUnavailable:
        return unavailable()
    wait = quota.wait(who, int(time.time()))
    if wait is not None:
        return problem("quota", headers={"Retry-After": str(wait)})
    return None


def unavailable() -> HttpResponseBase:
    """Return the answer of a database that gives none."""
    return problem("unavailable", headers={"Retry-After": str(RETRY_SECONDS)})


def asker_of(request: HttpRequest) -> str:
    """Return whose requests and streams are counted together: nobody's by address."""
    who = key_of(viewer_of(request))
    if who != key_of(AnonymousUser()):
        return who
    return f"{who} {request.META.get('REMOTE_ADDR', '')}"


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the user; nobody where no authentication is installed."""
    user: Viewer = getattr(request, "user", None) or AnonymousUser()
    return user


def parse[Q: msgspec.Struct](kind: type[Q], given: QueryDict) -> Q:
    """Return the query a URL asks; raise ValidationError for anything else in it.

    A parameter is given once, unless it is a list.
    """
    lists = {
        field.name
        for field in msgspec.structs.fields(kind)
        if isinstance(field.default, tuple)
    }
    asked: dict[str, object] = {}
    for name, values in given.lists():
        if name not in lists and len(values) != 1:
            raise msgspec.ValidationError("A parameter is given twice.")
        asked[name] = values if name in lists else values[0]
    return msgspec.convert(asked, kind, strict=False)
