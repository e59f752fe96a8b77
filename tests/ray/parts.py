"""Graphs of actors for the tests of compiled sessions; none takes a CPU."""

import os
import pickle
import signal
import threading

import ray
from ray.dag import InputNode, MultiOutputNode


class Pair(Exception):
    """An error that cannot be unpickled: it takes two arguments and gives one."""

    def __init__(self, first, second):
        super().__init__(f"{first}{second}")


def refuse():
    raise ValueError("not to be read here")


class Sealed:
    """A value that cannot be unpickled."""

    def __reduce__(self):
        return refuse, ()


class View:
    """A value whose bytes stay where Ray has put them."""

    def __init__(self, data):
        self.data = data

    def __reduce_ex__(self, protocol):
        return View, (pickle.PickleBuffer(self.data),)


@ray.remote(num_cpus=0)
class Part:
    """Multiplies, and does what a test asks it for."""

    def __init__(self, factor=2):
        self._factor = factor
        self._calls = 0

    def scale(self, value):
        self._calls += 1
        return value * self._factor

    def calls(self, _value):
        self._calls += 1
        return self._calls

    def same(self, value):
        return value

    def obey(self, order):
        """Do what the input says: raise, die, wait for so many seconds, or return it."""
        if order == "raise":
            raise ValueError("password=hunter2-of-the-tests")
        if order == "pair":
            raise Pair("one", "two")
        if order == "sealed":
            return Sealed()
        if order == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if isinstance(order, float):
            threading.Event().wait(order)
        return order

    def keep(self, value):
        """Keep the input, and with it the channel that it lies in."""
        self._kept = value
        return self._calls

    def fill(self, size):
        return bytes(size)

    async def later(self, value):
        return value


def chain():
    """Two methods of two actors, one behind the other."""
    with InputNode() as given:
        return Part.bind(10).scale.bind(Part.bind(2).scale.bind(given))


def live():
    """The same with actors that are made at once."""
    first, second = Part.remote(2), Part.remote(10)
    with InputNode() as given:
        return second.scale.bind(first.scale.bind(given))


def obeying():
    """What obeys stands before what only passes on."""
    with InputNode() as given:
        return Part.bind().same.bind(Part.bind().obey.bind(given))


def pair():
    """Two outputs: what obeys, and what only passes on."""
    with InputNode() as given:
        return MultiOutputNode(
            [Part.bind().obey.bind(given), Part.bind().same.bind(given)]
        )


def passing():
    """One method that gives its input back."""
    with InputNode() as given:
        return Part.bind().same.bind(given)


def filling():
    """One method that gives as many bytes as it is told to."""
    with InputNode() as given:
        return Part.bind().fill.bind(given)


def counting():
    """One method that counts its calls."""
    with InputNode() as given:
        return Part.bind().calls.bind(given)


def wide(width):
    """Return what builds a graph of so many outputs, on one actor."""

    def build():
        part = Part.bind()
        with InputNode() as given:
            return MultiOutputNode([part.same.bind(given) for _ in range(width)])

    return build


@ray.remote
def plain(value):
    return value


def function():
    """A function is no method."""
    with InputNode() as given:
        return plain.bind(given)


def one(name):
    """One method of one actor, by its name."""
    with InputNode() as given:
        return getattr(Part.bind(), name).bind(given)


STRANGER = "stranger"


def foreign():
    """An actor that came from elsewhere."""
    actor = ray.get_actor(STRANGER)
    with InputNode() as given:
        return actor.same.bind(given)


def nested():
    """A node inside an argument."""
    with InputNode() as given:
        return Part.bind().same.bind([Part.bind().same.bind(given)])


def leaf():
    """A method whose value nobody takes."""
    part = Part.bind()
    with InputNode() as given:
        first = part.same.bind(given)
        part.scale.bind(first)
        return part.same.bind(given)


@ray.remote(num_cpus=0)
class Unmade:
    """An actor that cannot be made."""

    def __init__(self):
        raise ValueError("no actor")

    def same(self, value):
        return value


def broken():
    """A graph with an actor that cannot be made."""
    with InputNode() as given:
        return Unmade.bind().same.bind(given)
