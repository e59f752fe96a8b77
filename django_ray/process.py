"""What happens in a Ray worker process before anything else runs in it."""

import os


def set_up() -> None:
    """Set Django up in the processes of outer tasks and leaves, nowhere else.

    The job names this function as Ray's set-up hook. The collector and the host carry
    `DJANGO_RAY_PROCESS=actor` and load no Django. Architecture 5.3.
    """
    if os.environ.get("DJANGO_RAY_PROCESS") == "actor":
        return
    import django

    django.setup()
