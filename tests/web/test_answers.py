"""What HTTP makes of a service's answer: statuses, ETags, fixed texts, and no internals."""

import json
import re

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import reverse

from django_ray import urls
from django_ray.web.answers import PROBLEMS
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)

OF_A_RUN = sorted(
    pattern.name
    for pattern in urls.urlpatterns
    if "<uuid:public_id>" in str(pattern.pattern)
    and pattern.name not in ("stream", "run-page")
)
NEEDS = {"node": {"id": "1.layer0[part-000000]"}}


@pytest.fixture
def run(conn):
    return Published(conn, 300, 500)


@pytest.fixture
def client(root):
    client = Client()
    client.force_login(root)
    return client


def ask(client, run, name, headers=None, **asked):
    address = reverse(name, args=[run.public_id])
    return client.get(address, {**NEEDS.get(name, {}), **asked}, headers=headers)


def is_problem(answer, code):
    body = answer.json()
    meaning = PROBLEMS[code]
    assert answer.status_code == body["status"] == meaning.status
    assert answer["Content-Type"] == "application/problem+json"
    assert (body["code"], body["title"]) == (code, meaning.title)
    return body


@pytest.mark.parametrize("name", OF_A_RUN)
def test_an_unchanged_answer_is_not_sent_again(name, run, client):
    whole = ask(client, run, name)
    assert whole.status_code == 200
    assert whole["Cache-Control"] == "private, no-cache"
    again = ask(client, run, name, headers={"if-none-match": whole["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", OF_A_RUN)
def test_what_changes_an_answer_changes_its_etag(name, run, client):
    etag = ask(client, run, name)["ETag"]
    if name == "attempts":
        run.retry()
    else:
        run.move([0], "RUNNING")
    assert ask(client, run, name)["ETag"] != etag


@pytest.mark.parametrize("name", OF_A_RUN)
def test_head_is_get_without_a_body(name, run, client):
    whole = ask(client, run, name)
    address = reverse(name, args=[run.public_id])
    head = client.head(address, NEEDS.get(name))
    assert head.content == b""
    assert head["ETag"] == whole["ETag"]
    assert head["Content-Type"] == whole["Content-Type"]


@pytest.mark.parametrize("name", [*OF_A_RUN, "runs"])
def test_no_answer_holds_a_key_a_table_or_an_actor(name, run, client):
    run.move([0], "FAILED", kind="ValueError", text="no")
    run.retry()
    address = reverse(name, args=[run.public_id] if name != "runs" else [])
    asked = {**NEEDS.get(name, {}), "limit": 2}
    if name in ("summary", "node", "stages", "events", "failures", "attempts"):
        del asked["limit"]
    if name not in ("runs", "attempts"):
        asked["attempt"] = 1
    answer = client.get(address, asked)
    assert answer.status_code == 200, answer.content
    text = answer.content.decode()
    pattern = r"django_ray|manifest|writer|lease|generation|_pk|worker|storage|secret"
    assert re.findall(pattern, text) == []


def test_a_bad_cursor_and_a_bad_parameter_have_one_text_each(run, client):
    is_problem(ask(client, run, "nodes", cursor="x"), "cursor")
    for asked in (
        {"limit": "0"},
        {"limit": "many"},
        {"limit": str(2**63)},
        {"unheard": "of"},
        {"state": "failed"},
        {"state": ["FAILED", "x"]},
        {"order": ""},
        {"stage": "64"},
        {"prefix": "a\x00"},
        {"attempt": "0"},
        {"limit": ["1", "2"]},
    ):
        is_problem(ask(client, run, "nodes", **asked), "parameter")
    is_problem(client.get(reverse("node", args=[run.public_id])), "parameter")


def test_pages_of_the_api_lead_to_the_end(run, client):
    found, cursor = [], None
    while True:
        asked = {"limit": 128, "state": ["PENDING", "RUNNING"]}
        page = ask(
            client, run, "nodes", **asked, **({"cursor": cursor} if cursor else {})
        ).json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [row["ordinal"] for row in found] == list(range(300))


def test_an_expired_cursor_is_gone_and_says_which_publication(run, client):
    cursor = ask(client, run, "nodes").json()["next_cursor"]
    run.move([0], "RUNNING")
    body = is_problem(ask(client, run, "nodes", cursor=cursor), "expired")
    assert body["run"]["detail_revision"] == 1
    assert body["run"]["run_id"] == run.mind.identity.run_id


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("DELETE FROM django_ray_manifest", "missing"),
        ("UPDATE django_ray_manifest SET edge_count = 1", "corrupt"),
    ],
)
def test_damage_is_a_problem_and_the_summary_stays(run, client, conn, damage, code):
    conn.execute(damage)
    for name in OF_A_RUN:
        if name not in ("summary", "attempts"):
            is_problem(ask(client, run, name), code)
    assert ask(client, run, "summary").json()["retained_nodes"] == 300


def test_detail_that_is_not_there_yet_is_no_problem(run, client):
    run.retry()
    answer = ask(client, run, "nodes")
    assert answer.status_code == 200
    assert answer.json()["run"]["detail"]["availability"] == "NOT_REPORTED"
    assert "items" not in answer.json()


def test_who_asks_too_often_is_told_when_to_ask_again(run, client, settings):
    cache.clear()
    settings.DJANGO_RAY = {"REQUESTS_PER_MINUTE": 3}
    answers = [ask(client, run, "summary") for _ in range(8)]
    # A minute may end between two of them; within one there are three.
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= 6
    refused = next(answer for answer in answers if answer.status_code == 429)
    is_problem(refused, "quota")
    assert 1 <= int(refused["Retry-After"]) <= 60
    # Another one may still ask, and gets his own answer.
    assert Client().get(reverse("summary", args=[run.public_id])).status_code == 404
    cache.clear()


def test_requests_in_transactions_of_the_projects_are_answered(run, client):
    before = connection.settings_dict["ATOMIC_REQUESTS"]
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert ask(client, run, "nodes").status_code == 200
        assert ask(client, run, "stream").status_code == 204
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = before


def test_every_problem_has_its_own_text():
    titles = [meaning.title for meaning in PROBLEMS.values()]
    assert len(set(titles)) == len(titles)
    assert json.dumps(titles).isascii()
