"""How a worker ends a run from outside: asked, then by force, then whatever is said."""

from datetime import timedelta

import pytest
from django.utils import timezone

from actors.names import Ended, Lost
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol import summary as summaries
from django_ray.tasks import outcome, requests, transitions, worker
from django_ray.tasks.interruption import FORCE_AFTER, GIVE_UP_AFTER
from django_ray.tasks.requests import Requested
from tests.app import taskbook
from tests.app.executions import NOW
from tests.app.test_worker import Desk, row

MOMENT = timedelta(milliseconds=1)


@pytest.fixture
def desk(db):
    return Desk()


def cancel(identity):
    return requests.cancel(row(identity).public_id, now=timezone.now())


def look(desk):
    desk.clock.now += worker.ASK_PAUSE
    desk.step()


def closed(identity):
    return summaries.decode(bytes(row(identity).progress_summary))


def test_cancelled_run_is_interrupted_within_a_second_and_ends_cancelled(desk):
    identity = desk.started()
    assert cancel(identity) == Requested()

    look(desk)
    assert desk.hosts.cancelled == [(identity, False)]
    assert row(identity).state == "RUNNING"
    desk.hosts.ends(outcome.Cancelled())
    desk.step()

    assert row(identity).state == "CANCELLED"
    assert (closed(identity).state, closed(identity).terminal.reason) == (
        "CANCELLED",
        "cancelled",
    )
    assert "ended from outside (cancelled)" in row(identity).attempts.get().error_text
    assert desk.hosts.released == [identity]


def test_what_is_to_be_ended_is_asked_in_one_statement_a_second(
    desk, django_assert_num_queries
):
    for _ in range(2):
        desk.started()
    desk.clock.now += worker.ASK_PAUSE

    with django_assert_num_queries(1):
        desk.step()
    with django_assert_num_queries(0):
        desk.step()


def test_run_that_does_not_listen_is_forced_after_ten_seconds_and_given_up(desk):
    identity = desk.started()
    cancel(identity)
    look(desk)
    began = desk.clock.now

    desk.clock.now = began + FORCE_AFTER - MOMENT
    desk.step()
    assert desk.hosts.cancelled == [(identity, False)]
    desk.clock.now = began + FORCE_AFTER
    desk.step()
    desk.step()
    assert desk.hosts.cancelled == [(identity, False), (identity, True)]
    assert row(identity).state == "RUNNING"
    desk.clock.now = began + GIVE_UP_AFTER
    desk.step()

    assert row(identity).state == "CANCELLED"
    assert desk.hosts.released == [identity]


SUCCEEDED = outcome.Succeeded(b"1")
FAILED = Ended(outcome.encode(outcome.Failed("a.B", "B: from inside")))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (Lost("WorkerCrashedError"), "(cancelled)"),
        (Ended(outcome.encode(outcome.Refused())), "(cancelled)"),
        (Ended(b"nonsense"), "(cancelled)"),
        (FAILED, "B: from inside"),
    ],
)
def test_interrupted_run_is_cancelled_whatever_its_host_says(desk, said, text):
    identity = desk.started()
    cancel(identity)
    look(desk)

    desk.hosts.said[identity.run_id] = said
    desk.step()

    assert row(identity).state == "CANCELLED"
    assert text in row(identity).attempts.get().error_text


def test_function_that_returns_in_spite_of_a_cancellation_has_succeeded(desk):
    identity = desk.started()
    cancel(identity)
    look(desk)

    desk.hosts.ends(outcome.Succeeded(b"1"))
    desk.step()

    assert (row(identity).state, row(identity).result) == ("SUCCEEDED", 1)


def test_outcome_that_came_before_the_interruption_is_the_runs(desk):
    identity = desk.started()
    cancel(identity)
    desk.hosts.said[identity.run_id] = FAILED

    look(desk)

    assert row(identity).state == "FAILED"
    assert desk.hosts.cancelled == []


@pytest.mark.parametrize("said", [Lost("x"), Ended(outcome.encode(outcome.Refused()))])
def test_run_that_came_to_no_end_when_it_was_to_be_cancelled_is_cancelled(desk, said):
    identity = desk.started()
    cancel(identity)
    desk.hosts.said[identity.run_id] = said

    desk.step()

    assert row(identity).state == "CANCELLED"
    assert closed(identity).terminal.reason == "cancelled"


def test_host_that_cannot_be_reached_is_no_end_of_the_worker(desk):
    identity = desk.started()
    cancel(identity)
    desk.hosts.fault = ConnectionError()

    look(desk)
    desk.clock.now += GIVE_UP_AFTER
    desk.step()

    assert row(identity).state == "CANCELLED"


def test_claimed_run_that_is_to_be_cancelled_does_not_begin(desk):
    taskbook.plain.enqueue()
    desk.step()
    (identity,) = desk.hosts.started
    cancel(identity)

    begun = transitions.start(identity, now=NOW, again=False)

    assert begun == transitions.Stale()
    assert RayTaskExecution.objects.get().state == "CLAIMED"


def timed(desk, seconds, *, since):
    """Let a run with this time-out have begun so long ago."""
    identity = desk.started()
    RayTaskExecution.objects.update(
        options={**row(identity).options, "timeout_seconds": seconds},
        started_at=timezone.now() - since,
    )
    return identity


MINUTE = timedelta(minutes=1)


def test_run_over_its_time_is_interrupted_and_ends_timed_out(desk):
    identity = timed(desk, 60, since=MINUTE)

    look(desk)
    assert desk.hosts.cancelled == [(identity, False)]
    desk.hosts.ends(outcome.Cancelled())
    desk.step()

    assert row(identity).state == "TIMED_OUT"
    assert (closed(identity).state, closed(identity).terminal.reason) == (
        "TIMED_OUT",
        "timed_out",
    )
    assert "(timed_out)" in row(identity).attempts.get().error_text


@pytest.mark.parametrize("seconds", [120, None, "60", True])
def test_run_within_its_time_or_without_one_goes_on(desk, seconds):
    timed(desk, seconds, since=MINUTE)

    look(desk)

    assert desk.hosts.cancelled == []


def test_time_before_the_start_does_not_count(desk):
    identity = timed(desk, 1, since=MINUTE)
    RayTaskExecution.objects.update(state="CLAIMED", started_at=None)

    look(desk)

    assert desk.hosts.cancelled == []
    assert row(identity).state == "CLAIMED"


@pytest.mark.parametrize("said", [FAILED, Ended(outcome.encode(SUCCEEDED)), Lost("x")])
def test_run_whose_time_is_over_has_timed_out_whatever_its_host_says(desk, said):
    identity = timed(desk, 1, since=MINUTE)
    look(desk)

    desk.hosts.said[identity.run_id] = said
    desk.step()

    assert (row(identity).state, row(identity).result) == ("TIMED_OUT", None)


def test_first_reason_to_end_a_run_stays(desk):
    identity = timed(desk, 1, since=MINUTE)
    look(desk)
    cancel(identity)
    look(desk)

    desk.hosts.ends(outcome.Cancelled())
    desk.step()

    assert row(identity).state == "TIMED_OUT"
    assert len(desk.hosts.cancelled) == 1


def test_cancellation_comes_before_a_time_out(desk):
    identity = timed(desk, 1, since=MINUTE)
    cancel(identity)

    look(desk)
    desk.hosts.ends(outcome.Cancelled())
    desk.step()

    assert row(identity).state == "CANCELLED"
