"""Ending the detached actors of runs that are over."""

import uuid

import pytest

from actors.names import ActorName
from django_ray.models.executions import RayTaskExecution
from django_ray.tasks import transitions
from django_ray.tasks.reconcile import Reconciled, reconcile
from tests.app.executions import LATER, row, running

pytestmark = pytest.mark.django_db


class Actors:
    """The detached actors of a cluster, as a list."""

    def __init__(self, *names, broken=()):
        self.names = list(names)
        self.broken = broken

    def detached(self):
        return list(self.names)

    def kill(self, name):
        if name in self.broken:
            raise ConnectionError
        self.names.remove(name)
        return True


def actors_of(held):
    run_id = held.identity.run_id
    return ActorName("host", run_id, 1), ActorName("collector", run_id, 1)


def test_actors_of_a_current_run_are_left():
    cluster = Actors(*actors_of(running()))

    assert reconcile(cluster) == Reconciled(ended=0, current=2, unknown=0)
    assert len(cluster.names) == 2


def test_actors_of_an_ended_run_are_ended():
    held = running()
    cluster = Actors(*actors_of(held))
    transitions.succeed(held, b"1", now=LATER)

    assert reconcile(cluster) == Reconciled(ended=2, current=0, unknown=0)
    assert cluster.names == []


def test_actors_of_a_run_that_waits_for_an_operator_are_ended():
    held = running()
    cluster = Actors(*actors_of(held))
    RayTaskExecution.objects.update(state="RECONCILE")

    assert reconcile(cluster) == Reconciled(ended=2, current=0, unknown=0)


def test_actors_of_an_older_generation_are_ended():
    held = running()
    cluster = Actors(*actors_of(held))
    RayTaskExecution.objects.update(execution_generation=2)

    assert reconcile(cluster).ended == 2


def test_actors_of_a_run_that_lost_its_row_to_another_are_ended():
    held = running()
    cluster = Actors(*actors_of(held))
    RayTaskExecution.objects.update(run_id=uuid.uuid4())

    assert reconcile(cluster).ended == 2


def test_actors_of_another_installation_are_left():
    cluster = Actors(
        ActorName("host", str(uuid.uuid4()), 1), ActorName("host", "nonsense", 1)
    )

    assert reconcile(cluster) == Reconciled(ended=0, current=0, unknown=1)
    assert len(cluster.names) == 2


def test_actor_that_cannot_be_ended_does_not_keep_the_others():
    held = running()
    host, collector = actors_of(held)
    transitions.succeed(held, b"1", now=LATER)
    cluster = Actors(host, collector, broken=[host])

    assert reconcile(cluster).ended == 1
    assert cluster.names == [host]
    assert row(held).state == "SUCCEEDED"


def test_one_pass_takes_two_statements(django_assert_num_queries):
    cluster = Actors(*actors_of(running()), *actors_of(running()))

    with django_assert_num_queries(2):
        reconcile(cluster)
