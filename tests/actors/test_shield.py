"""What is shielded comes to its end, however often it is interrupted."""

import _thread
import os
import signal
import threading

import pytest

from actors.shield import shielded


def interrupt():
    """Interrupt as a terminal does, and as Ray does."""
    os.kill(os.getpid(), signal.SIGINT)
    _thread.interrupt_main()


def test_it_ends_though_it_is_interrupted_again_and_again():
    with shielded():
        interrupt()
        interrupt()


def test_interrupts_are_heard_again_behind_it_also_where_it_raised():
    with pytest.raises(ValueError, match="no"), shielded():
        raise ValueError("no")

    with pytest.raises(KeyboardInterrupt):
        _thread.interrupt_main()


def test_thread_that_is_not_the_main_one_leaves_the_signal_alone():
    seen = []

    def act():
        with shielded():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()

    assert seen == [signal.default_int_handler]
