"""What the tests run as outer tasks and leaves, by dotted path."""

import json
import os
import time

import ray


def where(payload: bytes) -> bytes:
    """Tell what the process of an outer task, and of a leaf of it, looks like."""
    inside = {
        "payload": payload.decode(),
        "outer": look(),
        "leaf": ray.get(ray.remote(look).remote()),
    }
    return json.dumps(inside).encode()


def look() -> dict[str, object]:
    from django.apps import apps

    return {
        "django": apps.ready,
        "process": os.environ.get("DJANGO_RAY_PROCESS"),
        "settings": os.environ.get("DJANGO_SETTINGS_MODULE"),
        "database": os.environ.get("DATABASE_URL"),
    }


def slow(payload: bytes) -> bytes:
    """Wait for a file to appear, and return what is in it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if os.path.exists(payload):
            return payload
        time.sleep(0.02)
    raise TimeoutError


def interrupted(payload: bytes) -> bytes:
    """Say that it was interrupted."""
    try:
        slow(payload)
    except KeyboardInterrupt:
        return b"interrupted"
    return b"ended"


def crash(payload: bytes) -> bytes:
    """Take the process down."""
    os._exit(3)
