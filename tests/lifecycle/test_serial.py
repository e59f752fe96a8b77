"""One session serves one invocation after the other, thousands of times."""

import pickle

from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.terms import INVOCATION_STAGES, InvocationDeadlines
from tests.lifecycle.making import Session

INVOCATIONS = 10_000


def test_ten_thousand_serial_invocations_reuse_one_session_in_bounded_state():
    session, sizes = Session().ready(), set()
    for number in range(INVOCATIONS):
        start = number % 400
        deadlines = InvocationDeadlines(
            **dict.fromkeys(INVOCATION_STAGES, 5_000 + start)
        )
        session.succeeded(f"{number:05}", deadlines=deadlines)
        if number % 1_000 == 999:
            sizes.add(len(pickle.dumps(session.state)))
            sizes.add(len(lifecycle_snapshot(session.state)))
    assert session.state.invocation.number == INVOCATIONS
    assert session.state.issued == 2 + 4 * INVOCATIONS
    assert (session.state.state, session.state.graph) == ("READY", "REUSABLE")
    assert session.state.outcome == "SUCCEEDED"
    assert max(sizes) < 4_096


def test_reuse_goes_on_after_refused_failed_and_timed_out_invocations():
    session = Session().ready()
    for round_ in range(200):
        session.admitted(f"{round_}-refused").told("CAPACITY_REJECTED")
        session.running(f"{round_}-raised").consuming().told("APPLICATION_ERROR")
        session.told("DRAINED").told("HEALTHY")
        session.admitted(f"{round_}-unsent").told("ADMITTED")
        session.asked("SUBMISSION_REQUESTED").told("CHANNEL_ERROR", not_started=True)
        session.told("DRAINED").told("HEALTHY")
        session.succeeded(f"{round_}-served", outputs=3)
    assert session.state.invocation.number == 800
    assert session.state.cleanup == ()


def test_an_invocation_with_its_clean_up_takes_at_most_71_tokens():
    session = Session().ready()
    before = session.state.issued
    session.running(outputs=64)
    for output in range(63):
        session.consuming(output).told("OUTPUT_CONSUMED")
    session.consuming(63).asked("CANCELLATION_REQUESTED").told("CANCELLED")
    session.told("DRAINED").told("HEALTHY").told("DRAINED").told("TORN_DOWN")
    assert session.state.issued - before == 71


def test_admission_once_closed_admits_nothing_even_in_a_session_that_is_ready():
    session = Session().ready().altered(admission_open=False)
    assert session.refused(session.admission()) == "INVALID_TRANSITION"
