"""What becomes ready wakes the workers that wait, once it is committed."""

import threading
import uuid

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_ray.models.executions import RayTaskExecution
from django_ray.tasks import outcome, requests, waking
from django_ray.tasks.waking import Listener
from tests.app import taskbook
from tests.app.test_worker import Desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def listener():
    """A worker's listening that has begun."""
    listener = Listener({"default"})
    assert listener.wait(0)
    assert not listener.wait(0)
    return listener


def elsewhere(call):
    def work():
        try:
            call()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)


def cut():
    """Let the server end this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()

    def terminate():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

    elsewhere(terminate)


def test_enqueued_task_wakes_a_worker_of_its_queue_once(listener):
    elsewhere(taskbook.plain.enqueue)

    assert listener.wait(5)
    assert not listener.wait(0)


def test_task_of_another_queue_wakes_nobody(listener):
    elsewhere(lambda: waking.wake("other"))

    assert not listener.wait(0.2)


def test_task_wakes_when_its_transaction_commits_and_not_when_it_is_rolled_back(
    listener,
):
    with transaction.atomic():
        taskbook.plain.enqueue()
        transaction.set_rollback(True)
    assert not listener.wait(0)

    with transaction.atomic():
        taskbook.plain.enqueue()
    assert listener.wait(0)


def test_retried_execution_wakes(listener):
    result = taskbook.plain.enqueue()
    requests.cancel(uuid.UUID(result.id), now=timezone.now())
    assert listener.wait(0)

    requests.retry(uuid.UUID(result.id))

    assert listener.wait(0)


def test_new_connection_is_listened_on_and_wakes_for_what_was_missed(listener):
    connection.close()

    assert listener.wait(0)
    taskbook.plain.enqueue()
    assert listener.wait(0)


def test_connection_that_is_cut_is_waited_for_and_made_anew(listener):
    cut()

    assert not listener.wait(0.01)
    assert listener.wait(0.01)


def test_worker_whose_connection_is_cut_goes_on_with_what_comes_meanwhile(listener):
    desk = Desk()
    acts = iter([cut, lambda: elsewhere(taskbook.plain.enqueue)])

    def wait(seconds):
        """Let something happen, then wait; what was started ends."""
        next(acts, lambda: None)()
        if desk.hosts.started:
            desk.hosts.ends(outcome.Succeeded(b"1"))
        return listener.wait(0.01)

    desk.worker.run(lambda: bool(desk.hosts.started), wait, poll_s=0.01, idle_s=0.01)

    assert RayTaskExecution.objects.get().state == "SUCCEEDED"
