"""Lets a command that asks PostgreSQL say in one sentence why it got no answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import ProgrammingError

from django_ray.errors import StorageUnavailable
from django_ray.readers import context

NOT_THERE = frozenset(("42P01", "42703"))
"""undefined_table and undefined_column: the database is behind the models."""


@contextmanager
def asking(returncode: int) -> Iterator[None]:
    """Turn an absence of PostgreSQL, or of tables, into a CommandError with this status."""
    try:
        with migrated(returncode), context.answering():
            yield
    except StorageUnavailable as exc:
        raise CommandError(str(exc), returncode=returncode) from exc


@contextmanager
def migrated(returncode: int) -> Iterator[None]:
    """Turn an absence of tables or columns into a CommandError with this exit status."""
    try:
        yield
    except ProgrammingError as exc:
        if getattr(exc.__cause__, "sqlstate", None) not in NOT_THERE:
            raise
        raise CommandError(
            "The database has not the tables of this version: run manage.py migrate.",
            returncode=returncode,
        ) from exc
