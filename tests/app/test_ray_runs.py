"""The list of what is at work."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.readers import active
from django_ray.tasks import requests, transitions
from tests.app import published, taskbook
from tests.app.executions import LATER, abandon, claimed, row, running

pytestmark = pytest.mark.django_db(transaction=True)


def listed(capsys, *arguments):
    call_command("ray_runs", *arguments)
    return capsys.readouterr().out.splitlines()


def test_nothing_at_work_is_said_so(capsys):
    transitions.succeed(running(), b"1", now=LATER)
    taskbook.plain.enqueue()

    assert listed(capsys) == ["Nothing is at work."]


def test_what_is_at_work_is_listed_with_who_watches_it(capsys):
    held = running()
    RayTaskExecution.objects.update(
        claimed_at=timezone.now() - timedelta(minutes=5, seconds=1)
    )

    head, line = listed(capsys)

    assert head.split() == [
        *("ID", "STATE", "ATTEMPT", "AGE", "PROGRESS", "HEARD", "LEASE", "WORKER"),
        "TASK",
    ]
    for said in (
        *(str(row(held).public_id), "RUNNING", " 1 ", "5 min", "worker"),
        "tests.app.taskbook.plain",
    ):
        assert said in line
    assert " 59 s " in line or " 60 s " in line


def test_lease_that_has_ended_or_is_missing_and_a_cancellation_are_said(capsys):
    held = claimed()
    abandon(timedelta(minutes=3))
    requests.cancel(row(held).public_id, now=timezone.now())
    assert "CLAIMED, to be cancelled" in listed(capsys)[1]
    assert "ended 3 min ago" in listed(capsys)[1]

    ExecutionLease.objects.all().delete()
    assert "none" in listed(capsys)[1]


def test_progress_is_the_summarys(capsys, conn):
    run = published.Published(conn, 4)
    run.move([0], "SUCCEEDED")

    line = listed(capsys)[1]
    assert " 25 % " in line
    assert line.split()[-3:-1] == ["none", "\N{EN DASH}"]


def test_list_is_bounded_and_takes_two_statements(capsys):
    for _ in range(3):
        running()

    assert len(listed(capsys, "--limit=2")) == 4
    with CaptureQueriesContext(connection) as asked:
        assert len(active.read(2)) == 2
    selects = [each for each in asked if each["sql"].startswith(("SELECT", "\nSELECT"))]
    assert len(selects) == 2
    for limit in ("0", "257"):
        with pytest.raises(CommandError, match="1 to 256"):
            call_command("ray_runs", f"--limit={limit}")
