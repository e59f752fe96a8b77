"""Drives a worker step by step until a task has its result."""

from django_ray.models.executions import RayTaskExecution
from django_ray.protocol import summary as summaries
from tests.ray.conftest import wait_until


def work(worker, *results):
    """Let the worker work until the results are there."""

    def are_finished():
        worker.step(claiming=True)
        for result in results:
            result.refresh()
        return all(result.is_finished for result in results)

    wait_until(are_finished, 180)
    return results[0]


def work_until(worker, result, state):
    """Let the worker work until the row is in a state; return the result as it is then."""

    def is_there():
        worker.step(claiming=True)
        return row_of(result).state == state

    wait_until(is_there, 180)
    result.refresh()
    return result


def row_of(result):
    return RayTaskExecution.objects.get(public_id=result.id)


def summary_of(result):
    return summaries.decode(bytes(row_of(result).progress_summary))
