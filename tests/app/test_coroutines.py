"""Coroutines of async tasks, run in the main thread of their process."""

import _thread
import asyncio
import signal
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from django_ray.tasks import coroutines


def run(coroutine):
    """Run it; return what it comes to, and how often the run was told to stop."""
    stopped = []
    try:
        return coroutines.run(coroutine, lambda: stopped.append(1)), len(stopped)
    except KeyboardInterrupt:
        return "interrupted", len(stopped)


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


async def fail():
    raise ValueError("from inside")


def test_coroutine_is_run_to_its_value_or_its_error():
    assert run(double(2)) == (4, 0)
    with pytest.raises(ValueError, match="from inside"):
        run(fail())


def test_interruption_reaches_what_is_awaited_and_what_was_begun_beside_it():
    ended = []

    async def wait(name):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def both():
        loop = asyncio.get_running_loop()
        beside = asyncio.create_task(wait("beside"))
        loop.call_soon(loop.call_soon, signal.raise_signal, signal.SIGINT)
        await wait("awaited")
        await beside

    assert run(both()) == ("interrupted", 1)
    assert sorted(ended) == ["awaited", "beside"]


def test_interruption_that_is_no_signal_reaches_a_loop_with_nothing_to_do():
    async def idle():
        threading.Timer(0.05, _thread.interrupt_main).start()
        await asyncio.Event().wait()

    assert run(idle()) == ("interrupted", 1)


def test_interruption_reaches_code_that_does_not_await():
    async def busy():
        signal.raise_signal(signal.SIGINT)
        return "not interrupted"

    assert run(busy()) == ("interrupted", 1)


@pytest.mark.django_db(transaction=True)
def test_connection_of_the_coroutine_is_closed():
    opened = []

    def ask():
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        opened.append(connection.connection)

    run(sync_to_async(ask)())

    assert opened[0].closed
