"""What the sessions of an attempt leave, and what its row is told of it when."""

import threading

import pytest

from actors.dispositions import UNHEARD, Dispositions
from django_ray.lifecycle.disposition import STRICTNESS

AUTOMATIC, APPLICATION, PROHIBITED, OPERATOR = STRICTNESS


class Session:
    def __init__(self, retry=AUTOMATIC):
        self.retry = retry


class Row:
    """The attempt's row: what was noted, and a fault to raise."""

    def __init__(self):
        self.noted = []
        self.fault = None

    def __call__(self, disposition):
        if self.fault is not None:
            raise self.fault
        self.noted.append(disposition)


@pytest.fixture
def row():
    return Row()


def test_attempt_that_sent_no_input_has_none(row):
    kept = Dispositions(row)
    kept.end(Session(OPERATOR))

    assert kept.current is None
    assert row.noted == []


def test_row_is_told_the_worst_before_the_first_input_alone(row):
    kept, session = Dispositions(row), Session()

    kept.begin(session)
    kept.begin(session)

    assert row.noted == [UNHEARD] == [OPERATOR]


def test_row_is_told_what_became_of_a_session_when_it_is_closed(row):
    kept, session = Dispositions(row), Session()
    kept.begin(session)
    session.retry = APPLICATION

    kept.end(session)
    kept.end(session)

    assert row.noted == [UNHEARD, APPLICATION]
    assert kept.current is APPLICATION


def test_strictest_of_all_sessions_holds(row):
    kept, first, second = Dispositions(row), Session(), Session()
    kept.begin(first)
    kept.begin(second)
    first.retry, second.retry = APPLICATION, AUTOMATIC

    kept.end(first)
    assert (kept.current, row.noted) == (APPLICATION, [UNHEARD])
    kept.end(second)
    assert (kept.current, row.noted) == (APPLICATION, [UNHEARD, APPLICATION])

    third = Session(PROHIBITED)
    kept.begin(third)
    assert (kept.current, row.noted[-1]) == (PROHIBITED, UNHEARD)


def test_input_is_not_to_be_sent_where_the_row_could_not_be_told(row):
    kept, session = Dispositions(row), Session(OPERATOR)
    row.fault = OSError("away")

    with pytest.raises(OSError, match="away"):
        kept.begin(session)

    assert kept.current is None
    row.fault = None
    kept.begin(session)
    assert row.noted == [UNHEARD]


def test_row_that_cannot_be_told_of_an_end_keeps_what_is_stricter(row, caplog):
    kept, session = Dispositions(row), Session()
    kept.begin(session)
    row.fault = OSError("away")

    kept.end(session)

    assert (kept.current, row.noted) == (AUTOMATIC, [UNHEARD])
    assert "could not be noted" in caplog.text


def test_without_a_row_it_is_known_all_the_same():
    kept, session = Dispositions(None), Session(APPLICATION)
    kept.begin(session)
    kept.end(session)

    assert kept.current is APPLICATION


def test_threads_note_one_after_another(row):
    kept = Dispositions(row)
    sessions = [Session(APPLICATION) for _ in range(8)]
    threads = [
        threading.Thread(target=lambda each=each: (kept.begin(each), kept.end(each)))
        for each in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert row.noted[0] is UNHEARD
    assert row.noted[-1] is APPLICATION
