"""The Django Tasks backend over its rows."""

import datetime as dt
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.tasks import TaskResultStatus, default_task_backend, task_backends
from django.tasks.exceptions import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
)
from django.tasks.signals import task_enqueued
from django.utils import timezone

from django_ray.errors import LimitExceeded
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.vocabulary import ExecutionState, WorkflowState
from django_ray.tasks import backend, outcome, transitions
from tests.app import taskbook
from tests.app.executions import LATER, NOW, claim, claimed, come_due, row, running

pytestmark = pytest.mark.django_db


def test_enqueue_makes_one_queued_row_with_its_arguments_and_options():
    result = taskbook.plain.enqueue(1, "two", three=[3.5, None])

    execution = RayTaskExecution.objects.get()
    assert result.id == str(execution.public_id)
    assert result.status is TaskResultStatus.READY
    assert execution.state == "QUEUED"
    assert execution.task_path == "tests.app.taskbook.plain"
    assert execution.arguments == {"args": [1, "two"], "kwargs": {"three": [3.5, None]}}
    assert execution.options == {
        "effects": "read_only",
        "policy": "full",
        "strategy": "dynamic",
        "retention_days": 7,
        "profile": {"name": "v1", "values": {}},
        "timeout_seconds": None,
        "max_attempts": 1,
        "backoff_seconds": 10,
        "backoff_max_seconds": 600,
        "idempotent": False,
    }
    assert (execution.attempt_number, execution.run_id) == (0, None)


def test_options_in_force_are_frozen_into_the_row(settings):
    settings.DJANGO_RAY = {"REPORTING_POLICY": "summary", "RETENTION_DAYS": 0}
    taskbook.plain.enqueue()
    settings.DJANGO_RAY = {}

    options = RayTaskExecution.objects.get().options
    assert (options["policy"], options["retention_days"]) == ("summary", 0)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), TypeError),
        ({1, 2}, TypeError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        ("a\x00b", ValueError),
        ({"key\x00": 1}, ValueError),
        ("\ud800", ValueError),
        (b"\xff", ValueError),
        ("x" * outcome.RESULT, LimitExceeded),
    ],
    ids=[
        *("object", "set", "nan", "infinity", "nul", "nul-key", "surrogate"),
        *("bytes", "large"),
    ],
)
def test_argument_that_cannot_be_stored_is_refused_and_makes_no_row(value, error):
    with pytest.raises(error):
        taskbook.plain.enqueue(value)

    assert not RayTaskExecution.objects.exists()


class Unreadable(Sequence):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise self.error


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_argument_that_raises_when_it_is_read_is_refused_by_its_errors_name():
    odd = type("E" * 5_000, (Exception,), {"__str__": lambda _: 1 / 0})
    with pytest.raises(TypeError, match=r"arguments cannot be read: .*RuntimeError"):
        taskbook.plain.enqueue(Unreadable(RuntimeError("x" * 5_000)))
    with pytest.raises(TypeError) as caught:
        taskbook.plain.enqueue(key=[Unreadable(odd())])

    assert len(str(caught.value)) < 250
    with pytest.raises(KeyboardInterrupt):
        taskbook.plain.enqueue(Unreadable(KeyboardInterrupt()))
    assert not RayTaskExecution.objects.exists()


@pytest.mark.parametrize("levels", [499, 500, 5_000])
def test_argument_that_nests_too_deeply_is_refused(levels):
    with pytest.raises(ValueError, match="500 levels at most"):
        taskbook.plain.enqueue({"key": nested(levels - 1)})

    assert not RayTaskExecution.objects.exists()


@pytest.mark.parametrize("levels", [497, 498])
def test_argument_up_to_the_deepest_is_stored_and_read(levels):
    result = taskbook.plain.enqueue(nested(levels))

    assert taskbook.plain.get_result(result.id).args == [nested(levels)]


def test_argument_that_holds_itself_is_refused():
    own = []
    own.append({"own": own})

    with pytest.raises(ValueError, match="holds itself"):
        taskbook.plain.enqueue(own)


def test_text_that_only_looks_like_an_escaped_nul_is_stored():
    result = taskbook.plain.enqueue("\\u0000")

    assert taskbook.plain.get_result(result.id).args == ["\\u0000"]


def test_enqueued_signal_carries_the_result():
    seen = []

    def receive(sender, task_result, **kwargs):
        seen.append((sender, task_result.id))

    task_enqueued.connect(receive)
    try:
        result = taskbook.plain.enqueue()
    finally:
        task_enqueued.disconnect(receive)

    assert seen == [(backend.RayBackend, result.id)]


def test_deferred_task_is_claimed_when_its_time_has_come():
    later = timezone.now() + timedelta(hours=1)
    result = taskbook.plain.using(run_after=later).enqueue()
    assert RayTaskExecution.objects.get().run_after == later
    assert taskbook.plain.get_result(result.id).task.run_after == later
    assert claim() is None

    come_due()

    assert str(row(claim()).public_id) == result.id


FIRST, LAST = backend.RUN_AFTER
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize("when", [FIRST, FIRST + TICK, LAST - TICK, LAST])
def test_task_may_wait_for_a_time_at_the_bounds(when):
    result = taskbook.plain.using(run_after=when).enqueue()

    assert taskbook.plain.get_result(result.id).task.run_after == when


@pytest.mark.parametrize(
    "when",
    [
        FIRST - TICK,
        LAST + TICK,
        datetime.max.replace(tzinfo=dt.timezone(timedelta(hours=-23))),
        datetime.min.replace(tzinfo=dt.timezone(timedelta(hours=23))),
        datetime.max.replace(tzinfo=UTC),
    ],
    ids=str,
)
def test_time_that_no_row_can_hold_is_an_invalid_task(when):
    with pytest.raises(InvalidTask, match="run_after must be from"):
        taskbook.plain.using(run_after=when)


@pytest.mark.parametrize("name", ["q" * 65, "a\x00", "\ud800"], ids=ascii)
def test_queue_that_no_row_can_hold_is_an_invalid_task(name, monkeypatch):
    monkeypatch.setattr(task_backends["default"], "queues", set())

    assert taskbook.plain.using(queue_name="q" * 64).enqueue()
    with pytest.raises(InvalidTask, match="at most 64 characters"):
        taskbook.plain.using(queue_name=name)


def test_queue_that_nobody_named_is_refused_by_the_framework():
    with pytest.raises(InvalidTask):
        taskbook.plain.using(queue_name="no-such-queue")


def test_backend_claims_what_the_framework_asks_about():
    for name in ("defer", "priority", "async_task", "get_result"):
        assert getattr(default_task_backend, f"supports_{name}")


def test_higher_priority_is_claimed_first_then_the_older():
    ids = [
        taskbook.plain.using(priority=priority).enqueue().id
        for priority in (0, 100, -100, 100)
    ]

    claimed_ids = [str(row(claim()).public_id) for _ in ids]

    assert claimed_ids == [ids[1], ids[3], ids[0], ids[2]]


def test_async_task_is_enqueued_and_read_in_async_code():
    async def enqueue():
        result = await taskbook.coroutine.aenqueue(1)
        return await taskbook.coroutine.aget_result(result.id)

    result = async_to_sync(enqueue)()

    assert result.args == [1]
    assert RayTaskExecution.objects.get().task_path == "tests.app.taskbook.coroutine"


@pytest.mark.django_db(transaction=True)
def test_task_is_claimed_after_its_transaction_has_committed():
    found = []

    def look():
        try:
            found.append(claim())
        finally:
            connection.close()

    def elsewhere():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(10)

    with transaction.atomic():
        taskbook.plain.enqueue()
        elsewhere()
    elsewhere()

    assert found[0] is None
    assert found[1] is not None


@pytest.mark.parametrize(
    "result_id", ["", "nonsense", "7c0f1a52-6d0e-4f0a-9f53-0a8f2f6f3f10", "0" * 300]
)
def test_unknown_result_does_not_exist(result_id):
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(result_id)


def test_result_of_another_task_does_not_match():
    result = taskbook.plain.enqueue()

    with pytest.raises(TaskResultMismatch):
        taskbook.contextual.get_result(result.id)


@pytest.mark.parametrize("path", ["tests.app.taskbook.gone", "no.such", "tests"])
def test_result_whose_task_is_gone_is_an_invalid_task(path):
    result = taskbook.plain.enqueue()
    RayTaskExecution.objects.update(task_path=path)

    with pytest.raises(InvalidTask):
        default_task_backend.get_result(result.id)


def test_result_whose_path_names_no_task_is_an_invalid_task():
    result = taskbook.plain.enqueue()
    RayTaskExecution.objects.update(task_path="tests.app.taskbook.no_task")

    with pytest.raises(InvalidTask):
        default_task_backend.get_result(result.id)


def test_every_execution_state_has_a_status():
    assert set(backend.STATUS) == set(ExecutionState)


def test_status_follows_the_row():
    result = taskbook.plain.enqueue()
    held = claim()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 0)

    transitions.start(held.identity, now=NOW, again=False)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.RUNNING, 1)
    assert result.started_at == result.last_attempted_at == NOW
    assert result.worker_ids == ["worker"]

    transitions.succeed(held, b'{"a": [1]}', now=LATER)
    result.refresh()
    assert result.status is TaskResultStatus.SUCCESSFUL
    assert (result.return_value, result.finished_at) == ({"a": [1]}, LATER)
    assert result.errors == []


def test_failed_result_names_its_error():
    held = running()
    public_id = str(row(held).public_id)
    transitions.fail(
        held,
        WorkflowState.FAILED,
        outcome.Failed("builtins.ValueError", "ValueError: no"),
        reason="error",
        now=LATER,
    )

    result = taskbook.plain.get_result(public_id)

    assert result.status is TaskResultStatus.FAILED
    (error,) = result.errors
    assert (error.exception_class, error.traceback) == (ValueError, "ValueError: no")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_reading_a_result_takes_two_statements(django_assert_num_queries):
    public_id = str(row(claimed()).public_id)

    with django_assert_num_queries(2):
        taskbook.plain.get_result(public_id)
