"""Every retry disposition under every policy at every end: what the row comes to."""

from datetime import timedelta

import pytest
from django.tasks import TaskResultStatus
from django.utils import timezone

from actors.names import Lost
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.protocol import summary as summaries
from django_ray.tasks import outcome, requests, transitions
from django_ray.tasks.interruption import GIVE_UP_AFTER
from django_ray.tasks.options import enqueue_with
from tests.app import taskbook
from tests.app.test_worker import Desk

pytestmark = pytest.mark.django_db

DISPOSITIONS = (None, *RetryDisposition)

POLICIES = {
    "one attempt": {},
    "one attempt, idempotent": {"idempotent": True},
    "more attempts": {"max_attempts": 3},
    "more attempts, idempotent": {"max_attempts": 3, "idempotent": True},
}

END, RETRY, OPERATOR = "the end", "RETRY_WAIT", "RECONCILE"

FOLLOWS = {
    # disposition: after each policy
    None: (END, END, RETRY, RETRY),
    RetryDisposition.AUTOMATIC_ALLOWED: (END, END, RETRY, RETRY),
    RetryDisposition.APPLICATION_POLICY_REQUIRED: (END, END, END, RETRY),
    RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED: (OPERATOR,) * 4,
    RetryDisposition.PROHIBITED: (END,) * 4,
}


class Case:
    """One run under a worker, whose session leaves a disposition."""

    def __init__(self, policy, disposition):
        self.desk, self.disposition = Desk(), disposition
        self.id = enqueue_with(taskbook.plain, POLICIES[policy]).id
        self.desk.step()
        self.identity = self.desk.hosts.started[-1]
        transitions.start(self.identity, now=timezone.now(), again=False)

    @property
    def row(self):
        return RayTaskExecution.objects.get(public_id=self.id)

    @property
    def attempt(self):
        return TaskAttempt.objects.get(run_id=self.identity.run_id)

    def note(self, disposition):
        """Have the outer task say so in the attempt's row, while it runs."""
        TaskAttempt.objects.update(retry_disposition=disposition or "")

    def interrupt(self, said):
        """Let the worker interrupt the run, and its outer task say this."""
        for word in (None, said):
            if word is not None:
                self.desk.hosts.ends(word)
            self.desk.clock.now += GIVE_UP_AFTER
            self.desk.worker.step(claiming=False)

    def be_late(self):
        options = {**self.row.options, "timeout_seconds": 60}
        started_at = timezone.now() - timedelta(days=1)
        RayTaskExecution.objects.update(started_at=started_at, options=options)


def raised(case):
    """The outer task tells what its sessions leave; the row had noted the worst."""
    if case.disposition is not None:
        case.note(RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED)
    case.desk.hosts.ends(outcome.Failed("a.B", "B: no", case.disposition))
    case.desk.step()


def lost(case):
    """The outer task is gone: what was noted is all that is known."""
    case.note(case.disposition)
    case.desk.hosts.said[case.identity.run_id] = Lost("WorkerCrashedError")
    case.desk.step()


def late(case):
    case.be_late()
    case.interrupt(outcome.Cancelled(case.disposition))


def late_and_silent(case):
    case.note(case.disposition)
    case.be_late()
    case.interrupt(None)


def cancelled(case):
    requests.cancel(case.row.public_id, now=timezone.now())
    case.interrupt(outcome.Cancelled(case.disposition))


def succeeded(case):
    case.note(case.disposition)
    case.desk.hosts.ends(outcome.Succeeded(b"1"))
    case.desk.step()


STAGES = {
    # how the attempt ends, and as what; None follows a cancellation or a success
    raised: "FAILED",
    lost: "LOST",
    late: "TIMED_OUT",
    late_and_silent: "TIMED_OUT",
    cancelled: "CANCELLED",
    succeeded: "SUCCEEDED",
}

FINAL = (cancelled, succeeded)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("disposition", DISPOSITIONS)
@pytest.mark.parametrize("stage", STAGES)
def test_end_under_a_policy_is_followed_by_what_the_tables_say(
    stage, disposition, policy, finished
):
    case = Case(policy, disposition)

    stage(case)

    follows = FOLLOWS[disposition][list(POLICIES).index(policy)]
    if stage in FINAL:
        follows = END
    row, attempt = case.row, case.attempt
    assert row.state == (STAGES[stage] if follows is END else follows)
    assert attempt.state == STAGES[stage]
    assert summaries.decode(bytes(attempt.terminal_summary)).state == STAGES[stage]
    assert (row.finished_at is not None) is (follows is END)
    assert len(finished) == (follows is END)
    assert case.desk.hosts.released == [case.identity]
    assert not hasattr(row, "lease")


@pytest.mark.parametrize("disposition", DISPOSITIONS)
def test_attempt_keeps_what_it_left(disposition):
    case = Case("one attempt", disposition)
    raised(case)
    assert case.attempt.retry_disposition == (disposition or "")


@pytest.mark.parametrize(("noted", "kept"), [("", ""), ("X", "PROHIBITED")])
def test_what_succeeded_is_never_repeated_by_itself(noted, kept):
    unheard = RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED
    case = Case("one attempt", unheard if noted else None)
    succeeded(case)
    assert case.attempt.retry_disposition == kept


def test_tables_hold_every_disposition_and_policy():
    assert set(FOLLOWS) == set(DISPOSITIONS)
    assert {len(ends) for ends in FOLLOWS.values()} == {len(POLICIES)}


def test_run_whose_cancellation_was_asked_for_waits_for_nobody():
    """It failed before the worker could interrupt it."""
    unheard = RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED
    case = Case("more attempts, idempotent", unheard)
    requests.cancel(case.row.public_id, now=timezone.now())
    raised(case)

    assert case.row.state == "FAILED"
    assert case.attempt.retry_disposition == unheard


def test_row_whose_options_cannot_be_read_waits_for_an_operator_all_the_same():
    unheard = RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED
    case = Case("one attempt", unheard)
    RayTaskExecution.objects.update(options={"policy": "no such"})
    raised(case)

    assert case.row.state == "RECONCILE"


def test_execution_in_reconcile_is_running_for_django_with_its_error():
    case = Case("one attempt", RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED)
    raised(case)

    result = taskbook.plain.get_result(case.id)
    assert (result.status, result.is_finished) == (TaskResultStatus.RUNNING, False)
    assert [error.traceback for error in result.errors] == ["B: no"]
