"""A disposition is noted whatever the user's code is in."""

import asyncio
import threading

import pytest
from django.db import connection, transaction
from django.db.utils import OperationalError

from django_ray.errors import GraphRefused, StorageUnavailable
from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.tasks import noting, transitions
from tests.app.executions import LATER, claimed, row, running

pytestmark = pytest.mark.django_db(transaction=True)

UNHEARD = RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED


def noted(held):
    return row(held).attempts.get().retry_disposition


def test_note_outlives_the_transaction_that_its_caller_rolls_back():
    held = running()

    with transaction.atomic():
        noting.note_of(held.identity)(UNHEARD)
        transaction.set_rollback(True)

    assert noted(held) == UNHEARD


def test_note_is_made_from_an_event_loop():
    held = running()

    async def main():
        noting.note_of(held.identity)(UNHEARD)

    asyncio.run(main())

    assert noted(held) == UNHEARD


def test_last_note_counts():
    held = running()
    for disposition in (UNHEARD, RetryDisposition.AUTOMATIC_ALLOWED):
        noting.note_of(held.identity)(disposition)

    assert noted(held) == "AUTOMATIC_ALLOWED"


def ended():
    held = running()
    transitions.succeed(held, b"1", now=LATER)
    return held


@pytest.mark.parametrize("make", [claimed, ended])
def test_run_that_does_not_own_its_row_is_told_so_and_notes_nothing(make):
    held = make()

    with pytest.raises(GraphRefused, match="has ended"):
        noting.note_of(held.identity)(UNHEARD)

    assert noted(held) == ""


def test_short_absence_of_postgresql_is_waited_out(monkeypatch):
    held, asked = running(), []
    lock = transitions.lock

    def away_at_first(*given):
        asked.append(given)
        if len(asked) == 1:
            raise OperationalError("away")
        return lock(*given)

    monkeypatch.setattr(noting, "STEP_S", 0.01)
    monkeypatch.setattr(noting.transitions, "lock", away_at_first)
    noting.note_of(held.identity)(UNHEARD)

    assert noted(held) == UNHEARD


def test_long_absence_of_postgresql_is_an_error(monkeypatch):
    held = running()

    def away(*_given):
        raise OperationalError("away")

    monkeypatch.setattr(noting, "PATIENCE_S", 0.05)
    monkeypatch.setattr(noting, "STEP_S", 0.01)
    monkeypatch.setattr(noting.transitions, "lock", away)
    with pytest.raises(StorageUnavailable):
        noting.note_of(held.identity)(UNHEARD)

    assert noted(held) == ""


def test_no_thread_and_no_connection_is_left():
    held = running()
    before = set(threading.enumerate())
    noting.note_of(held.identity)(UNHEARD)

    assert set(threading.enumerate()) <= before
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND state = 'idle in transaction'"
        )
        assert cursor.fetchone() == (0,)
