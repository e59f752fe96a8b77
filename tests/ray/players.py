"""Actors of the tests, none of which takes a CPU."""

import asyncio
import threading
import time

import ray

from django_ray.workflow import report


@ray.remote(num_cpus=0)
class Counter:
    """Counts, and keeps the order in which it was called."""

    def __init__(self, start=0):
        self._count = start
        self._calls = []

    def begin(self, start):
        self.__init__(start)

    def add(self, number):
        self._calls.append(number)
        self._count += number
        return self._count

    def calls(self):
        return self._calls

    @ray.method(num_returns=2)
    def both(self, number):
        return number, -number

    def several(self, number):
        return number, number + 1, number + 2

    def fail(self, text):
        raise ValueError(text)

    def nothing(self, _value=None):
        return None

    def raw(self, data):
        return data

    def count_up(self, number):
        for step in range(number):
            yield step
            if step == 2:
                raise ValueError("midway")

    def give(self, value, *, more=None):
        return value, more

    def follow(self, box):
        return ray.get(box.inside)

    def sleep(self, seconds):
        threading.Event().wait(seconds)
        return seconds

    def spin(self, seconds):
        """Wait in Python; nothing interrupts a method."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            threading.Event().wait(0.02)
        return "spun"

    def say(self, number):
        report(number, 2 * number)
        return number

    def exit(self):
        ray.actor.exit_actor()

    def id(self):
        return ray.get_runtime_context().get_actor_id()

    def task(self):
        return ray.get_runtime_context().get_task_id()


@ray.remote(num_cpus=0)
class Later:
    """An actor whose methods run side by side in one thread."""

    async def add(self, number):
        await asyncio.sleep(0)
        return number + 1

    async def count_up(self, number):
        for step in range(number):
            yield step

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)
        return seconds


@ray.remote(num_cpus=0)
class Broken:
    """An actor that cannot be made."""

    def __init__(self, _value=None):
        raise ValueError("no actor")

    def method(self, _value=None):
        return 1


@ray.remote(num_cpus=0.5)
def call_id(actor):
    """Call a method of an actor that is given as an argument."""
    return ray.get(actor.id.remote())
