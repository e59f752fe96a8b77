"""What is asked of an execution by its public id."""

import uuid

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.tasks import TaskResultStatus
from django.utils import timezone

from django_ray.errors import StorageUnavailable
from django_ray.maintenance.audit import audit, runs_of
from django_ray.models.executions import RayTaskExecution
from django_ray.readers import live
from django_ray.tasks import requests, transitions
from django_ray.tasks.requests import Requested
from django_ray.tasks.transitions import Recorded, Stale
from tests.app import taskbook
from tests.app.executions import LATER, NOW, claim, claimed, row, running

pytestmark = pytest.mark.django_db


def cancel(public_id):
    return requests.cancel(public_id, now=LATER)


def test_what_waits_is_cancelled_at_once_and_never_claimed(
    finished, django_capture_on_commit_callbacks
):
    result = taskbook.plain.enqueue()

    with django_capture_on_commit_callbacks(execute=True):
        assert isinstance(cancel(uuid.UUID(result.id)), Recorded)

    assert claim() is None
    execution = RayTaskExecution.objects.get()
    assert (execution.state, execution.finished_at) == ("CANCELLED", LATER)
    assert execution.progress_summary is None
    result.refresh()
    assert (result.status, result.errors) == (TaskResultStatus.FAILED, [])
    assert [each.id for each in finished] == [result.id]


@pytest.mark.django_db(transaction=True)
def test_what_was_cancelled_before_it_began_can_be_read_and_audited():
    result = taskbook.plain.enqueue()
    cancel(uuid.UUID(result.id))

    assert runs_of(uuid.UUID(result.id)) == []
    picture = live.read(uuid.UUID(result.id))
    assert picture.reading.execution.state == "CANCELLED"


@pytest.mark.parametrize("make", [claimed, running])
def test_what_a_worker_watches_is_only_asked_to_end(make, finished):
    held = make()
    state = row(held).state

    assert cancel(row(held).public_id) == Requested()
    assert cancel(row(held).public_id) == Requested()

    assert (row(held).state, row(held).cancel_requested_at) == (state, LATER)
    assert finished == []


def test_first_request_is_the_one_that_is_kept():
    held = running()
    requests.cancel(row(held).public_id, now=NOW)

    cancel(row(held).public_id)

    assert row(held).cancel_requested_at == NOW


def test_what_has_ended_stays_as_it_is():
    held = running()
    transitions.succeed(held, b"1", now=NOW)

    assert cancel(row(held).public_id) == Stale()

    assert (row(held).state, row(held).cancel_requested_at) == ("SUCCEEDED", None)
    assert audit(held.identity.run_id).findings == ()


def test_command_says_what_becomes_of_it(capsys):
    waiting = taskbook.plain.enqueue().id
    call_command("ray_cancel", waiting)
    assert "CANCELLED" in capsys.readouterr().out
    with pytest.raises(CommandError, match="has ended"):
        call_command("ray_cancel", waiting)
    with pytest.raises(CommandError, match="no such"):
        call_command("ray_cancel", str(uuid.uuid4()))

    call_command("ray_cancel", str(row(running()).public_id))

    assert "asked for" in capsys.readouterr().out
    assert (
        RayTaskExecution.objects.get(state="RUNNING").cancel_requested_at
        <= timezone.now()
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("ray_cancel", "ID"), 1),
        (("ray_retry", "ID"), 1),
        (("ray_reconcile", "ID", "--retry"), 1),
        (("ray_runs",), 1),
        (("watch_run", "ID", "--once"), 4),
        (("django_ray_audit_workflow_progress",), 4),
        (("django_ray_cleanup_workflow_progress",), 4),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else str(each),
)
def test_without_a_database_a_command_says_so_in_one_sentence(
    command, status, monkeypatch
):
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    named = [each.replace("ID", str(uuid.uuid4())) for each in command]

    with pytest.raises(CommandError) as caught:
        call_command(*named)

    assert str(caught.value) == str(StorageUnavailable())
    assert caught.value.returncode == status
