import uuid

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_ray import urls
from tests.app import pictures, stored

pytestmark = pytest.mark.django_db


ADDRESS = f"/runs/{pictures.PUBLIC_ID}/summary"
VIEWS = {pattern.name: pattern.callback for pattern in urls.urlpatterns}


@pytest.fixture
def root():
    return User.objects.create_superuser("root")


def ask(user, method="get", public_id=pictures.PUBLIC_ID, **headers):
    request = getattr(RequestFactory(), method)(ADDRESS, headers=headers)
    request.user = user
    return VIEWS["summary"](request, public_id)


def test_the_summary_stands_under_the_public_id():
    assert reverse("summary", args=[pictures.PUBLIC_ID]) == ADDRESS
    assert Client().get(ADDRESS).status_code == 404


def test_a_viewer_gets_the_summary_as_json(root):
    stored.report(stored.make_row())
    answer = ask(root)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"
    assert answer["Cache-Control"] == "private, no-cache"
    assert "Cookie" in answer["Vary"]
    assert b'"discovered_nodes":197' in answer.content


def test_not_yours_and_not_there_are_the_same_bytes(root):
    stored.report(stored.make_row())
    refused = ask(AnonymousUser())
    absent = ask(root, public_id=uuid.uuid4())
    assert refused.status_code == absent.status_code == 404
    assert refused.content == absent.content
    assert refused.headers == absent.headers


def test_not_yours_says_nothing_of_the_etag():
    stored.report(stored.make_row())
    answer = ask(AnonymousUser(), if_none_match="*")
    assert answer.status_code == 404
    assert "ETag" not in answer


def test_an_unchanged_summary_is_not_sent_again(root):
    stored.report(stored.make_row())
    etag = ask(root)["ETag"]
    answer = ask(root, if_none_match=etag)
    assert answer.status_code == 304
    assert answer.content == b""
    assert answer["ETag"] == etag
    assert answer["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    "change",
    [
        {"state": "SUCCEEDED"},
        {"attempt_number": 2, "run_id": uuid.UUID(int=7)},
        {"cancel_requested_at": timezone.now()},
    ],
    ids=["state", "attempt", "cancellation"],
)
def test_the_etag_changes_with_the_row(root, change):
    row = stored.make_row()
    stored.report(row)
    etag = ask(root)["ETag"]
    for name, value in change.items():
        setattr(row, name, value)
    row.save()
    assert ask(root, if_none_match=etag).status_code == 200


def test_the_etag_changes_with_the_revision(root):
    row = stored.make_row()
    etags = [ask(root)["ETag"]]
    for revision in (1, 2):
        stored.report(row, revision=revision)
        etags.append(ask(root)["ETag"])
    assert len(set(etags)) == 3


def test_head_is_answered_as_get(root):
    stored.report(stored.make_row())
    answer, whole = ask(root, "head"), ask(root)
    assert answer.status_code == 200
    assert answer["ETag"] == whole["ETag"]


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_can_be_written(root, method):
    stored.make_row()
    assert ask(root, method).status_code == 405


def test_a_poll_is_one_statement_of_ours(root):
    stored.report(stored.make_row())
    with CaptureQueriesContext(connection) as queries:
        ask(root)
    assert len(queries) == 1


def test_without_authentication_nobody_sees_anything():
    stored.make_row()
    request = RequestFactory().get(ADDRESS)
    assert VIEWS["summary"](request, pictures.PUBLIC_ID).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_is_said_so():
    stored.make_row()
    stored.break_connection()
    answer = ask(AnonymousUser())
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert ask(AnonymousUser()).status_code == 404
