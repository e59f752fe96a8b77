"""Adoption: a run whose lease has ended goes on under another worker's."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.protocol.vocabulary import WorkflowState
from django_ray.tasks import transitions
from django_ray.tasks.outcome import Failed
from django_ray.tasks.transitions import Recorded, Stale
from tests.app import taskbook
from tests.app.executions import (
    LATER,
    LEASE,
    NOW,
    abandon,
    adopt,
    claim,
    claimed,
    row,
    running,
)

pytestmark = pytest.mark.django_db

ERROR = Failed("builtins.ValueError", "ValueError: no")


@pytest.mark.parametrize(("make", "has_begun"), [(claimed, False), (running, True)])
def test_run_whose_lease_has_ended_is_adopted_as_it_is(make, has_begun):
    held = make()
    before = RayTaskExecution.objects.values().get()
    abandon()

    orphan = adopt()

    assert orphan.has_begun is has_begun
    assert orphan.held.identity == held.identity
    assert (orphan.held.owner, orphan.held.lease_epoch) == ("another", 2)
    lease = ExecutionLease.objects.get()
    assert (lease.owner, lease.lease_epoch, lease.cluster) == ("another", 2, "here")
    assert RayTaskExecution.objects.values().get() == before


def test_run_without_a_lease_is_adopted():
    held = running()
    ExecutionLease.objects.all().delete()

    orphan = adopt()

    assert orphan.held.identity == held.identity
    assert ExecutionLease.objects.get().lease_epoch == 1


def test_run_whose_lease_holds_is_not_adopted_and_takes_one_statement_to_see():
    running()

    with CaptureQueriesContext(connection) as asked:
        assert adopt() is None

    assert len(asked) == 1


@pytest.mark.parametrize(
    "terms", [{"queues": ["other"]}, {"backends": ["other"]}], ids=str
)
def test_worker_adopts_what_it_serves(terms):
    running()
    abandon()

    assert adopt(**terms) is None


def test_worker_does_not_adopt_what_it_watches():
    held = running()
    abandon()

    assert adopt(watched=[held.identity.task_execution_pk]) is None


@pytest.mark.parametrize("state", ["QUEUED", "RETRY_WAIT", "RECONCILE", "SUCCEEDED"])
def test_only_a_run_that_needs_a_worker_is_adopted(state):
    running()
    abandon()
    RayTaskExecution.objects.update(state=state)

    assert adopt() is None


def test_run_of_another_cluster_is_left_to_its_own_workers_for_a_while():
    running()
    abandon()
    assert adopt(cluster="there") is None

    abandon(3 * LEASE + timedelta(seconds=1))
    assert adopt(cluster="there") is not None
    assert ExecutionLease.objects.get().cluster == "there"


def test_what_a_worker_leaves_is_adopted_at_once():
    held = running()

    assert transitions.leave("somebody", is_over=True) == 0
    assert adopt() is None
    assert transitions.leave("worker", is_over=False) == 1

    assert adopt(cluster="there") is None
    assert adopt().held.identity == held.identity


def test_what_a_worker_leaves_of_a_ray_that_has_ended_is_adopted_by_any_cluster():
    held = running()

    transitions.leave("worker", is_over=True)

    assert adopt(cluster="there").held.identity == held.identity


def test_worker_that_was_paused_while_its_run_was_adopted_records_nothing():
    held = running()
    abandon()
    orphan = adopt()

    assert not transitions.renew(held, LEASE)
    assert transitions.succeed(held, b"1", now=LATER) == Stale()
    lost = transitions.fail(held, WorkflowState.LOST, ERROR, reason="x", now=LATER)
    assert lost == Stale()
    assert row(held).state == "RUNNING"
    assert isinstance(transitions.succeed(orphan.held, b"2", now=LATER), Recorded)
    assert row(held).result == 2


def test_claimed_run_that_was_adopted_begins_once():
    held = claimed()
    abandon()
    adopt()

    first = transitions.start(held.identity, now=NOW, again=False)
    assert isinstance(first, Recorded)
    assert transitions.start(held.identity, now=NOW, again=False) == Stale()


def elsewhere(call):
    """Return what `call` returns on a connection of its own."""
    found = []

    def work():
        try:
            found.append(call())
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    return found[0]


@pytest.mark.django_db(transaction=True)
def test_what_another_worker_is_adopting_is_passed_over():
    running()
    second = taskbook.plain.enqueue()
    transitions.start(claim().identity, now=NOW, again=False)
    abandon()

    with transaction.atomic():
        adopt("first")
        orphan = elsewhere(adopt)

    assert str(row(orphan.held).public_id) == second.id


@pytest.mark.django_db(transaction=True)
def test_lease_that_is_renewed_while_it_is_being_adopted_stays():
    held = running()
    abandon()
    seen = []

    def renew(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and not seen:
            seen.append(elsewhere(lambda: transitions.renew(held, LEASE)))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(renew):
        assert adopt() is None

    assert seen == [True]
    assert transitions.renew(held, LEASE)
