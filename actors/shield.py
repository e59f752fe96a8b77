"""Keeps interrupts from what is ending already."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def shielded() -> Iterator[None]:
    """Drop the interrupts that come while inside.

    Ray repeats a cancellation every second until its task has ended, so what ends because
    of one is interrupted again. What is inside ends by itself. Other threads than the main
    one are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
