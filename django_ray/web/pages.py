"""The two pages: the list of runs, and one run. Readable without a script, live with one.

The same viewers see them as the API; what is not theirs and what is not there are one page.
They bring a policy of their own that allows no inline script or style, nothing of another
origin but where the project's static files are, and no frame around them.
"""

import uuid
from urllib.parse import urlsplit

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.templatetags.static import static
from django.utils.csp import CSP, build_policy

from django_ray.errors import InvalidCursor, ReadError, StorageUnavailable
from django_ray.readers.portrait import portrait
from django_ray.readers.run import Query
from django_ray.web import answers, api, bars, list_page, marks, run_page
from django_ray.web.answers import PROBLEMS, Code
from django_ray.web.list_page import ListQuery

REFUSED: dict[int, Code] = {429: "quota", 503: "unavailable"}
HOME, ABOVE = "./", "../../"
"""Where the list is, from itself and from a run: wherever the project mounts them."""
KEYS = (
    ("?", "this list"),
    ("1 2 3 4", "graph, timeline, nodes, attempts"),
    ("f", "failures"),
    ("/", "find a node"),
    ("v", "stages or nodes in the graph"),
    ("arrows", "in the node graph: along edges and within a block"),
    ("+ - 0", "zoom the node graph, fit"),
    ("j k", "next, previous row, in the drawer"),
    ("Enter", "open the chosen node in the drawer"),
    ("g", "show the open node in the graph"),
    ("c", "copy its id"),
    ("Esc", "close the drawer, clear the filters"),
    ("[ ]", "first page, next page of the nodes"),
    ("n", "show newer nodes"),
    ("r", "sort anew"),
    ("p", "pause, go on"),
    ("a", "go to the newest attempt"),
    ("u", "up to the list of runs"),
)
LIST_KEYS = (
    ("?", "this list"),
    ("/", "find a run"),
    ("j k", "next, previous run"),
    ("Enter", "open it"),
    ("[ ]", "newest, older"),
    ("n", "show new runs"),
    ("r", "load anew"),
    ("p", "pause, go on"),
)
ATTEMPT = "attempt"
"""The one parameter of a run's page the server reads: the others are the script's."""


@transaction.non_atomic_requests
def home(request: HttpRequest) -> HttpResponseBase:
    """Answer the list of runs that the viewer may see."""
    refused = _refuse(request, HOME)
    if refused is not None:
        return refused
    try:
        query = api.parse(ListQuery, request.GET)
        found = list_page.read(api.viewer_of(request), query)
    except InvalidCursor:
        return _problem(request, "cursor", HOME)
    except (msgspec.ValidationError, ReadError):
        return _problem(request, "parameter", HOME)
    except StorageUnavailable:
        return _problem(request, "unavailable", HOME)
    return _page(
        request, "django_ray/runs.html", {"page": found, "keys": LIST_KEYS}, 200
    )


@transaction.non_atomic_requests
def run(request: HttpRequest, public_id: uuid.UUID) -> HttpResponseBase:
    """Answer the page of one run, or of an earlier attempt."""
    refused = _refuse(request, ABOVE)
    if refused is not None:
        return refused
    try:
        asked = request.GET.copy()
        for name in list(asked):
            if name != ATTEMPT:
                del asked[name]
        found = portrait(public_id, api.viewer_of(request), api.parse(Query, asked))
    except msgspec.ValidationError:
        return _problem(request, "parameter", ABOVE)
    except StorageUnavailable:
        return _problem(request, "unavailable", ABOVE)
    if found is None:
        return _problem(request, "absent", ABOVE)
    page = run_page.compose(found)
    return _page(request, "django_ray/run.html", {"page": page, "keys": KEYS}, 200)


def _refuse(request: HttpRequest, home: str) -> HttpResponseBase | None:
    refused = api.refuse(request)
    if refused is None or refused.status_code not in REFUSED:
        return refused
    page = _problem(request, REFUSED[refused.status_code], home)
    page["Retry-After"] = refused["Retry-After"]
    return page


def _problem(request: HttpRequest, code: Code, home: str) -> HttpResponse:
    """Return a page that says the problem's one text, and nothing of what was asked."""
    meaning = PROBLEMS[code]
    said: dict[str, object] = {"title": meaning.title, "home": home}
    return _page(request, "django_ray/problem.html", said, meaning.status)


def _page(
    request: HttpRequest, template: str, values: dict[str, object], status: int
) -> HttpResponse:
    legend = tuple(marks.of_node(state) for state in bars.ORDER)
    response = render(request, template, {"legend": legend, **values}, status=status)
    response[str(CSP.HEADER_ENFORCE)] = policy()
    return answers.private(response)


def policy() -> str:
    """Return the pages' Content-Security-Policy."""
    where = urlsplit(static("django_ray/tokens.css"))
    ours: list[str] = [CSP.SELF]
    if where.netloc:
        ours.append(f"{where.scheme or 'https'}://{where.netloc}")
    said = build_policy(
        {
            "default-src": [CSP.NONE],
            "script-src": ours,
            "style-src": ours,
            "img-src": ours,
            "connect-src": [CSP.SELF],
            "form-action": [CSP.SELF],
            "base-uri": [CSP.NONE],
            "frame-ancestors": [CSP.NONE],
        }
    )
    return str(said)
