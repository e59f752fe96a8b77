"""Tasks whose code is rough with the process it runs in; each does some work first."""

import contextlib
import os
import resource
import signal
import time

import ray
from django.contrib.auth.models import User
from django.db import ProgrammingError, connection, transaction
from django.tasks import task

from django_ray.workflow import fan_out
from tests.ray.tasks import double

MIB = 2**20
ROOM = 512 * MIB
"""What a task that leaks may take beside what its process has."""

PUBLISHED_S = 3.0
"""Within so long what a run reports is published."""


def work():
    """Three nodes, which are reported."""
    return sum(fan_out(double, range(3)))


def worked():
    """Work, and let what is reported be published."""
    found = work()
    time.sleep(PUBLISHED_S)
    return found


@task
def exits():
    worked()
    os._exit(3)


def leak():
    """Take memory for good, within a bound that the kernel holds."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, most))
    kept = []
    while True:
        kept.append(bytes(8 * MIB))


@task
def leaks():
    """Leak until Python has no more to give."""
    work()
    leak()


@task
def leaks_on():
    """Leak until nobody in the process has any."""
    worked()
    kept = []
    while True:
        try:
            leak()
        except MemoryError:
            while True:
                try:
                    kept.append(bytes(4_096))
                except MemoryError:
                    os.kill(os.getpid(), signal.SIGKILL)


@task
def deaf(path):
    """Heed no signal and no interrupt."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    work()
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            continue


@task
def forks():
    """Leave a child behind that goes on by itself."""
    found = work()
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
    return found


@task
def forks_back():
    """Come back twice, as parent and as child."""
    found = work()
    return found if os.fork() else "of the child"


@task
def rolls_back(raising):
    """Work inside a transaction that is rolled back."""
    with transaction.atomic():
        found = work()
        User.objects.create(username="of a transaction")
        if raising:
            raise ValueError("no")
        transaction.set_rollback(True)
    return found


@task
def swallows_its_transaction():
    """Leave a transaction open, and broken."""
    transaction.set_autocommit(False)
    User.objects.create(username="of an open transaction")
    with connection.cursor() as cursor, contextlib.suppress(ProgrammingError):
        cursor.execute("SELECT no")
    return work()


@task
def inits(again):
    """Make a Ray of its own, where there is one."""
    found = work()
    ray.init(num_cpus=1, ignore_reinit_error=again)
    return found


@task
def leaves_ray():
    """Leave the cluster the process belongs to."""
    work()
    ray.shutdown()
    return "left"


@task
def fine():
    return work()
