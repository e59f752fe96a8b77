"""The native adapter on a real Ray, driven by a real owner in this process."""

import os
import signal
import threading
from contextlib import contextmanager, suppress

import pytest
import ray

from actors import participants
from django_ray.errors import GraphRefused, LimitExceeded
from django_ray.lifecycle.budgets import Deadlines
from django_ray.lifecycle.vocabulary import CommandKind
from django_ray.protocol.vocabulary import NodeState
from tests.ray import parts
from tests.ray.owning import owning

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

S = NodeState


@pytest.mark.deep
def test_a_session_serves_one_input_after_another_and_is_torn_down():
    with owning(parts.chain) as shop:
        assert [method.after for method in shop.prepared.methods] == [(), (0,)]
        assert [shop.invoke(n).values for n in range(50)] == [
            (20 * n,) for n in range(50)
        ]
        assert shop.facts()[:5] == (
            "READY",
            "SUCCEEDED",
            "MAY_HAVE_STARTED",
            "REUSABLE",
            "PROHIBITED",
        )
    assert (shop.state.state, shop.state.cleanup) == ("TORN_DOWN", ())


@pytest.mark.deep
def test_actors_that_build_graph_makes_at_once_take_part_as_well():
    with owning(parts.live) as shop:
        assert shop.invoke(3).values == (60,)


@pytest.mark.deep
def test_64_outputs_are_64_slots_of_one_invocation():
    with owning(parts.wide(64), outputs=64) as shop:
        assert shop.invoke(7).values == (7,) * 64
        assert shop.state.state == "READY"


def test_a_method_that_raises_leaves_the_session_reusable():
    with owning(parts.obeying) as shop:
        answer = shop.invoke("raise")
        assert isinstance(answer.error.cause, ValueError)
        assert answer.values is None
        assert answer.ends == (S.FAILED, S.SKIPPED)
        assert shop.facts() == (
            "READY",
            "APPLICATION_ERROR",
            "MAY_HAVE_STARTED",
            "REUSABLE",
            "APPLICATION_POLICY_REQUIRED",
            (),
        )
        assert shop.invoke("fine").values == ("fine",)
        assert shop.state.identity.owner_epoch == 1


@pytest.mark.deep
def test_of_two_outputs_one_consumed_the_other_is_released():
    with owning(parts.pair, outputs=2) as shop:
        answer = shop.invoke("raise")
        assert shop.state.outcome == "APPLICATION_ERROR"
        assert shop.state.invocation.outputs == ("CONSUMED", "ADAPTER_RELEASED")
        assert answer.ends == (S.FAILED, S.CANCELLED)
        assert shop.invoke("fine").values == ("fine", "fine")


def test_an_input_too_large_or_unfit_to_travel_is_refused_and_nothing_has_started():
    with owning(parts.passing) as shop:
        answer = shop.invoke(bytes(20_000_000))
        assert isinstance(answer.error, LimitExceeded)
        assert shop.facts() == (
            "READY",
            "CHANNEL_ERROR",
            "MAY_HAVE_STARTED",
            "REUSABLE",
            "APPLICATION_POLICY_REQUIRED",
            (),
        )
        assert shop.state.invocation.outputs == ("NOT_CREATED",)
        assert isinstance(shop.invoke(threading.Lock()).error, TypeError)
        assert shop.state.state == "READY"
        assert shop.invoke(1).values == (1,)


@pytest.mark.deep
def test_an_input_of_20_mb_goes_through_a_buffer_that_holds_it():
    with owning(parts.passing, buffer_bytes=21_000_000) as shop:
        for _ in range(12):
            ((value,)) = shop.invoke(bytes(20_000_000)).values
            assert len(value) == 20_000_000
        assert shop.state.state == "READY"


@pytest.mark.deep
def test_an_output_over_its_buffer_is_given_and_ends_the_session():
    with owning(parts.filling) as shop:
        ((value,)) = shop.invoke(3_000_000).values
        assert len(value) == 3_000_000
        assert shop.facts() == (
            "TORN_DOWN",
            "SUCCEEDED",
            "MAY_HAVE_STARTED",
            "TORN_DOWN",
            "PROHIBITED",
            ("HEALTH_CHECK_FAILED",),
        )
        ((value,)) = shop.invoke(10).values
        assert len(value) == 10
        assert shop.state.identity.owner_epoch == 2
        assert shop.state.invocation.number == 2


@pytest.mark.deep
def test_a_participant_that_dies_in_a_call_ends_the_session_and_the_next_one_serves():
    with owning(parts.obeying) as shop:
        answer = shop.invoke("die")
        assert answer.ends == (S.FAILED, S.FAILED)
        assert shop.facts() == (
            "TORN_DOWN",
            "ACTOR_DIED",
            "MAY_HAVE_STARTED",
            "TORN_DOWN",
            "APPLICATION_POLICY_REQUIRED",
            (),
        )
        assert shop.state.invocation.outputs == ("UNAVAILABLE_AFTER_TEARDOWN",)
        assert shop.invoke("fine").values == ("fine",)
        assert shop.state.identity.owner_epoch == 2


@pytest.mark.deep
def test_a_participant_that_dies_while_idle_is_found_at_the_next_submission():
    with owning(parts.obeying) as shop:
        shop.invoke("fine")
        shop.kill(1)
        shop.invoke("fine")
        assert shop.state.outcome == "ACTOR_DIED"
        assert shop.state.state == "TORN_DOWN"
        assert shop.invoke("fine").values == ("fine",)


@pytest.mark.deep
def test_a_result_past_its_deadline_is_never_asked_for_again():
    deadlines = Deadlines(result=1, teardown=0.5)
    with owning(parts.obeying, deadlines=deadlines) as shop:
        answer = shop.invoke(60.0)
        assert answer.ends == (S.FAILED, S.FAILED)
        assert shop.facts() == (
            "TORN_DOWN",
            "GET_TIMEOUT",
            "MAY_HAVE_STARTED",
            "TORN_DOWN",
            "APPLICATION_POLICY_REQUIRED",
            (),
        )
        assert shop.invoke("fine").values == ("fine",)


@pytest.mark.deep
@pytest.mark.parametrize("order", ["pair", "sealed"])
def test_what_cannot_be_unpickled_is_an_error_of_the_application(order):
    deadlines = Deadlines(result=20, teardown=0.5)
    with owning(lambda: parts.one("obey"), deadlines=deadlines) as shop:
        answer = shop.invoke(order)
        assert answer.values is None
        assert answer.ends == (S.FAILED,)
        assert shop.state.outcome == "APPLICATION_ERROR"
        assert shop.state.retry == "APPLICATION_POLICY_REQUIRED"
        assert shop.invoke("fine").values == ("fine",)
        assert shop.state.identity.owner_epoch == 2


@pytest.mark.deep
def test_a_graph_that_takes_no_input_in_time_is_followed_by_another():
    deadlines = Deadlines(submission=1, drain=5, teardown=0.5)
    with owning(lambda: parts.one("keep"), deadlines=deadlines) as shop:
        assert shop.invoke(parts.View(bytes(100_000))).values == (0,)
        shop.invoke(parts.View(bytes(100_000)))
        assert shop.state.outcome == "SUBMIT_TIMEOUT"
        assert shop.state.effect == "MAY_HAVE_STARTED"
        assert shop.state.state == "TORN_DOWN"
        assert shop.invoke("fine").values == (0,)
        assert shop.state.identity.owner_epoch == 2


@pytest.mark.deep
def test_a_result_that_a_cancellation_overtook_and_that_never_came_is_not_released():
    deadlines = Deadlines(result=2, cancellation=1, drain=2, teardown=0.5)
    with owning(parts.obeying, deadlines=deadlines) as shop:
        began = threading.Event()
        shop.news.began = lambda *_: began.set()
        invoking = threading.Thread(target=shop.invoke, args=(60.0,))
        invoking.start()
        assert began.wait(20)
        shop.owner.control(CommandKind.CANCELLATION_REQUESTED)
        invoking.join(60)
        assert shop.state.outcome == "CANCELLED_AFTER_SUBMISSION"
        assert "DRAIN_FAILED" in shop.state.cleanup
        assert "ADAPTER_RELEASED" not in shop.state.invocation.outputs


@pytest.mark.deep
def test_the_outer_deadline_wins_and_nothing_is_left_of_the_session():
    with owning(parts.obeying, deadlines=Deadlines(outer=3, teardown=0.5)) as shop:
        shop.invoke(60.0)
        assert shop.state.outcome == "OUTER_DEADLINE"
        assert shop.state.state == "QUARANTINED"


@contextmanager
def stopped(pid):
    """Keep a process from answering, from leaving, and from dying of a request."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.deep
def test_a_session_is_torn_down_only_when_no_process_of_it_is_left():
    with owning(parts.obeying, deadlines=Deadlines(teardown=0.5)) as shop:
        shop.invoke("fine")
        pids = [place.pid for place in shop.made[-1]._places]
        with stopped(pids[0]):
            shop.owner.close()
            assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        assert shop.facts()[:2] == ("TORN_DOWN", "SUCCEEDED")


@pytest.mark.deep
def test_a_teardown_that_fails_quarantines_the_session_and_keeps_its_outcome(
    monkeypatch,
):
    monkeypatch.setattr(participants, "KILL_S", 0.5)
    with owning(parts.obeying, deadlines=Deadlines(teardown=0.5)) as shop:
        assert shop.invoke("fine").values == ("fine",)
        with stopped(shop.made[-1]._places[0].pid):
            shop.owner.close()
        assert shop.facts() == (
            "QUARANTINED",
            "SUCCEEDED",
            "MAY_HAVE_STARTED",
            "REBUILD_REQUIRED",
            "PROHIBITED",
            ("TEARDOWN_FAILED",),
        )
        answer = shop.invoke("fine")
        assert (answer.values, answer.ends) == (None, None)


@pytest.mark.deep
def test_ten_thousand_invocations_go_through_one_session():
    with owning(parts.chain) as shop:
        for number in range(10_000):
            assert shop.invoke(number).values == (20 * number,)
        assert shop.state.last_invocation.number == 10_000
        assert shop.state.identity.owner_epoch == 1
        assert len(shop.made) == 1


REFUSED = {
    "a function": lambda: parts.function(),
    "no input": lambda: parts.Part.bind().same.bind(1),
    "a coroutine": lambda: parts.one("later"),
    "an actor of others": lambda: parts.foreign(),
    "a node in a list": lambda: parts.nested(),
    "a leaf": lambda: parts.leaf(),
    "another number of outputs": lambda: parts.pair(),
    "nothing": lambda: None,
    "an error": lambda: 1 / 0,
}


@pytest.fixture(scope="module")
def stranger(ray_cluster):
    actor = parts.Part.options(name=parts.STRANGER).remote()
    yield
    ray.kill(actor)


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("case", REFUSED)
def test_a_graph_that_cannot_be_compiled_is_refused_before_anything_is_made(case):
    with owning(REFUSED[case]) as shop:
        expected = ZeroDivisionError if case == "an error" else GraphRefused
        assert isinstance(shop.prepared.error, expected)
        assert shop.facts() == (
            "REJECTED",
            "VALIDATION_REJECTED",
            "NOT_STARTED",
            "UNPREPARED",
            "AUTOMATIC_ALLOWED",
            (),
        )
        assert shop.state.fallback_open
        answer = shop.invoke(1)
        assert (answer.values, answer.ends) == (None, None)


@pytest.mark.deep
def test_an_actor_that_cannot_be_made_fails_the_preparation():
    with owning(parts.broken) as shop:
        assert shop.facts()[:2] == ("TORN_DOWN", "PREPARATION_FAILED")
        assert not shop.state.fallback_open
