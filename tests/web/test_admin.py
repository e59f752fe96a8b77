"""The admin: who sees its pages, what they select, and that nothing stored breaks them."""

import datetime as dt
import json
import re
import uuid

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_ray.admin import between
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts
from tests.app import pictures, published, stored

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.web.mounted")]

HOSTILE = "</pre><script>alert('x')</script><img src=x onerror=alert(1)>"
LISTS = ("raytaskexecution", "taskattempt")


def address(model, what="changelist", *args):
    return reverse(f"admin:django_ray_{model}_{what}", args=args)


def polled(row):
    return address("raytaskexecution", "summary", row.public_id)


def pages(row):
    """Return every page of the admin that shows this execution."""
    found = [address(model) for model in LISTS]
    found.append(address("raytaskexecution", "change", row.pk))
    found += [address("taskattempt", "change", each.pk) for each in row.attempts.all()]
    return found


def log_in(user):
    client = Client()
    client.force_login(user)
    return client


def asked(client, *addresses):
    """Return the SQL of asking for these addresses, each of which answers 200."""
    with CaptureQueriesContext(connection) as captured:
        for each in addresses:
            assert client.get(each).status_code == 200, each
    return [query["sql"] for query in captured.captured_queries]


@pytest.fixture
def client(db):
    return log_in(published.root())


@pytest.fixture
def row(db):
    row = stored.make_row()
    stored.report(row)
    stored.add_attempt(row, "ValueError", "Traceback\nValueError: no")
    return row


# Who sees them


def test_who_may_not_see_every_run_sees_none_of_it(row):
    permission = Permission.objects.get(codename="view_raytaskexecution")
    staff = User.objects.create_user("staff", is_staff=True)
    reader = User.objects.create_user("reader")
    reader.user_permissions.add(permission)
    for client, status in (
        (Client(), 302),
        (log_in(reader), 302),
        (log_in(staff), 403),
    ):
        for each in pages(row):
            answer = client.get(each)
            assert answer.status_code == status, each
            assert "rnaseq" not in answer.text
    assert "django_ray" not in log_in(staff).get(reverse("admin:index")).text
    assert Client().get(polled(row)).status_code == 302
    assert log_in(staff).get(polled(row)).status_code == 404
    staff.user_permissions.add(permission)
    for each in (*pages(row), polled(row)):
        assert log_in(staff).get(each).status_code == 200


def test_not_yours_and_not_there_are_refused_alike(row):
    client = log_in(User.objects.create_user("staff", is_staff=True))
    for model in LISTS:
        for what in ("change", "history", "delete"):
            texts = {
                re.sub(r'name="csrf.*?>', "", client.get(address(model, what, pk)).text)
                for pk in (row.pk, row.attempts.get().pk, row.pk + 10_000)
            }
            assert len(texts) == 1, what
    absent = reverse("admin:django_ray_raytaskexecution_summary", args=[uuid.uuid4()])
    assert client.get(polled(row)).content == client.get(absent).content


def test_the_access_policy_decides(row, settings):
    settings.DJANGO_RAY = {"ACCESS_POLICY": "tests.app.policies.of_queue_mine"}
    client = log_in(published.root())
    assert client.get(address("raytaskexecution")).status_code == 403
    change = address("raytaskexecution", "change", row.pk)
    assert client.get(change).status_code == 403
    RayTaskExecution.objects.update(queue_name="mine")
    assert client.get(change).status_code == 200
    attempt = address("taskattempt", "change", row.attempts.get().pk)
    assert client.get(attempt).status_code == 200


def test_nothing_can_be_written(row, client):
    for model in LISTS:
        assert client.get(address(model, "add")).status_code == 403
        assert client.post(address(model, "add")).status_code == 403
    pks = {"raytaskexecution": row.pk, "taskattempt": row.attempts.get().pk}
    for model, pk in pks.items():
        for what in ("change", "delete"):
            answer = client.post(address(model, what, pk), {"post": "yes"})
            assert answer.status_code == 403, (model, what)
        action = {"action": "delete_selected", "_selected_action": pk}
        client.post(address(model), action)
        page = client.get(address(model, "change", pk)).text
        assert 'name="_save"' not in page
        assert "delete_selected" not in client.get(address(model)).text
    assert client.post(polled(row)).status_code == 405
    assert RayTaskExecution.objects.filter(pk=row.pk, state="RUNNING").exists()
    assert TaskAttempt.objects.count() == 1


# What they ask


def test_nothing_is_counted_and_no_payload_selected(row, client):
    lists = [
        f"{address(model)}{query}"
        for model in LISTS
        for query in (
            "",
            "?q=3f0c",
            "?state__exact=RUNNING",
            "?p=1",
            "?all=",
            "?_facets=",
        )
    ]
    histories = [address("raytaskexecution", "history", row.pk)]
    statements = asked(client, *lists, *pages(row), *histories, polled(row))
    for sql in statements:
        assert "COUNT(" not in sql.upper()
        assert "progress_data" not in sql.replace("e.progress_data IS NOT NULL", "")
        whole = sql.replace("octet_length(e.progress_summary)", "")
        assert "progress_summary" not in whole or str(V1.summary) in whole
        for table in ("run", "manifest", "page", "node_detail", "stages"):
            assert f"django_ray_{table} " not in sql.replace('"', " ")
        assert '"arguments"' not in sql
        assert '"result"' not in sql


def test_a_run_of_any_size_costs_the_same_statements(client):
    numbers = []
    for nodes in (10, 25_000):
        RayTaskExecution.objects.all().delete()
        row = stored.make_row()
        counts = NodeCounts(succeeded=nodes - 1, running=1)
        stored.report(row, made={"counts": counts})
        stored.add_attempt(row)
        # What is asked once a process, of content types, is asked before.
        asked(client, *pages(row), polled(row))
        numbers.append(
            [len(asked(client, each)) for each in (*pages(row), polled(row))]
        )
    assert numbers[0] == numbers[1]
    # The user, and one of the panel.
    assert numbers[0][-1] == 2


def test_a_list_of_many_costs_as_many_statements_as_one_of_few(row, client):
    few = [len(asked(client, address(model))) for model in LISTS]
    for _ in range(120):
        made = stored.make_row(public_id=uuid.uuid4(), run_id=uuid.uuid4())
        stored.add_attempt(made)
    assert [len(asked(client, address(model))) for model in LISTS] == few


def test_a_poll_that_finds_nothing_new_is_not_modified(row, client):
    answer = client.get(polled(row))
    assert answer.json()["revision"] == 412
    again = client.get(polled(row), headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(polled(row), {"legacy": "true"}).status_code == 400
    assert client.get(polled(row), {"attempt": 1}).status_code == 400


# Lists


def test_a_list_turns_pages_without_a_total(client):
    for n in range(101):
        when = pictures.NOW + dt.timedelta(seconds=n)
        stored.make_row(public_id=uuid.UUID(int=n), run_id=None, enqueued_at=when)
    first = client.get(address("raytaskexecution"))
    assert "100 shown" in first.text
    assert 'href="?p=2"' in first.text
    newest = first.context["cl"].result_list[0]
    assert newest.public_id == uuid.UUID(int=100)
    second = client.get(address("raytaskexecution"), {"p": "2"})
    assert "1 shown" in second.text
    for page in ("3", "0", "-1", "101", "9" * 40, "x", "\u0662"):
        answer = client.get(address("raytaskexecution"), {"p": page})
        assert answer.status_code in (200, 302), page
    assert "100 shown" in client.get(address("raytaskexecution"), {"all": ""}).text


@pytest.mark.parametrize("model", LISTS)
@pytest.mark.parametrize(
    ("beginning", "found"),
    [
        ("3f0c6d52", 1),
        ("3F0C6D52-8a1e", 1),
        (str(pictures.PUBLIC_ID), 1),
        ("3f0c6d53", 0),
        ("rnaseq", 0),
        ("3f0c%", 0),
        ("f" * 33, 0),
        (" ", 1),
    ],
)
def test_a_list_is_searched_by_how_the_id_begins(row, client, model, beginning, found):
    answer = client.get(address(model), {"q": beginning})
    assert answer.status_code == 200
    assert len(answer.context["cl"].result_list) == found
    assert "result" not in re.sub(r"<[^>]*>", "", answer.text).lower()


def test_a_search_reads_a_range_of_the_unique_index(row):
    others = RayTaskExecution.objects.bulk_create(
        RayTaskExecution(task_path="a.task", enqueued_at=row.enqueued_at)
        for _ in range(500)
    )
    TaskAttempt.objects.bulk_create(
        TaskAttempt(
            execution=other,
            attempt_number=1,
            execution_generation=1,
            run_id=uuid.uuid4(),
            worker="w",
            state="FAILED",
            claimed_at=other.enqueued_at,
        )
        for other in others
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_ray_execution, django_ray_attempt")
    for model in LISTS:
        admin = site.get_model_admin(
            {m._meta.model_name: m for m in site._registry}[model]
        )
        queryset = admin.model.objects.all().order_by()
        found, _ = admin.get_search_results(None, queryset, "3f0c6d52")
        assert "django_ray_execution_public_id" in found.explain()


def test_an_address_is_no_query_language(row, client):
    for query in ("progress_data__contains=x", "state__regex=.", "arguments__a=1"):
        assert client.get(f"{address('raytaskexecution')}?{query}").status_code == 400
    assert client.get(f"{address('taskattempt')}?worker=w").status_code == 400


@pytest.mark.parametrize("model", LISTS)
def test_a_state_that_there_is_not_leads_back_to_the_list(row, client, model):
    for states in (
        "state__exact=%00",
        "state__exact=NONE",
        "state__exact=",
        "state__exact=RUNNING&state__exact=%00",
        f"state__exact={'x' * 5_000}",
    ):
        answer = client.get(f"{address(model)}?{states}")
        assert (answer.status_code, answer["Location"][-4:]) == (302, "?e=1"), states
    both = "state__exact=RUNNING&state__exact=FAILED"
    found = client.get(f"{address(model)}?{both}").context["cl"].result_list
    assert len(found) == 1


def test_ids_that_begin_alike_are_one_range():
    least, greatest = between("3f0c-6")
    assert str(least) == "3f0c6000-0000-0000-0000-000000000000"
    assert str(greatest) == "3f0c6fff-ffff-ffff-ffff-ffffffffffff"
    assert between("") is None


# What they show


def test_a_page_shows_the_panel_and_the_ways_on(row, client):
    text = client.get(address("raytaskexecution", "change", row.pk)).text
    assert f'data-source="{polled(row)}"' in text
    assert f'href="/progress/runs/{row.public_id}/"' in text
    assert "122 of 197 nodes ended" in text
    assert "120 succeeded, 1 failed, 1 skipped" in text
    assert f'href="{address("taskattempt")}?q={row.public_id}"' in text
    assert 'type="module"' in text
    attempt = client.get(address("taskattempt", "change", row.attempts.get().pk)).text
    assert f'data-source="{polled(row)}"' in attempt
    assert 'data-attempt="1"' in attempt
    assert "ValueError: no" in attempt
    assert f'href="{address("raytaskexecution", "change", row.pk)}"' in attempt


def test_an_earlier_attempt_stands_still(row, client):
    first = row.attempts.get()
    first.terminal_summary = row.progress_summary
    first.state, first.finished_at = "FAILED", pictures.NOW
    first.save()
    row.attempt_number, row.execution_generation = 2, 2
    row.run_id, row.progress_summary = uuid.uuid4(), None
    row.save()
    text = client.get(address("taskattempt", "change", first.pk)).text
    assert "data-source" not in text
    assert "120 succeeded" in text


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED"])
def test_a_legacy_row_is_not_reported_yet(client, state):
    secret = json.dumps({"schema_version": 2, "workflow_id": "legacy-graph"})
    row = stored.make_row(state=state, progress_data=secret)
    stored.add_attempt(row)
    for each in (*pages(row), polled(row)):
        text = client.get(each).text
        assert "legacy-graph" not in text
    said = client.get(polled(row)).json()
    assert (said["revision"], said["detail"]["availability"]) == (None, "NOT_REPORTED")
    page = client.get(address("raytaskexecution", "change", row.pk)).text
    assert "NOT_REPORTED" in page
    assert "No node yet" in page


@pytest.mark.parametrize(
    "damage",
    [
        "progress_summary = set_byte(progress_summary, 0, 0)",
        "progress_summary = '\\x'",
        "progress_summary = progress_summary || repeat(' ', 20000)::bytea",
        "progress_summary = convert_to('[1,2', 'UTF8')",
    ],
)
def test_what_is_no_summary_is_neither_decoded_nor_an_error(row, client, damage):
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE django_ray_execution"
            " DROP CONSTRAINT django_ray_execution_summary_size"
        )
        cursor.execute(f"UPDATE django_ray_execution SET {damage}")
    for each in pages(row):
        assert client.get(each).status_code == 200
    page = client.get(address("raytaskexecution", "change", row.pk)).text
    assert "Detail damaged" in page
    assert client.get(polled(row)).json()["detail"]["availability"] == "CORRUPT"


def test_what_users_write_is_text_and_nothing_is_inline(row, client):
    row.task_path, row.queue_name, row.backend = f"tasks.{HOSTILE}", HOSTILE, HOSTILE
    row.save()
    row.attempts.update(worker=HOSTILE, error_class=HOSTILE, error_text=HOSTILE)
    for each in pages(row):
        text = client.get(each).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "&lt;script&gt;alert" in text
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=[\"']|javascript:", text)
        assert not re.search(r"<script(?![^>]*\bsrc=)", text)


def test_without_the_apps_addresses_there_is_no_way_to_its_page(row, settings):
    settings.ROOT_URLCONF = "tests.web.admin_alone"
    client = log_in(published.root())
    text = client.get(f"/admin/django_ray/raytaskexecution/{row.pk}/change/").text
    assert "data-source" in text
    assert "/runs/" in text
    assert "/progress/" not in text
