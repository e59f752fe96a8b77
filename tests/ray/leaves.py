"""Remote functions of the tests, small enough to run side by side on two CPUs."""

import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import ray

from actors import leaf
from django_ray.workflow import fan_out, preview, report, run

SECRET = "hunter2-of-the-leaves"


@ray.remote(num_cpus=0.5)
def double(number):
    return 2 * number


@ray.remote(num_cpus=0.5)
def echo(value):
    return value


@ray.remote(num_cpus=0.5)
def add(*numbers):
    return sum(numbers)


@ray.remote(num_cpus=0.5)
def collect(value, *, more=None):
    """Return what a leaf gets, with references in containers followed."""
    return follow(value), follow(more)


def follow(value):
    if isinstance(value, ray.ObjectRef):
        return ["ref", ray.get(value)]
    if isinstance(value, list | tuple):
        return [follow(item) for item in value]
    if isinstance(value, dict):
        return {str(follow(key)): follow(item) for key, item in value.items()}
    return value


@ray.remote(num_cpus=0.5)
def fail_odd(number):
    if number % 2:
        raise ValueError(f"odd: {number}")
    return number


@ray.remote(num_cpus=0.5)
def fail_long(size):
    raise ValueError("x" * size)


@ray.remote(num_cpus=0.5)
def fail_secret(_number):
    raise ValueError(f"cannot log in with password={SECRET}")


@ray.remote(num_cpus=0.5, num_returns=3)
def fail_secret_thrice(_number):
    raise ValueError(f"cannot log in with password={SECRET}")


@ray.remote(num_cpus=0.5, max_retries=0)
def die():
    os._exit(1)


@ray.remote(num_cpus=0.5, num_returns=3)
def three(number):
    return number, number + 1, number + 2


@ray.remote(num_cpus=0.5, num_returns=3)
def three_made(number):
    yield number
    yield number + 1
    yield number + 2


@ray.remote(num_cpus=0.5, num_returns=2)
def one_too_few():
    return (1,)


@ray.remote(num_cpus=0.5, num_returns=0)
def nothing():
    return None


@ray.remote(num_cpus=0.5)
def count_up(number):
    """A streaming generator, which raises midway at 3."""
    for step in range(number):
        yield step
        if step == 2:
            raise ValueError("midway")


@ray.remote(num_cpus=0.5, max_retries=2, retry_exceptions=True)
def succeed_at_last(folder):
    path = os.path.join(folder, "tried")
    with open(path, "a", encoding="ascii") as file:
        file.write("x")
    if os.path.getsize(path) < 3:
        raise ValueError("not yet")
    report(1, 1)
    return os.path.getsize(path)


@ray.remote(num_cpus=0.5)
def wait_in_python(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        threading.Event().wait(0.01)
    return "waited"


@ray.remote(num_cpus=0.5)
def wait_stubbornly(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            threading.Event().wait(0.05)
        except KeyboardInterrupt:
            continue
    return "waited"


@ray.remote(num_cpus=0.5)
def fail_or_wait(seconds):
    if not seconds:
        raise ValueError("odd")
    threading.Event().wait(seconds)


@ray.remote(num_cpus=0.5)
def hold(item):
    """Sign a folder, and wait until so many have."""
    folder, name, others = item
    with open(os.path.join(folder, name), "w", encoding="ascii"):
        pass
    until = time.monotonic() + 60
    while len(os.listdir(folder)) < others:
        if time.monotonic() > until:
            raise TimeoutError("the others did not come")
        threading.Event().wait(0.01)
    return name


@ray.remote(num_cpus=0.5)
def pass_gate(path):
    """Wait until the file is there."""
    until = time.monotonic() + 60
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise TimeoutError("the gate stays shut")
        threading.Event().wait(0.01)
    return 1


@ray.remote(num_cpus=0.5)
def work_inside(number):
    """A leaf that runs graphs of its own."""
    return list(fan_out(double, range(number))), run(add.bind(double.bind(3), 1))


@ray.remote(num_cpus=0.5)
def signature(first, second=2, *, third=3):
    return first, second, third


@ray.remote(num_cpus=0.5)
def say(*arguments, **words):
    """Report as asked."""
    report(*arguments, **words)
    return leaf.current() is not None


@ray.remote(num_cpus=0.5)
def say_in_a_thread():
    """Report from a helper thread, and say whether that thread has a leaf."""
    found = []

    def help_out():
        report(1, 2)
        found.append(leaf.current())

    thread = threading.Thread(target=help_out)
    thread.start()
    thread.join()
    return found == [None]


@ray.remote(num_cpus=0.5)
def say_streaming():
    for step in range(3):
        report(step, 3)
        yield leaf.current() is not None


@ray.remote(num_cpus=0.5)
def say_and_last(seconds):
    report(1, 2, message="begun")
    threading.Event().wait(seconds)


class Stubborn(Exception):
    """An error that takes no attribute and has no text."""

    __slots__ = ()

    def __setattr__(self, name, value):
        raise TypeError(name)

    def __str__(self):
        raise RuntimeError("no text")


class Broken(Mapping):
    """A mapping that cannot be read."""

    def __len__(self):
        return 1

    def __iter__(self):
        raise RuntimeError("no keys")

    def __getitem__(self, key):
        raise RuntimeError("no values")


@ray.remote(num_cpus=0.5)
def fail_stubbornly():
    raise Stubborn


@dataclass
class Box:
    """An object that may hide a node."""

    inside: object


@ray.remote(num_cpus=0.5)
def unpack(box):
    return ray.get(box.inside)


def head(output):
    """Project what has a length."""
    return {"rows": len(output), "first": list(output[:2])}


def note(output):
    """Leave a mark where the output says."""
    with open(output, "a", encoding="ascii") as file:
        file.write("x")
    return "noted"


def show_secret(_output):
    return {"password": SECRET, f"token={SECRET}": 1, "note": f"Bearer {SECRET}"}


class HostileList(list):
    def __iter__(self):
        while True:
            yield from self

    def __len__(self):
        raise RuntimeError("no length")


def be_hostile(kind):
    """Do what the output names."""
    return HOSTILE[kind]()


def contain_itself():
    made = []
    made.append(made)
    return made


def call_itself():
    return call_itself()


def fail_with_a_secret():
    raise ValueError(f"password={SECRET}")


HOSTILE = {
    "raises": fail_with_a_secret,
    "exits": lambda: sys.exit(3),
    "recurs": call_itself,
    "contains itself": contain_itself,
    "NaN": lambda: [float("nan")],
    "bytes": lambda: b"bytes",
    "huge": lambda: {"a": ["x" * 1_000_000] * 100_000},
    "object": object,
    "a list of its own": lambda: HostileList([1, 2]),
}


def hang(_output):
    threading.Event().wait()


@ray.remote(num_cpus=0.5)
@preview(head)
def listed(number):
    return list(range(number))


@ray.remote(num_cpus=0.5)
@preview(note)
def noted(path):
    return path


@ray.remote(num_cpus=0.5)
@preview(note)
def noted_and_failed(path):
    raise ValueError("failed")


@ray.remote(num_cpus=0.5)
@preview(note)
def noted_and_lost(path):
    """Return what cannot be pickled."""
    return NotedLock(path)


class NotedLock(str):
    def __reduce__(self):
        raise TypeError("not to be pickled")


@ray.remote(num_cpus=0.5)
@preview(show_secret)
def secretive():
    return 1


@ray.remote(num_cpus=0.5)
@preview(be_hostile)
def hostile(kind):
    return kind


@ray.remote(num_cpus=0.5)
@preview(hang)
def hanging(number):
    return number


@ray.remote(num_cpus=0.5)
@preview("tests.ray.nowhere.head")
def misled(number):
    return number


@ray.remote(num_cpus=0.5, num_returns=3)
@preview(head)
def three_listed(number):
    return number, number + 1, number + 2


@ray.remote(num_cpus=0.5)
@preview(head)
def streamed(number):
    yield from range(number)
    return "the end"


@ray.remote(num_cpus=0.5)
def say_last(number):
    """Report twice and leave at once."""
    report(number, 100)
    report(100, 100, message=f"last of {number}")
    return number


@ray.remote(num_cpus=0.5, max_retries=0)
def say_last_and_fail(number):
    report(number, 100, message="last words")
    raise ValueError("failed")
