"""The worker's loop over rows, with hosts that do what the test says."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.tasks.signals import task_finished
from django.test.utils import CaptureQueriesContext

from actors.names import Ended, Lost, Running
from django_ray.identity import RunIdentity
from django_ray.models.executions import ExecutionLease, RayTaskExecution
from django_ray.protocol import summary as summaries
from django_ray.tasks import outcome, transitions, worker
from django_ray.tasks.worker import Terms, Worker
from tests.app import taskbook
from tests.app.executions import (
    LEASE,
    NOW,
    abandon,
    adopt,
    claim,
    claimed,
    come_due,
    running,
)


class Hosts:
    """A cluster whose hosts answer what the test puts into `said`, by run id."""

    def __init__(self):
        self.started = []
        self.released = []
        self.there = set()
        self.cancelled = []
        self.said = {}
        self.fault = None

    def start(self, identity):
        if self.fault is not None:
            raise self.fault
        self.started.append(identity)
        self.there.add(identity)
        return HostOf(self, identity)

    def find(self, identity):
        if self.fault is not None:
            raise self.fault
        return HostOf(self, identity) if identity in self.there else None

    def release(self, identity):
        self.released.append(identity)
        if self.fault is not None:
            raise self.fault

    def ends(self, said):
        self.said[self.started[-1].run_id] = Ended(outcome.encode(said))


class HostOf:
    def __init__(self, hosts, identity):
        self.hosts, self.identity = hosts, identity

    def outcome(self, timeout_s):
        return self.hosts.said.get(self.identity.run_id, Running())

    def cancel(self, *, force):
        self.hosts.cancelled.append((self.identity, force))
        if self.hosts.fault is not None:
            raise self.hosts.fault


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


class Desk:
    """A worker with its hosts and its clock."""

    def __init__(self, concurrency=2):
        self.hosts, self.clock = Hosts(), Clock()
        terms = Terms(
            owner="worker",
            cluster="here",
            backends={"default"},
            queues={"default"},
            concurrency=concurrency,
            lease=LEASE,
            redact=(),
        )
        self.worker = Worker(terms, self.hosts, self.clock)

    def look(self):
        """Let the time pass after which a worker looks for runs nobody watches."""
        self.clock.now += LEASE / 3
        return self.step()

    def step(self):
        return self.worker.step(claiming=True)

    def started(self, task=taskbook.plain):
        """Enqueue one execution and let its host start and its outer task begin."""
        task.enqueue()
        self.step()
        identity = self.hosts.started[-1]
        transitions.start(identity, now=self.clock(), again=False)
        return identity


def row(identity):
    return RayTaskExecution.objects.get(pk=identity.task_execution_pk)


@pytest.fixture
def desk(db):
    return Desk()


def test_nothing_to_do_moves_nothing(desk):
    assert not desk.step()
    assert desk.worker.is_idle


def test_claimed_execution_has_its_host_started_once(desk):
    taskbook.plain.enqueue()

    assert desk.step()
    assert not desk.step()

    (identity,) = desk.hosts.started
    assert row(identity).state == "CLAIMED"
    assert str(row(identity).run_id) == identity.run_id


def test_no_more_is_claimed_than_fits(desk):
    for _ in range(3):
        taskbook.plain.enqueue()
    while desk.step():
        pass

    assert len(desk.hosts.started) == 2
    assert RayTaskExecution.objects.filter(state="QUEUED").count() == 1


def test_nothing_is_claimed_while_draining(desk):
    taskbook.plain.enqueue()

    assert not desk.worker.step(claiming=False)


def test_success_is_recorded_announced_and_let_go(desk, finished):
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b'{"n": 1}'))

    assert desk.step()

    assert (row(identity).state, row(identity).result) == ("SUCCEEDED", {"n": 1})
    assert desk.hosts.released == [identity]
    assert desk.worker.is_idle
    assert [result.return_value for result in finished] == [{"n": 1}]


def test_attempt_that_another_follows_is_let_go_and_not_announced(desk, finished):
    first = desk.started(taskbook.stubborn)
    desk.hosts.said[first.run_id] = Lost("ActorDiedError")

    desk.step()
    assert row(first).state == "RETRY_WAIT"
    assert desk.hosts.released == [first]
    assert finished == []
    come_due()
    desk.step()
    second = desk.hosts.started[-1]
    transitions.start(second, now=desk.clock(), again=False)
    desk.hosts.ends(outcome.Succeeded(b"1"))
    desk.step()

    assert row(second).state == "SUCCEEDED"
    assert [result.return_value for result in finished] == [1]


@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        (Ended(outcome.encode(outcome.Failed("a.B", "x"))), "FAILED", "error"),
        (Ended(outcome.encode(outcome.Cancelled())), "CANCELLED", "cancelled"),
        (Ended(outcome.encode(outcome.Refused())), "FAILED", "refused"),
        (Ended(b"nonsense"), "FAILED", "malformed_outcome"),
        (Lost("ActorDiedError"), "LOST", "host_lost"),
    ],
)
def test_every_other_end_is_recorded_with_its_reason(
    desk, finished, said, state, reason
):
    identity = desk.started()
    desk.hosts.said[identity.run_id] = said

    desk.step()

    execution = row(identity)
    assert execution.state == state
    assert execution.attempts.get().error_class
    closed = summaries.decode(bytes(execution.progress_summary))
    assert (closed.state, closed.terminal.reason) == (state, reason)
    assert len(finished) == 1
    assert desk.hosts.released == [identity]


def test_host_that_does_not_start_fails_its_execution_and_pauses_the_claims(desk):
    taskbook.plain.enqueue()
    taskbook.plain.enqueue()
    desk.hosts.fault = ConnectionError("postgresql://root:hunter2@db")

    desk.step()
    desk.step()

    failed = RayTaskExecution.objects.get(state="FAILED")
    text = failed.attempts.get().error_text
    assert "The run's host could not be started." in text
    assert "ConnectionError" in text
    assert "hunter2" not in text
    assert RayTaskExecution.objects.filter(state="QUEUED").count() == 1

    desk.hosts.fault = None
    desk.clock.now += worker.START_PAUSE
    desk.step()
    assert len(desk.hosts.started) == 1


def test_result_that_postgresql_refuses_fails_the_execution(desk):
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b'"a\\u0000b"'))

    desk.step()

    assert row(identity).state == "FAILED"
    assert "DataError" in row(identity).attempts.get().error_class


def test_row_that_cannot_be_read_is_claimed_and_can_end(desk):
    taskbook.plain.enqueue()
    RayTaskExecution.objects.update(options={"policy": "no such"})
    desk.step()
    (identity,) = desk.hosts.started
    assert row(identity).plan is None

    desk.hosts.said[identity.run_id] = Lost("ActorDiedError")
    desk.step()

    assert row(identity).state == "LOST"


def test_outcome_of_a_run_that_lost_its_row_changes_nothing(desk, finished):
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))
    RayTaskExecution.objects.update(execution_generation=2)

    desk.step()

    assert row(identity).state == "RUNNING"
    assert finished == []
    assert desk.worker.is_idle


def test_lease_is_prolonged_after_a_third_of_it(desk):
    desk.started()
    before = ExecutionLease.objects.get().expires_at
    desk.clock.now += LEASE / 3 - timedelta(milliseconds=1)
    desk.step()
    assert ExecutionLease.objects.get().expires_at == before

    desk.clock.now += timedelta(milliseconds=1)
    desk.step()

    assert ExecutionLease.objects.get().expires_at > before


def test_a_clock_that_is_set_back_stops_no_renewal(desk):
    desk.started()
    before = ExecutionLease.objects.get().expires_at
    desk.clock.now -= timedelta(hours=1)

    desk.step()

    assert ExecutionLease.objects.get().expires_at > before


def test_leases_are_renewed_while_hosts_take_their_time(desk, monkeypatch):
    renewed = []

    def renew(held, lease):
        renewed.append(held.identity.task_execution_pk)
        return True

    def outcome_of_a_slow_host(host, timeout_s):
        desk.clock.now += LEASE / 3
        return Running()

    slow, fast = desk.started(), desk.started()
    monkeypatch.setattr(transitions, "renew", renew)
    monkeypatch.setattr(HostOf, "outcome", outcome_of_a_slow_host)

    desk.step()

    both = [slow.task_execution_pk, fast.task_execution_pk]
    assert renewed == both


def test_execution_whose_lease_is_anothers_is_no_longer_watched(desk):
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))
    ExecutionLease.objects.update(owner="another", lease_epoch=2)
    desk.clock.now += LEASE

    desk.step()

    assert desk.worker.is_idle
    assert row(identity).state == "RUNNING"


def test_receiver_that_fails_does_not_stop_the_worker(desk, caplog):
    def receive(sender, **kwargs):
        raise RuntimeError

    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))
    task_finished.connect(receive)
    try:
        desk.step()
    finally:
        task_finished.disconnect(receive)

    assert row(identity).state == "SUCCEEDED"


def test_task_that_is_gone_is_recorded_without_a_signal(desk, finished):
    identity = desk.started()
    RayTaskExecution.objects.update(task_path="tests.app.taskbook.gone")
    desk.hosts.ends(outcome.Succeeded(b"1"))

    desk.step()

    assert row(identity).state == "SUCCEEDED"
    assert finished == []


def test_actors_that_cannot_be_ended_do_not_stop_the_worker(desk):
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))
    desk.hosts.fault = ConnectionError()

    desk.step()

    assert row(identity).state == "SUCCEEDED"
    assert desk.worker.is_idle


def test_claim_whose_answer_was_lost_is_started(desk):
    taskbook.plain.enqueue()
    held = claim("worker")

    assert isinstance(held.identity, RunIdentity)
    desk.step()

    assert desk.hosts.started == [held.identity]


def orphaned(make):
    """Let another worker's lease have ended; return the run."""
    held = make()
    ExecutionLease.objects.update(owner="gone")
    abandon()
    return held.identity


@pytest.mark.parametrize("make", [claimed, running])
def test_run_that_nobody_watches_is_adopted_and_its_outcome_recorded(desk, make):
    identity = orphaned(make)
    desk.hosts.there.add(identity)

    desk.step()
    desk.hosts.said[identity.run_id] = Ended(outcome.encode(outcome.Succeeded(b"7")))
    desk.step()

    assert (row(identity).state, row(identity).result) == ("SUCCEEDED", 7)
    assert desk.hosts.started == []
    assert desk.hosts.released == [identity]


def test_adopted_run_that_has_not_begun_has_its_host_started(desk):
    identity = orphaned(claimed)

    desk.step()

    assert desk.hosts.started == [identity]
    assert row(identity).state == "CLAIMED"


def test_adopted_run_that_had_begun_and_has_no_host_is_lost(desk, finished):
    identity = orphaned(running)

    desk.step()

    execution = row(identity)
    assert execution.state == "LOST"
    closed = summaries.decode(bytes(execution.progress_summary))
    assert (closed.state, closed.terminal.reason) == ("LOST", "host_lost")
    assert desk.hosts.started == []
    assert len(finished) == 1


def test_adopted_run_whose_cluster_does_not_answer_is_asked_for_again(desk):
    identity = orphaned(running)
    desk.hosts.there.add(identity)
    desk.hosts.fault = ConnectionError()

    desk.step()
    assert row(identity).state == "RUNNING"
    assert desk.worker.is_idle

    desk.hosts.fault = None
    desk.clock.now += worker.START_PAUSE
    desk.step()
    assert not desk.worker.is_idle
    assert ExecutionLease.objects.get().lease_epoch == 2


def test_full_or_draining_worker_adopts_nothing(db):
    desk = Desk(concurrency=1)
    desk.started()
    taskbook.plain.enqueue()
    held = claim("another")
    ExecutionLease.objects.filter(owner="another").update(expires_at=NOW)

    desk.look()
    desk.worker.step(claiming=False)

    assert row(held.identity).lease.owner == "another"


def test_worker_looks_for_what_nobody_watches_after_a_third_of_a_lease(desk):
    desk.step()
    identity = orphaned(claimed)

    desk.step()
    assert desk.hosts.started == []
    desk.look()
    assert desk.hosts.started == [identity]


def test_worker_whose_run_was_adopted_leaves_it_alone(desk, finished):
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))
    abandon()
    assert adopt() is not None

    desk.step()

    assert row(identity).state == "RUNNING"
    assert desk.hosts.released == []
    assert finished == []
    assert desk.worker.is_idle


@pytest.mark.django_db(transaction=True)
def test_postgresql_away_is_waited_for_and_nothing_watched_is_forgotten():
    desk = Desk()
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))

    def away(execute, sql, params, many, context):
        raise OperationalError("the server is gone")

    with connection.execute_wrapper(away):
        assert not desk.step()
        assert not desk.step()
    desk.step()

    assert row(identity).state == "SUCCEEDED"
    assert desk.hosts.started == [identity]


@pytest.mark.django_db(transaction=True)
def test_a_server_that_only_reads_for_a_while_is_waited_for_like_one_that_is_away():
    desk = Desk()
    identity = desk.started()
    desk.hosts.ends(outcome.Succeeded(b"1"))

    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    assert not desk.step()
    desk.step()

    assert row(identity).state == "SUCCEEDED"
    assert desk.hosts.started == [identity]


def test_an_end_is_recorded_though_the_tasks_module_is_broken_by_now(
    desk, finished, tmp_path, monkeypatch
):
    identity = desk.started()
    (tmp_path / "broken_by_now.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    RayTaskExecution.objects.update(task_path="broken_by_now.task")
    desk.hosts.ends(outcome.Succeeded(b"1"))

    assert desk.step()

    assert row(identity).state == "SUCCEEDED"
    assert finished == []


def test_worker_drains_before_it_ends(desk):
    identity = desk.started()
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            desk.hosts.ends(outcome.Succeeded(b"1"))

    desk.worker.run(lambda: True, wait, poll_s=0.1, idle_s=0.5)

    assert waits == [0.1] * 3
    assert row(identity).state == "SUCCEEDED"


def test_idle_worker_makes_at_most_a_statement_a_second(desk):
    began = desk.clock.now

    def wait(seconds):
        desk.clock.now += timedelta(seconds=seconds)

    with CaptureQueriesContext(connection) as asked:
        desk.worker.run(
            lambda: desk.clock.now - began >= timedelta(minutes=2),
            wait,
            poll_s=0.1,
            idle_s=0.5,
        )

    assert 60 <= len(asked) <= 120


def test_worker_that_is_told_of_work_looks_for_it_at_once(desk):
    waits = []

    def wait(seconds):
        """Tell of work the second time; then let the run end."""
        waits.append(len(desk.hosts.started))
        if len(waits) == 2:
            taskbook.plain.enqueue()
            return True
        if desk.hosts.started:
            desk.hosts.ends(outcome.Succeeded(b"1"))
        return False

    desk.worker.run(lambda: len(waits) == 3, wait, poll_s=0.1, idle_s=0.5)

    assert waits == [0, 0, 1]
    assert desk.worker.is_idle


def test_idle_worker_waits_longer(desk):
    waits = []

    desk.worker.run(lambda: len(waits) == 2, waits.append, poll_s=0.1, idle_s=0.5)

    assert waits == [0.5, 0.5]
