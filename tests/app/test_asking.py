"""What every command says of a database that was never migrated."""

import uuid

import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection

from django_ray.management.asking import asking

pytestmark = pytest.mark.django_db(transaction=True)

RUN = str(uuid.UUID(int=7))


@pytest.fixture
def unmigrated():
    """The connection looks for its tables where there are none."""
    with connection.cursor() as cursor:
        cursor.execute("SET search_path TO pg_temp")
        yield
        cursor.execute("RESET search_path")


@pytest.mark.parametrize(
    "command",
    [
        ["ray_worker"],
        ["ray_runs"],
        ["ray_cancel", RUN],
        ["ray_retry", RUN],
        ["ray_reconcile", RUN, "--retry"],
        ["watch_run", RUN, "--once"],
        ["django_ray_audit_workflow_progress"],
        ["django_ray_cleanup_workflow_progress"],
    ],
    ids=lambda command: command[0],
)
def test_commands_ask_for_the_migration(command, unmigrated):
    with pytest.raises(CommandError, match=r"run manage.py migrate"):
        call_command(*command)


def test_another_fault_of_a_statement_is_no_missing_table():
    with pytest.raises(ProgrammingError), asking(1), connection.cursor() as cursor:
        cursor.execute("SELEC 1")
