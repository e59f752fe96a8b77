"""What happens in a Ray worker process before anything else runs in it."""

import os
import signal
import threading


def set_up() -> None:
    """Set Django up in the processes of outer tasks and leaves, nowhere else.

    The job names this function as Ray's set-up hook. The collector and the host carry
    `DJANGO_RAY_PROCESS=actor` and load no Django. Architecture 5.3.
    """
    if os.environ.get("DJANGO_RAY_PROCESS") == "actor":
        return
    _heed_interrupts()
    import django

    django.setup()


def _heed_interrupts() -> None:
    """Let a cancellation, which is a KeyboardInterrupt, reach the user's function.

    What a script starts in its background ignores SIGINT, and so does a Ray started there
    with all its processes.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)
