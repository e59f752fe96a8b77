"""Ray makes a killed collector again, and the run goes on as if it had lived."""

import os
import signal
from contextlib import ExitStack

import pytest

from actors import remote
from cluster import runs
from cluster.scenarios.collector_killed import (
    CollectorKilled,
    Parameters,
    process_of,
)
from django_ray.models.executions import RayTaskExecution
from django_ray.models.progress import WorkflowRun
from tests.cluster.here import Here
from tests.ray.conftest import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def scenario(ray_cluster, transactional_db):
    parameters = Parameters(
        kills=3, nodes=150, sleep_s=0.05, window=4, pause_s=(0.1, 1.0)
    )
    with ExitStack() as stack:
        scenario = CollectorKilled(parameters)
        scenario.setup(Here(stack))
        stack.callback(scenario.teardown)
        yield scenario


def test_no_state_is_lost_with_a_collector_s_process(scenario):
    scenario.measure()
    scenario.verify()

    figures = scenario.result().figures
    assert (figures["kills"].median, figures["lost"].median) == (3, 0)


def collectors_of(identity):
    return [name for name in remote.list_detached() if name.run_id == identity.run_id]


def begun(identity):
    found = WorkflowRun.objects.filter(run_id=identity.run_id).first()
    return found is not None and found.writer_epoch


@pytest.mark.deep
def test_a_collector_that_leaves_is_not_made_again(ray_cluster):
    identity = runs.execution()
    remote.start_collector(runs.settings(identity))
    wait_until(lambda: begun(identity) == 1)
    os.kill(process_of(identity), signal.SIGKILL)
    wait_until(lambda: begun(identity) == 2)

    RayTaskExecution.objects.filter(pk=identity.task_execution_pk).update(state="LOST")
    os.kill(process_of(identity), signal.SIGKILL)

    # Made once more, it is fenced off, says so for two seconds, and leaves for good.
    wait_until(lambda: not collectors_of(identity))
    assert begun(identity) == 2


def test_a_collector_killed_for_good_is_not_made_again(ray_cluster):
    identity = runs.execution()
    remote.start_collector(runs.settings(identity))
    wait_until(lambda: begun(identity) == 1)

    (name,) = collectors_of(identity)
    assert remote.kill(name)

    wait_until(lambda: not collectors_of(identity))
    assert begun(identity) == 1
