"""Tasks of the end-to-end tests."""

import asyncio
import os
import threading
from collections.abc import Sequence

import ray
from django.db import transaction
from django.tasks import task
from ray.dag import MultiOutputNode

from django_ray.errors import InvocationFailed
from django_ray.lifecycle.budgets import Deadlines
from django_ray.tasks.options import ray_options
from django_ray.workflow import compiled, fan_out, preview, report, run
from tests.ray import parts

SECRET = "hunter2-of-the-tests"
TOKEN = "ghp_" + "0123456789" * 3


@ray.remote
def double(number):
    return 2 * number


@ray.remote
def add(*numbers):
    return sum(numbers)


@task
def doubled_sum(count):
    """One node a number, and one that adds them up."""
    refs = list(fan_out(double, range(count), refs=True))
    return run(add.bind(*refs))


def head(values):
    return {"rows": len(values), "note": f"password={SECRET}", TOKEN: 1}


@ray.remote
@preview(head)
def listed(number):
    report(0, number, message="begun")
    report(number, number, message=f"last of {number}", metrics={TOKEN: number})
    return list(range(number))


@ray.remote
@preview("tests.ray.tasks.head")
def joined(*lists):
    return [item for each in lists for item in each]


@task
def previewed(count):
    """So short that each leaf ends long before its process would report."""
    return len(run(joined.bind(*fan_out(listed, range(1, count), refs=True))))


@ray.remote(num_cpus=0)
class Player:
    """An actor that says how far it is, and stays until that is sent."""

    def play(self, number):
        report(0, 10)
        report(number, 10, message=f"password={SECRET} {number}", metrics={TOKEN: 1})
        report(float("nan"))
        thread = threading.Thread(target=lambda: report(10, 10, message="a thread"))
        thread.start()
        thread.join()
        threading.Event().wait(2)
        return number


@ray.remote(num_cpus=0)
class Musician:
    """An actor whose methods share one thread."""

    async def play(self, number):
        report(number, 10, message=f"begun {number}")
        await asyncio.sleep(2)
        return number


@task
def played():
    """Methods of an actor of the graph, of one that was there, and side by side."""
    player, musician = Player.remote(), Musician.bind()
    several = [musician.play.bind(number) for number in (3, 4)]
    first = run(MultiOutputNode([Player.bind().play.bind(1), *several]))
    return first + list(fan_out(player.play, [2]))


@task
def crashing_with_actors():
    """Call a method, then take the process down."""
    list(fan_out(Musician.remote().play, [1]))
    os._exit(3)


@ray.remote(max_retries=0)
def refuse():
    raise ValueError(f"postgresql://root:{SECRET}@db/census is not reachable")


@task
def failing_leaf():
    return run(refuse.bind())


@task
def failing():
    raise ValueError(f"cannot log in with password={SECRET}")


@task
def unstorable():
    return {"text": "a\x00b"}


class Sealed(Sequence):
    """A result that raises when it is read."""

    def __len__(self):
        return 2

    def __getitem__(self, place):
        raise RuntimeError("not to be read")


@task
def sealed():
    sum(fan_out(double, range(2)))
    return Sealed()


class Mute(Exception):
    """An error that exits when it is asked for its text."""

    def __str__(self):
        raise SystemExit(3)


@task
def mute():
    sum(fan_out(double, range(2)))
    raise Mute


@task
def interrupted():
    raise KeyboardInterrupt


@task
def leaving():
    raise SystemExit(3)


@task
def crashing():
    """Do some work, then take the process down."""
    list(fan_out(double, range(3)))
    os._exit(3)


@ray.remote(num_cpus=0.1)
def wait_for(path):
    """Wait for a file, and return what is in it."""
    pause = threading.Event()
    while not os.path.exists(path):
        pause.wait(0.05)
    with open(path) as file:
        return file.read()


@task
def patient(path):
    """One leaf that waits for a file."""
    return list(fan_out(wait_for, [path]))


@task(takes_context=True)
@ray_options(max_attempts=2, backoff_seconds=0)
def second_time(context, count):
    """Do some work, and fail the first time."""
    found = sum(fan_out(double, range(count)))
    if context.attempt < 2:
        raise ValueError(f"password={SECRET}")
    return found


@task(takes_context=True)
async def asynchronous(context, count):
    """Ask the database, and fan out from a thread beside the event loop."""
    found = await asynchronous.aget_result(context.task_result.id)
    doubled = await asyncio.to_thread(lambda: list(fan_out(double, range(count))))
    return [found.status, sum(doubled)]


@task
async def patient_thread(path):
    """One leaf that waits for a file, driven from a thread beside the event loop."""
    return await asyncio.to_thread(lambda: list(fan_out(wait_for, [path])))


@task(takes_context=True)
def attempt(context):
    return [context.attempt, context.task_result.id]


@task
def invoked(orders):
    """Send each order through a compiled graph, and tell what came of it."""
    told = []
    with compiled(parts.obeying, deadlines=Deadlines(teardown=2)) as session:
        for order in orders:
            try:
                told.append(session.invoke(order))
            except InvocationFailed as exc:
                told.append(exc.outcome)
            except ValueError:
                told.append("raised")
    return told


@task
def invoked_often(count):
    """Send so many inputs through one session."""
    with compiled(parts.chain) as session:
        return sum(session.invoke(number) for number in range(count))


@task
def owner_lost():
    """Lose the owner while it is at an input."""
    with compiled(parts.obeying) as session:
        session.invoke("fine")
        session._owner.kill()
        session.invoke("fine")


@task(takes_context=True)
def first_time(context, what):
    """Lose, raise or die at the second input of the first attempt."""
    with compiled(parts.obeying) as session:
        session.invoke("fine")
        if context.attempt == 1 and what == "lose":
            session._owner.kill()
        if context.attempt == 1 and what == "die":
            os._exit(3)
        return session.invoke("raise" if context.attempt == 1 else what)


@task
def dying_after(order):
    """Take the process down when the session is closed."""
    with compiled(parts.obeying) as session, transaction.atomic():
        session.invoke(order)
        transaction.set_rollback(True)
    os._exit(3)


@task(takes_context=True)
def refused_at_first(context):
    """Ask for what cannot be compiled, the first time."""
    graph = parts.function if context.attempt == 1 else parts.passing
    with compiled(graph) as session:
        return session.invoke("fine")


@task
def invoked_for(seconds):
    """Send one input that takes so long."""
    with compiled(parts.obeying) as session:
        return session.invoke(float(seconds))
