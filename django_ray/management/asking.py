"""Lets a command that asks PostgreSQL say in one sentence that it did not answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError

from django_ray.errors import StorageUnavailable
from django_ray.readers import context


@contextmanager
def asking(returncode: int) -> Iterator[None]:
    """Turn the absence of PostgreSQL into a CommandError with this exit status."""
    try:
        with context.answering():
            yield
    except StorageUnavailable as exc:
        raise CommandError(str(exc), returncode=returncode) from exc
