"""The tag: a run's bar in a project's own page, for whoever may see the run."""

import re
import uuid
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connection
from django.template import Context, RequestContext, Template
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.summary import NodeCounts
from tests.app import pictures, published, stored, taskbook

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.web.mounted")]

HOSTILE = "<script>alert('x')</script>"
TEMPLATE = Template("{% load django_ray %}{% ray_progress run %}")


@pytest.fixture
def user(db):
    return published.root()


@pytest.fixture
def row(db):
    row = stored.make_row()
    stored.report(row)
    return row


def drawn(user, run):
    """Return the tag's HTML as `user` gets it."""
    request = RequestFactory().get("/")
    request.user = user
    return TEMPLATE.render(RequestContext(request, {"run": run}))


# Who sees it


def test_who_may_not_see_a_run_gets_what_is_not_there(row, user):
    absent = drawn(user, uuid.uuid4())
    assert absent == ""
    for other in (published.nobody(), AnonymousUser()):
        assert drawn(other, row) == absent
    assert "rnaseq" in drawn(user, row)


def test_without_a_request_nobody_is_logged_in(row, user, settings):
    assert TEMPLATE.render(Context({"run": row})) == ""
    client = Client()
    client.force_login(user)
    there, unasked = (
        client.get(reverse(name, args=[row.public_id])).text
        for name in ("order", "unasked")
    )
    assert "rnaseq" in there
    assert "<main></main>" in unasked
    settings.DJANGO_RAY = {"ACCESS_POLICY": "tests.app.policies.everybody"}
    assert "rnaseq" in TEMPLATE.render(Context({"run": row}))


@pytest.mark.parametrize(
    "run", ["", None, "latest", 5, "\x00", [], SimpleNamespace(id=1)]
)
def test_what_names_no_execution_is_nothing(user, run):
    assert drawn(user, run) == ""


def test_an_execution_is_named_by_what_is_at_hand(row, user):
    bars = {
        re.sub(r"\d+\.?\d* (s|min|h|days) ago", "", drawn(user, each))
        for each in (row, row.public_id, str(row.public_id))
    }
    assert len({re.sub('data-now="[0-9]+"', "", bar) for bar in bars}) == 1
    assert "plain" in drawn(user, taskbook.plain.enqueue())


# What it reads


def test_a_run_of_any_size_costs_one_statement(user):
    for nodes in (10, 25_000):
        RayTaskExecution.objects.all().delete()
        row = stored.make_row()
        stored.report(row, made={"counts": NodeCounts(succeeded=nodes - 1, running=1)})
        with CaptureQueriesContext(connection) as captured:
            assert f"{nodes - 1:,} succeeded, 1 running" in drawn(user, row)
        (query,) = captured.captured_queries
        assert "COUNT(" not in query["sql"].upper()
        assert "progress_data" not in query["sql"].replace("progress_data IS NOT", "")


def test_a_summary_that_is_none_is_said_and_no_error(row, user):
    for damage in ("set_byte(progress_summary, 0, 0)", "'\\x'"):
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE django_ray_execution SET progress_summary = {damage}"
            )
        html = drawn(user, row)
        assert "Detail damaged" in html
        assert "No node is known yet" in html


def test_a_legacy_row_is_not_reported_yet(user):
    row = stored.make_row(progress_data='{"workflow_id": "legacy-graph"}')
    html = drawn(user, row)
    assert "legacy-graph" not in html
    assert "Waiting for the first report" in html


def test_a_database_that_does_not_answer_leaves_the_page(row, user):
    def fail(*_):
        raise OperationalError

    with connection.execute_wrapper(fail):
        html = drawn(user, row)
    assert "cannot be read just now" in html
    assert str(row.public_id) not in html


# What it shows


def test_it_can_be_read_without_a_script(row, user):
    html = drawn(user, row)
    for said in (
        "Running",
        "61 %",
        "122 of 197 nodes ended",
        "120 succeeded, 1 failed, 1 skipped, 12 running, 8 submitted, 55 pending",
        "does not update without JavaScript",
        f'href="/progress/runs/{row.public_id}/"',
        f'data-source="/progress/runs/{row.public_id}/summary"',
    ):
        assert said in html
    assert html.count("<rect") == 6


def test_what_it_polls_answers_whom_it_is_shown(row, user):
    client = Client()
    client.force_login(user)
    (source,) = re.findall('data-source="(.*?)"', drawn(user, row))
    assert client.get(source).json()["percent"] == 61
    assert Client().get(source).status_code == 404


def test_an_ended_run_is_not_polled(row, user):
    RayTaskExecution.objects.update(state="SUCCEEDED", finished_at=pictures.NOW)
    html = drawn(user, row)
    assert "data-source" not in html
    assert "noscript" not in html
    assert "Final" in html


def test_an_attempt_is_named_from_the_second_on(row, user):
    assert "hidden>attempt 1</span>" in drawn(user, row)
    RayTaskExecution.objects.update(attempt_number=2)
    assert ">attempt 2</span>" in drawn(user, row)


def test_where_the_app_is_not_mounted_the_bar_stands_still(row, user, settings):
    settings.ROOT_URLCONF = "tests.web.admin_alone"
    html = drawn(user, row)
    assert "122 of 197 nodes ended" in html
    assert "data-source" not in html
    assert "href" not in html


def test_text_is_text_and_nothing_is_inline(row, user):
    row.task_path = f"tasks.{HOSTILE}\"'"
    row.save()
    html = drawn(user, row)
    assert "<script" not in html
    assert "&lt;script&gt;alert" in html
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=[\"']", html)
