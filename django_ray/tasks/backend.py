"""The Django Tasks backend: enqueue makes one durable row, a result is read from it.

It needs no Ray: the worker, and what it starts, do the work. Contract 3.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from django.db import transaction
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.module_loading import import_string

from django_ray.models.executions import RayTaskExecution, TaskAttempt
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


class RayBackend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "django_ray.tasks.backend.RayBackend"}}`."""

    supports_async_task = True
    supports_defer = True
    supports_get_result = True
    supports_priority = True

    def enqueue[**P, R](
        self, task: "Task[P, R]", args: Sequence[object], kwargs: Mapping[str, object]
    ) -> "TaskResult[P, R]":
        """Store the task as one row; it is claimed once the transaction commits.

        A worker that waits is woken then. The options in force now are frozen into it. Raises TypeError or ValueError for
        arguments that cannot be stored as JSON.
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
