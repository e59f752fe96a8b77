"""Every stage of an execution against every action: what the row comes to."""

from datetime import timedelta

import pytest
from django.utils import timezone

from actors.names import Ended
from django_ray.models.executions import RayTaskExecution
from django_ray.tasks import outcome, requests, transitions
from django_ray.tasks.interruption import GIVE_UP_AFTER
from tests.app import taskbook
from tests.app.executions import come_due
from tests.app.test_worker import Desk

pytestmark = pytest.mark.django_db

FAILED = Ended(outcome.encode(outcome.Failed("a.B", "B: no")))


class Case:
    """One execution with three attempts, and the worker of it."""

    def __init__(self):
        self.desk = Desk()
        self.id = taskbook.stubborn.enqueue().id

    @property
    def row(self):
        return RayTaskExecution.objects.get(public_id=self.id)

    def settle(self):
        """Let the worker do what is due, and give up what it waits for."""
        for _ in range(2):
            self.desk.clock.now += GIVE_UP_AFTER
            self.desk.worker.step(claiming=False)


def queued(case):
    """Nothing has happened."""


def claimed(case):
    case.desk.step()


def running(case):
    claimed(case)
    transitions.start(case.desk.hosts.started[-1], now=timezone.now(), again=False)


def waiting(case):
    running(case)
    case.desk.hosts.said[case.desk.hosts.started[-1].run_id] = FAILED
    case.desk.step()


def again(case):
    waiting(case)
    come_due()
    running(case)


def succeeded(case):
    running(case)
    case.desk.hosts.ends(outcome.Succeeded(b"1"))
    case.desk.step()


def failed(case):
    for _ in range(2):
        waiting(case)
        come_due()
    waiting(case)


def cancelled(case):
    running(case)
    cancel(case)
    case.settle()


def cancel(case):
    requests.cancel(case.row.public_id, now=timezone.now())


def time_out(case):
    RayTaskExecution.objects.filter(started_at__isnull=False).update(
        started_at=timezone.now() - timedelta(days=1),
        options={**case.row.options, "timeout_seconds": 60},
    )


def retry(case):
    requests.retry(case.row.public_id)


TABLE = {
    # stage: after cancel, time-out, retry
    queued: ("CANCELLED", "QUEUED", "QUEUED"),
    claimed: ("CANCELLED", "CLAIMED", "CLAIMED"),
    running: ("CANCELLED", "RETRY_WAIT", "RUNNING"),
    waiting: ("CANCELLED", "RETRY_WAIT", "RETRY_WAIT"),
    again: ("CANCELLED", "RETRY_WAIT", "RUNNING"),
    succeeded: ("SUCCEEDED", "SUCCEEDED", "SUCCEEDED"),
    failed: ("FAILED", "FAILED", "RETRY_WAIT"),
    cancelled: ("CANCELLED", "CANCELLED", "RETRY_WAIT"),
}


@pytest.mark.parametrize("act", [cancel, time_out, retry])
@pytest.mark.parametrize("stage", TABLE)
def test_action_at_a_stage_comes_to_what_the_table_says(stage, act):
    case = Case()
    stage(case)
    act(case)

    case.settle()

    expected = TABLE[stage][(cancel, time_out, retry).index(act)]
    row = case.row
    assert row.state == expected
    is_open = expected in ("QUEUED", "CLAIMED", "RUNNING", "RETRY_WAIT")
    assert (row.finished_at is None) is is_open
    has_lease = hasattr(row, "lease")
    assert has_lease is (expected in ("CLAIMED", "RUNNING"))
    assert (row.run_id is None) is (
        expected in ("QUEUED", "RETRY_WAIT") or stage in (queued, waiting)
    )
    for attempt in row.attempts.exclude(run_id=row.run_id):
        assert attempt.terminal_summary is not None
        assert attempt.finished_at is not None


def test_table_holds_every_stage_and_action():
    assert {len(ends) for ends in TABLE.values()} == {3}
