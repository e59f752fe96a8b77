"""The Django Tasks backend: enqueue makes one durable row, a result is read from it.

It needs no Ray: the worker, and what it starts, do the work. Contract 3.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import transaction
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.module_loading import import_string

from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.protocol import text
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.tasks import outcome, waking
from django_ray.tasks.options import RayOptions, in_force

STATUS = {
    ExecutionState.QUEUED: TaskResultStatus.READY,
    ExecutionState.CLAIMED: TaskResultStatus.READY,
    ExecutionState.RUNNING: TaskResultStatus.RUNNING,
    ExecutionState.RETRY_WAIT: TaskResultStatus.READY,
    ExecutionState.RECONCILE: TaskResultStatus.RUNNING,
    ExecutionState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    ExecutionState.FAILED: TaskResultStatus.FAILED,
    ExecutionState.CANCELLED: TaskResultStatus.FAILED,
    ExecutionState.TIMED_OUT: TaskResultStatus.FAILED,
    ExecutionState.LOST: TaskResultStatus.FAILED,
}

RUN_AFTER = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))
"""The first and the last time a task can wait for: a date in every zone's calendar."""

QUEUE_NAME = 64


class RayBackend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "django_ray.tasks.backend.RayBackend"}}`."""

    supports_async_task = True
    supports_defer = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: "Task[..., Any]") -> None:
        """Raise InvalidTask for what the framework refuses, or the row cannot hold."""
        super().validate_task(task)
        if len(task.queue_name) > QUEUE_NAME or not text.is_line(task.queue_name):
            raise InvalidTask(
                f"A queue's name has at most {QUEUE_NAME} characters, none of them a "
                "control character."
            )
        first, last = RUN_AFTER
        if task.run_after is not None and not first <= task.run_after <= last:
            raise InvalidTask(
                f"run_after must be from {first:%d %B} of the year 1 to "
                f"{last:%d %B %Y}, in UTC."
            )

    def enqueue[**P, R](
        self, task: "Task[P, R]", args: Sequence[object], kwargs: Mapping[str, object]
    ) -> "TaskResult[P, R]":
        """Store the task as one row; it is claimed once the transaction commits.

        A worker that waits is woken then. The options in force now are frozen into it.
        Raises TypeError or ValueError for arguments that cannot be stored as JSON,
        LimitExceeded for more than 16 MiB of it.
        """
        return self.enqueue_with(task, {}, args, kwargs)

    def enqueue_with[**P, R](
        self,
        task: "Task[P, R]",
        options: RayOptions,
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> "TaskResult[P, R]":
        """Enqueue with options of this one call; raise ConfigurationError for bad ones."""
        self.validate_task(task)
        arguments = outcome.storable(
            {"args": args, "kwargs": kwargs}, "arguments", outcome.RESULT
        )
        frozen = msgspec.to_builtins(in_force(task, options))
        with transaction.atomic():
            execution = RayTaskExecution.objects.create(
                task_path=task.module_path,
                backend=self.alias,
                queue_name=task.queue_name,
                priority=task.priority,
                run_after=task.run_after,
                arguments=json.loads(arguments),
                options=frozen,
                enqueued_at=timezone.now(),
            )
            waking.wake(task.queue_name)
        result = _result(execution, task, ())
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> "TaskResult[..., object]":
        """Read a result by its public id; raise TaskResultDoesNotExist when none has it."""
        try:
            public_id = uuid.UUID(result_id)
        except (ValueError, AttributeError, TypeError) as exc:
            raise TaskResultDoesNotExist(result_id) from exc
        execution = (
            RayTaskExecution.objects.defer("progress_summary", "progress_data")
            .filter(public_id=public_id, backend=self.alias)
            .first()
        )
        if execution is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(execution)


def result_of(execution: RayTaskExecution) -> "TaskResult[..., object]":
    """Return what Django knows of an execution; raise InvalidTask when its task is gone."""
    attempts = execution.attempts.defer("terminal_summary").order_by("attempt_number")
    return _result(execution, task_of(execution), tuple(attempts))


def task_of(execution: RayTaskExecution) -> "Task[..., object]":
    """Import an execution's task, as it was when enqueued; raise InvalidTask."""
    try:
        task = import_string(execution.task_path)
    except Exception as exc:
        # A module runs foreign code when it is imported.
        raise InvalidTask(f"{execution.task_path} cannot be imported.") from exc
    if not isinstance(task, Task):
        raise InvalidTask(f"{execution.task_path} is not a task.")
    return task.using(
        priority=execution.priority,
        queue_name=execution.queue_name,
        run_after=execution.run_after,
        backend=execution.backend,
    )


def _result[**P, R](
    execution: RayTaskExecution, task: "Task[P, R]", attempts: tuple[TaskAttempt, ...]
) -> "TaskResult[P, R]":
    result: TaskResult[P, R] = TaskResult(
        task=task,
        id=str(execution.public_id),
        status=STATUS[ExecutionState(execution.state)],
        enqueued_at=execution.enqueued_at,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        last_attempted_at=_last_start(attempts),
        args=execution.arguments["args"],
        kwargs=execution.arguments["kwargs"],
        backend=execution.backend,
        errors=[
            TaskError(
                exception_class_path=attempt.error_class, traceback=attempt.error_text
            )
            for attempt in attempts
            if attempt.error_class
        ],
        worker_ids=[attempt.worker for attempt in attempts if attempt.started_at],
    )
    # The framework's own backends set it so: the field takes no argument.
    object.__setattr__(result, "_return_value", execution.result)
    return result


def _last_start(attempts: tuple[TaskAttempt, ...]) -> datetime | None:
    return attempts[-1].started_at if attempts else None
