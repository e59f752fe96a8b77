"""What an operator decides of an execution whose effects nobody knows."""

import datetime as dt
import uuid

import pytest
from django.core.management import CommandError, call_command
from django.tasks import TaskResultStatus

from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.maintenance.audit import audit
from django_ray.maintenance.cleanup import clean
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import WorkflowRun
from django_ray.protocol import summary as summaries
from django_ray.protocol.vocabulary import WorkflowState
from django_ray.readers import live
from django_ray.tasks import requests, transitions
from django_ray.tasks.outcome import Failed
from django_ray.tasks.requests import Unreconciled, Verdict
from django_ray.tasks.transitions import Held, Reconciling, Recorded, Stale
from tests.app import published, taskbook
from tests.app.executions import LATER, NOW, adopt, claim, claimed, row, running

pytestmark = pytest.mark.django_db

UNHEARD = RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED
ERROR = Failed("a.B", "B: the owner is gone", UNHEARD)


def unsure(state=WorkflowState.FAILED, held=None):
    """Return what holds a run that ended so, its effects unknown."""
    held = held or running()
    ended = transitions.fail(held, state, ERROR, reason="error", now=LATER)
    assert ended == Reconciling()
    return held


def decide(held, verdict):
    return requests.reconcile(row(held).public_id, verdict, now=LATER)


def test_run_has_ended_and_keeps_its_envelope_while_its_execution_waits(finished):
    held = unsure()

    execution = row(held)
    assert (execution.state, execution.finished_at) == ("RECONCILE", None)
    assert str(execution.run_id) == held.identity.run_id
    closed = summaries.decode(bytes(execution.progress_summary))
    assert (closed.state, closed.terminal.reason) == ("FAILED", "error")
    attempt = execution.attempts.get()
    assert (attempt.state, attempt.retry_disposition) == ("FAILED", UNHEARD)
    assert bytes(attempt.terminal_summary) == bytes(execution.progress_summary)
    assert not hasattr(execution, "lease")
    assert finished == []


def test_nothing_of_it_is_claimed_adopted_begun_or_ended_again():
    held = unsure()
    before = RayTaskExecution.objects.values().get()

    assert claim() is None
    assert adopt() is None
    assert transitions.start(held.identity, now=NOW, again=True) == Stale()
    assert transitions.succeed(held, b"1", now=LATER) == Stale()
    assert not transitions.is_active(held.identity)
    assert RayTaskExecution.objects.values().get() == before


def test_retry_lets_it_be_claimed_once_more_though_no_attempt_is_left(capsys):
    held = unsure()
    kept = row(held).attempts.values().get()

    call_command("ray_reconcile", str(row(held).public_id), "--retry")

    assert "RETRY_WAIT" in capsys.readouterr().out
    assert row(held).run_id is None
    second = claim()
    assert second.identity.attempt_number == 2
    assert second.identity.run_id != held.identity.run_id
    assert row(held).attempts.values().earliest("attempt_number") == kept
    assert row(held).attempts.latest("attempt_number").retry_disposition == ""
    transitions.start(second.identity, now=NOW, again=False)
    assert isinstance(transitions.succeed(second, b"7", now=LATER), Recorded)


@pytest.mark.parametrize(
    "state", [WorkflowState.FAILED, WorkflowState.LOST, WorkflowState.TIMED_OUT]
)
def test_abandon_ends_it_as_its_attempt_ended(
    state, finished, capsys, django_capture_on_commit_callbacks
):
    held = unsure(state)
    public_id = str(row(held).public_id)

    with django_capture_on_commit_callbacks(execute=True):
        call_command("ray_reconcile", public_id, "--abandon")

    assert state.value in capsys.readouterr().out
    execution = row(held)
    assert execution.state == state
    assert execution.finished_at is not None
    (result,) = finished
    assert (result.id, result.status) == (public_id, TaskResultStatus.FAILED)
    assert [error.traceback for error in result.errors] == [ERROR.error_text]


@pytest.mark.parametrize("verdict", Verdict)
def test_only_the_first_decision_counts(verdict):
    held = unsure()
    decide(held, Verdict.abandon)
    before = RayTaskExecution.objects.values().get()

    assert decide(held, verdict) == Stale()

    assert RayTaskExecution.objects.values().get() == before


@pytest.mark.parametrize("make", [claimed, running])
def test_what_does_not_wait_for_it_is_not_decided(make):
    held = make()
    state = row(held).state

    assert decide(held, Verdict.abandon) == Stale()

    assert row(held).state == state


def test_command_takes_one_decision_and_says_what_is_wrong():
    public_id = taskbook.plain.enqueue().id
    with pytest.raises(CommandError, match="required"):
        call_command("ray_reconcile", public_id)
    with pytest.raises(CommandError, match="not allowed"):
        call_command("ray_reconcile", public_id, "--retry", "--abandon")
    with pytest.raises(CommandError, match="not in RECONCILE"):
        call_command("ray_reconcile", public_id, "--retry")
    with pytest.raises(CommandError, match="no such"):
        call_command("ray_reconcile", str(uuid.uuid4()), "--abandon")


def test_it_is_neither_cancelled_nor_retried_by_the_way():
    held = unsure()
    public_id = row(held).public_id
    before = RayTaskExecution.objects.values().get()

    assert requests.cancel(public_id, now=LATER) == Unreconciled()
    assert requests.retry(public_id) == Unreconciled()
    for command in ("ray_cancel", "ray_retry"):
        with pytest.raises(CommandError, match="see ray_reconcile"):
            call_command(command, str(public_id))

    assert RayTaskExecution.objects.values().get() == before


def test_what_was_abandoned_is_retried_when_asked():
    held = unsure()
    decide(held, Verdict.abandon)

    assert isinstance(requests.retry(row(held).public_id), Recorded)
    assert claim().identity.attempt_number == 2


@pytest.fixture
def published_run(conn):
    """A run that has published, with its attempt and its worker's lease."""
    run = published.Published(conn, 4)
    run.move([0], "SUCCEEDED")
    execution = run.row
    RayTaskExecution.objects.update(
        task_path="tests.app.taskbook.plain", arguments={"args": [], "kwargs": {}}
    )
    attempt = {
        name: getattr(execution, name)
        for name in ("attempt_number", "execution_generation", "run_id")
    }
    TaskAttempt.objects.create(
        execution=execution, worker="w", state="RUNNING", claimed_at=NOW, **attempt
    )
    transitions.leases.take(
        execution, "w", "here", dt.timedelta(minutes=1), only_ended=False
    )
    return Held(run.mind.identity, "w", 1)


@pytest.mark.django_db(transaction=True)
def test_what_it_published_stays_until_it_is_decided_and_agrees(published_run, capsys):
    unsure(held=published_run)
    run_id = published_run.identity.run_id
    assert audit(run_id).findings == ()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=400)

    clean(using="default", now=later, delete=True, batch_size=100)

    assert WorkflowRun.objects.filter(run_id=run_id).exists()
    assert audit(run_id).findings == ()
    call_command("ray_runs")
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "RECON" in text]
    assert "none" in line
    picture = live.read(row(published_run).public_id)
    assert picture.error == "B: the owner is gone"

    decide(published_run, Verdict.abandon)
    assert audit(run_id).findings == ()
    clean(using="default", now=later, delete=True, batch_size=100)
    assert not WorkflowRun.objects.filter(run_id=run_id).exists()
    assert row(published_run).progress_summary is not None
