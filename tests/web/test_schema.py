"""The OpenAPI document holds for every answer, whatever is asked within it or outside it."""

import functools
import json
import re
from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from django_ray.web import schema
from django_ray.web.answers import PROBLEMS
from django_ray.web.endpoints import ENDPOINTS
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = json.loads(schema.encoded())
OPERATIONS = {path: item["get"] for path, item in DOCUMENT["paths"].items()}
EDGES = (-1, 0, 1, 2, 63, 64, 100, 256, 257, 2**31 - 1, 2**31, 2**63 - 1, 2**63)


@functools.cache
def validator(reference):
    """Return what an answer is held against; the document is its own root."""
    return Draft202012Validator({**DOCUMENT, **json.loads(reference)})


def resolved(said):
    if "$ref" in said:
        return DOCUMENT["components"]["schemas"][said["$ref"].rpartition("/")[2]]
    return said


def within(said):
    """Return values a parameter's schema allows, as a URL spells them."""
    said = resolved(said)
    if "enum" in said:
        return st.sampled_from(said["enum"])
    if said["type"] == "integer":
        low, high = said.get("minimum", 0), said.get("maximum", 63)
        near = [edge for edge in EDGES if low <= edge <= high]
        return (st.sampled_from(near) | st.integers(low, high)).map(str)
    if said["type"] == "boolean":
        return st.sampled_from(["true", "false"])
    if said["type"] == "array":
        return st.lists(within(said["items"]), min_size=1, max_size=4)
    return st.sampled_from(["", "1.", "1.layer0[part-000001]", "default"]) | st.text(
        max_size=said.get("maxLength", 300)
    )


ANYTHING = (
    st.text(max_size=40)
    | st.sampled_from(EDGES).map(str)
    | st.lists(st.text(max_size=5), max_size=3)
)


@st.composite
def questions(draw, path):
    """Draw parameters of an operation, well formed or not."""
    asked = {}
    for parameter in OPERATIONS[path]["parameters"]:
        if parameter["in"] != "query":
            continue
        if parameter["required"] or draw(st.integers(0, 3)) == 0:
            values = within(parameter["schema"])
            if draw(st.integers(0, 9)) == 0:
                values = ANYTHING
            asked[parameter["name"]] = draw(values)
    if draw(st.integers(0, 19)) == 0:
        asked[draw(st.text(max_size=9))] = draw(ANYTHING)
    return asked


@pytest.fixture
def targets(conn):
    """A run with something to tell in every answer, a retried one, a reported none."""
    run = Published(conn, 300, 500)
    run.move(range(250), "RUNNING")
    run.move([1, 2], "FAILED", kind="ValueError", text="no 7")
    retried = Published(conn, 3)
    retried.retry()
    return [str(run.public_id), str(retried.public_id)]


def held(client, path, public_id, asked):
    cache.clear()
    address = path.replace("{public_id}", public_id)
    answer = client.get(address, asked)
    assert answer.status_code < 500
    responses = OPERATIONS[path]["responses"]
    said = responses[str(answer.status_code)]["content"]
    ((content_type, body),) = said.items()
    assert answer["Content-Type"] == content_type
    reference = json.dumps(body["schema"])
    errors = list(validator(reference).iter_errors(answer.json()))
    assert errors == []
    return answer.status_code


@pytest.mark.parametrize("path", sorted(OPERATIONS))
def test_every_answer_fits_its_schema_whatever_is_asked(path, targets, root):
    client = Client()
    client.force_login(root)
    seen = set()

    @settings(
        suppress_health_check=list(HealthCheck),
        max_examples=settings().max_examples // 10,
    )
    @given(asked=questions(path), public_id=st.sampled_from(targets))
    def ask(asked, public_id):
        seen.add(held(client, path, public_id, asked))

    ask()
    assert {200, 400} <= seen


@pytest.mark.parametrize("path", sorted(OPERATIONS))
def test_every_endpoint_answers_within_its_schema(path, targets, root):
    client = Client()
    client.force_login(root)
    asked = {"id": "1.layer0[part-000001]"} if path.endswith("/node") else {}
    for public_id in targets:
        assert held(client, path, public_id, asked) == 200
    if "{public_id}" in path:
        absent = "00000000-0000-4000-8000-000000000000"
        assert held(client, path, absent, asked) == 404


def test_the_document_is_served_and_not_sent_again():
    client = Client()
    whole = client.get(reverse("openapi"))
    assert whole.json() == DOCUMENT
    again = client.get(reverse("openapi"), headers={"if-none-match": whole["ETag"]})
    assert again.status_code == 304


def test_the_document_names_every_endpoint_and_nothing_internal():
    assert len(OPERATIONS) == len(ENDPOINTS)
    text = json.dumps(DOCUMENT)
    assert "django_ray" not in text
    assert "Query" not in "".join(DOCUMENT["components"]["schemas"])
    for operation in OPERATIONS.values():
        for parameter in operation["parameters"]:
            assert "null" not in json.dumps(parameter)


def test_every_code_of_an_endpoint_is_told_under_its_status():
    nodes = OPERATIONS["/runs/{public_id}/nodes"]["responses"]
    for code in ("cursor", "parameter", "missing", "corrupt", "expired", "absent"):
        told = nodes[str(PROBLEMS[code].status)]["description"]
        assert PROBLEMS[code].title in told
    summary = OPERATIONS["/runs/{public_id}/summary"]["responses"]
    assert PROBLEMS["cursor"].title not in summary["400"]["description"]


def test_every_schema_is_a_schema():
    for said in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(said)


def test_the_reference_page_names_every_path_parameter_and_problem():
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    rows = {
        line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")
    }
    for path, operation in OPERATIONS.items():
        row = rows[path.lstrip("/").replace("{public_id}", "ID")]
        named = {each["name"] for each in operation["parameters"]} - {"public_id"}
        assert named == set(re.findall(r"`([a-z]+)`", row.split("|")[3]))
    for code, meaning in PROBLEMS.items():
        assert re.search(rf"`{code}`.* \| {meaning.status} \|", text), code
