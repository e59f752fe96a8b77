"""The OpenAPI 3.1 document, generated from the types that endpoints parse and answer."""

import functools
import hashlib
from typing import Any, cast

import msgspec
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response

from django_ray.protocol import canonical
from django_ray.readers.run import Unavailable
from django_ray.web.answers import PROBLEMS, Code, Problem, problem
from django_ray.web.api import SAFE
from django_ray.web.endpoints import ENDPOINTS, Endpoint

VERSION = "1"
TEMPLATE = "#/components/schemas/{name}"

EVERYWHERE: tuple[Code, ...] = ("parameter", "method", "quota", "unavailable")
OF_A_CURSOR: tuple[Code, ...] = ("cursor",)
OF_A_RUN: tuple[Code, ...] = ("absent",)
OF_DETAIL: tuple[Code, ...] = ("expired", "missing", "corrupt")

RENAMED = {
    "django_ray.protocol.records.Detail": "NodeDetail",
    "django_ray.protocol.summary.Detail": "Detail",
}
"""Two types share a name; only then is a schema named by its module."""

type Json = dict[str, Any]

PUBLIC_ID: Json = {
    "name": "public_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}


def openapi(request: HttpRequest) -> HttpResponseBase:
    """Answer the document: it says what may be asked, and nothing that is stored."""
    if request.method not in SAFE:
        return problem("method", headers={"Allow": ", ".join(SAFE)})
    body = encoded()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    whole = HttpResponse(
        body,
        content_type="application/json",
        headers={"ETag": etag, "Cache-Control": "public, max-age=300"},
    )
    return get_conditional_response(request, etag=etag, response=whole) or whole


@functools.cache
def encoded() -> bytes:
    """Return the document as it is sent."""
    kinds = [*(_kinds(one) for one in ENDPOINTS), (Problem, Unavailable)]
    flat = [kind for group in kinds for kind in group]
    schemas, components = msgspec.json.schema_components(flat, ref_template=TEMPLATE)
    said = {id(kind): schema for kind, schema in zip(flat, schemas, strict=True)}
    queries = {_name(said[id(one.query)]) for one in ENDPOINTS}
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": "django-ray-progress", "version": VERSION},
        # Relative to the document itself: wherever the project mounts it.
        "servers": [{"url": "."}],
        "paths": {
            _path(one): {
                "get": _operation(
                    one,
                    [said[id(answer)] for answer in one.answers],
                    components[_name(said[id(one.query)])],
                )
            }
            for one in ENDPOINTS
        },
        "components": {
            "schemas": {
                name: kind for name, kind in components.items() if name not in queries
            }
        },
    }
    text = canonical.encode(document).decode()
    for long, short in RENAMED.items():
        text = text.replace(long, short)
    return text.encode()


def _kinds(one: Endpoint[Any]) -> tuple[object, ...]:
    return *one.answers, one.query


def _name(schema: Json) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _path(one: Endpoint[Any]) -> str:
    return "/" + one.route.replace("<uuid:public_id>", "{public_id}")


def _operation(one: Endpoint[Any], answers: list[Json], query: Json) -> Json:
    of_a_run = "{public_id}" in _path(one)
    if one.is_detail:
        answers = [*answers, {"$ref": TEMPLATE.format(name="Unavailable")}]
    said = answers[0] if len(answers) == 1 else {"anyOf": answers}
    codes = (
        *EVERYWHERE,
        *(OF_A_CURSOR if "cursor" in query["properties"] else ()),
        *(OF_A_RUN if of_a_run else ()),
        *(OF_DETAIL if one.is_detail else ()),
    )
    responses: Json = {
        "200": _response("The answer", said, "application/json"),
        "304": {"description": "Unchanged since the ETag that was sent"},
    }
    titles: dict[str, list[str]] = {}
    for code in codes:
        titles.setdefault(str(PROBLEMS[code].status), []).append(PROBLEMS[code].title)
    problem_said: Json = {"$ref": TEMPLATE.format(name="Problem")}
    for status, said_by in titles.items():
        responses[status] = _response(
            " / ".join(said_by), problem_said, "application/problem+json"
        )
    return {
        "operationId": one.name,
        "summary": one.title,
        "parameters": [*([PUBLIC_ID] if of_a_run else []), *_parameters(query)],
        "responses": responses,
    }


def _response(description: str, schema: Json, content_type: str) -> Json:
    return {"description": description, "content": {content_type: {"schema": schema}}}


def _parameters(query: Json) -> list[Json]:
    properties = cast("dict[str, Json]", query["properties"])
    required = cast("list[str]", query["required"])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": _given(schema),
        }
        for name, schema in properties.items()
    ]


def _given(schema: Json) -> Json:
    """Return the schema of a parameter where it is given: an absent one is null."""
    kept = {key: said for key, said in schema.items() if said is not None}
    for said in cast("list[Json]", kept.pop("anyOf", [])):
        if said != {"type": "null"}:
            kept.update(said)
    return kept
