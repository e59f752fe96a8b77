"""Runs the coroutine of an async task in the main thread of the outer task's process.

There a cancellation, which is a KeyboardInterrupt, reaches it wherever it is: asyncio's own
runner would keep the first one to itself while the coroutine's code runs.
"""

import asyncio
from collections.abc import Awaitable, Callable

from asgiref.sync import sync_to_async
from django.db import connections

HEED_S = 0.2
"""How long an interruption may wait for an event loop that has nothing to do."""


def run(coroutine: Awaitable[object], stop: Callable[[], object]) -> object:
    """Run a coroutine to its end and return its value, in an event loop of its own.

    Interrupted, it calls `stop`, so that threads which work for the coroutine end too,
    and then cancels what is pending. No connection of Django's stays open.
    """
    with asyncio.Runner() as runner:
        try:
            return runner.get_loop().run_until_complete(_closing(coroutine))
        except KeyboardInterrupt:
            stop()
            raise


async def _heed() -> None:
    """Keep the loop from waiting for long: Ray's interrupt wakes no system call."""
    while True:
        await asyncio.sleep(HEED_S)


async def _closing(coroutine: Awaitable[object]) -> object:
    """Await a coroutine, then close what the thread of its database calls has opened."""
    heeding = asyncio.ensure_future(_heed())
    try:
        return await coroutine
    finally:
        heeding.cancel()
        await sync_to_async(connections.close_all)()
