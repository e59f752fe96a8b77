"""What a compiled session leaves decides about the retry, on a real Ray."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.tasks import TaskResultStatus
from django.utils import timezone

from django_ray.maintenance.audit import audit
from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.tasks.options import enqueue_with
from tests.ray import tasks
from tests.ray.conftest import wait_until
from tests.ray.owning import living
from tests.ray.working import row_of, summary_of, work, work_until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.deep,
    pytest.mark.django_db(transaction=True),
]

TWICE = {"strategy": "compiled_graph", "max_attempts": 2, "backoff_seconds": 0}
IDEMPOTENT = {**TWICE, "idempotent": True}


@pytest.fixture(autouse=True)
def nothing_is_left(ray_cluster):
    before = living()
    yield
    wait_until(lambda: not living() - before, 60)
    assert not ExecutionLease.objects.exists()


def left(result):
    """What each attempt came to, and what its sessions left for the next."""
    attempts = row_of(result).attempts.order_by("attempt_number")
    for attempt in attempts:
        assert audit(str(attempt.run_id)).findings == ()
    return [(attempt.state, attempt.retry_disposition) for attempt in attempts]


UNHEARD = "OPERATOR_RECONCILIATION_REQUIRED"


def test_lost_owner_waits_for_an_operator_whose_retry_succeeds(worker):
    result = enqueue_with(tasks.first_time, IDEMPOTENT, "lose")
    work_until(worker, result, "RECONCILE")
    assert left(result) == [("FAILED", UNHEARD)]
    assert "OWNER_LOST" in result.errors[0].traceback
    assert summary_of(result).state == "FAILED"

    call_command("ray_reconcile", result.id, "--retry")
    work(worker, result)

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "lose")
    assert left(result) == [("FAILED", UNHEARD), ("SUCCEEDED", "PROHIBITED")]


def test_outer_task_that_dies_with_an_open_session_waits_for_an_operator(worker):
    result = enqueue_with(tasks.first_time, IDEMPOTENT, "die")
    work_until(worker, result, "RECONCILE")
    assert left(result) == [("LOST", UNHEARD)]

    call_command("ray_reconcile", result.id, "--abandon")

    result.refresh()
    assert (row_of(result).state, result.status) == ("LOST", TaskResultStatus.FAILED)


@pytest.mark.parametrize(
    ("options", "state", "ends"),
    [
        (TWICE, "FAILED", [("FAILED", "APPLICATION_POLICY_REQUIRED")]),
        (
            IDEMPOTENT,
            "SUCCEEDED",
            [
                ("FAILED", "APPLICATION_POLICY_REQUIRED"),
                ("SUCCEEDED", "PROHIBITED"),
            ],
        ),
    ],
    ids=["not declared", "declared"],
)
def test_method_that_raised_is_retried_where_the_task_says_it_may_be(
    worker, options, state, ends
):
    result = work(worker, enqueue_with(tasks.first_time, options, "fine"))

    assert row_of(result).state == state
    assert left(result) == ends


def test_outer_task_that_dies_after_its_session_has_told_what_became_of_it(worker):
    """Its note outlived the transaction in which the session was used."""
    result = work(worker, enqueue_with(tasks.dying_after, TWICE, "fine"))

    assert row_of(result).state == "LOST"
    assert left(result) == [("LOST", "APPLICATION_POLICY_REQUIRED")]


def test_attempt_that_sent_no_input_is_retried_as_any_other(worker):
    result = work(worker, enqueue_with(tasks.refused_at_first, TWICE))

    assert result.return_value == "fine"
    assert left(result) == [("FAILED", ""), ("SUCCEEDED", "PROHIBITED")]


def test_time_out_in_a_method_that_does_not_end_waits_for_an_operator(worker):
    result = enqueue_with(
        tasks.invoked_for, {**IDEMPOTENT, "timeout_seconds": 3_600}, 60
    )

    def is_at_it():
        worker.step(claiming=True)
        return UNHEARD in row_of(result).attempts.values_list(
            "retry_disposition", flat=True
        )

    wait_until(is_at_it)
    RayTaskExecution.objects.update(started_at=timezone.now() - timedelta(hours=1))
    work_until(worker, result, "RECONCILE")

    assert left(result) == [("TIMED_OUT", UNHEARD)]
    assert summary_of(result).terminal.reason == "timed_out"
