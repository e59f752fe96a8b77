"""Compiled sessions of a run, through an owner of their own, on a real Ray."""

import os
import signal
import threading

import pytest
import ray

from django_ray.errors import ConfigurationError, GraphRefused, InvocationFailed
from django_ray.lifecycle.budgets import Deadlines
from django_ray.protocol.vocabulary import NodeState, SelectionPolicy
from django_ray.workflow import compiled
from tests.ray import parts
from tests.ray.conftest import wait_until
from tests.ray.owning import living
from tests.ray.runs import Recorder, observed, settings

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

COMPILED = SelectionPolicy.compiled_graph


class Seen(Recorder):
    """A recorder whose nodes may end again, with each invocation."""

    def require_exact(self):
        pass


@pytest.fixture
def run():
    """A current run that compiles; nothing of its sessions outlives it."""
    before = living()
    with observed(told=settings(strategy=COMPILED), recorder=Seen()) as seen:
        yield seen
    wait_until(lambda: not living() - before, 20)


def pid_of(session):
    return ray.get(
        session._owner._actor.__ray_call__.remote(lambda _: os.getpid()), timeout=20
    )


@pytest.mark.deep
def test_one_input_after_another_goes_through_one_owner_and_its_methods_are_nodes(run):
    with compiled(parts.obeying) as session:
        assert [session.invoke(n) for n in range(20)] == list(range(20))
        with pytest.raises(ValueError, match="password"):
            session.invoke("raise")
        assert session.invoke("fine") == "fine"
        with pytest.raises(InvocationFailed) as failed:
            session.invoke(bytes(20_000_000))
        assert failed.value.outcome == "CHANNEL_ERROR"
        assert "input is 20,000,0" in str(failed.value.__cause__)
        assert session.invoke("fine") == "fine"
        assert session.state.last_invocation.number == 24
        assert session.state.identity.owner_epoch == 1
    assert run.ids == [
        "1.tests.ray.parts.Part.obey#0",
        "1.tests.ray.parts.Part.same#0",
    ]
    assert run.edges == {tuple(run.ids)}
    assert run.declared == {1: 2}
    assert session.state.state == "TORN_DOWN"


def test_an_owner_killed_in_a_call_is_lost_with_its_output(run):
    with compiled(parts.obeying) as session:
        session.invoke("fine")
        pid = pid_of(session)
        threading.Timer(0.5, os.kill, (pid, 9)).start()
        with pytest.raises(InvocationFailed) as failed:
            session.invoke(60.0)
        assert (failed.value.outcome, failed.value.effect, failed.value.retry) == (
            "OWNER_LOST",
            "MAY_HAVE_STARTED",
            "OPERATOR_RECONCILIATION_REQUIRED",
        )
        assert session.state.state == "QUARANTINED"
        assert session.state.invocation.outputs == ("LOST_WITH_OWNER",)
        with pytest.raises(InvocationFailed, match="QUARANTINED"):
            session.invoke("fine")
    assert list(run.latest.values()) == [NodeState.FAILED] * 2
    assert {state.invocation for state in run.states} == {2}
    assert b"OWNER_LOST" in run.sessions[-1].snapshot


@pytest.mark.deep
def test_an_owner_killed_before_an_invocation_was_sent_has_started_nothing(run):
    with compiled(parts.obeying) as session:
        os.kill(pid_of(session), 9)
        session.close()
    assert session.state.outcome == "OWNER_LOST"
    assert session.state.effect == "NOT_STARTED"
    assert session.state.retry == "AUTOMATIC_ALLOWED"
    assert session.state.invocation is None


def test_an_input_that_cannot_be_serialized_is_refused_and_the_next_is_served(run):
    with compiled(parts.passing) as session:
        with pytest.raises(TypeError):
            session.invoke(threading.Lock())
        assert session.state.last_invocation is None
        assert session.invoke("fine") == "fine"
        with pytest.raises(TypeError):
            session.invoke(threading.Lock())
        assert session.invoke("fine") == "fine"
        assert session.state.last_invocation.number == 2


@pytest.mark.deep
def test_an_interrupt_in_a_call_cancels_it_and_settles_its_late_result(run):
    session = interrupted(2.5)
    assert session.state.state == "TORN_DOWN"
    assert session.state.outcome == "CANCELLED_AFTER_SUBMISSION"
    assert session.state.invocation.outputs == ("ADAPTER_RELEASED",)


@pytest.mark.deep
def test_an_interrupt_that_is_seen_when_the_result_is_there_ends_a_sound_session(run):
    """Ray looks for signals once a second while it waits for a result."""
    session = interrupted(0.6)
    assert session.state.state == "TORN_DOWN"
    assert session.state.outcome == "SUCCEEDED"
    assert session.state.invocation.outputs == ("CONSUMED",)


@pytest.mark.deep
def test_an_interrupt_in_a_call_that_does_not_end_ends_its_owner(run):
    session = interrupted(60.0)
    assert session.state.state == "QUARANTINED"
    assert session.state.outcome == "CANCELLED_AFTER_SUBMISSION"
    assert list(run.latest.values()) == [NodeState.CANCELLED] * 2


def interrupted(order):
    """Interrupt this process while an input is under way, as the run's host would."""
    with compiled(parts.obeying) as session:
        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            session.invoke(order)
    return session


@pytest.mark.deep
def test_an_idle_session_is_taken_down_and_the_next_input_prepares_another(run):
    with compiled(parts.counting, idle_s=0.5) as session:
        before = living()
        assert session.invoke(None) == 1
        first = session.state.identity.owner_epoch
        wait_until(lambda: len(living()) < len(before), 30)
        assert session.invoke(None) == 1
        assert session.state.identity.owner_epoch > first
        assert session.state.last_invocation.number == 2
    assert len(run.ids) == 1


@pytest.mark.deep
def test_a_result_past_its_deadline_is_told_and_the_next_input_is_served(run):
    with compiled(parts.obeying, deadlines=Deadlines(result=4, teardown=1)) as session:
        with pytest.raises(InvocationFailed, match="GET_TIMEOUT"):
            session.invoke(60.0)
        assert session.invoke("fine") == "fine"


@pytest.mark.deep
def test_a_graph_that_cannot_be_compiled_is_refused_or_run_dynamically():
    with (
        observed(told=settings(strategy=COMPILED)),
        pytest.raises(GraphRefused),
        compiled(parts.function),
    ):
        pytest.fail("it was opened")
    told = settings(strategy=SelectionPolicy.automatic)
    with observed(told=told) as seen, compiled(parts.function) as session:
        assert session.invoke(4) == 4
    assert seen.ids == ["1.tests.ray.parts.plain#0"]


def test_under_dynamic_each_input_is_a_run_of_the_graph_on_actors_that_stay():
    before = living()
    with observed() as seen, compiled(parts.counting) as session:
        assert [session.invoke(None) for _ in range(3)] == [1, 2, 3]
    assert len(seen.ids) == 3
    wait_until(lambda: not living() - before, 20)


@pytest.mark.deep
def test_several_outputs_come_as_a_list_under_every_strategy(run):
    with compiled(parts.pair, outputs=2) as session:
        assert session.invoke("fine") == ["fine", "fine"]
    with observed(), compiled(parts.pair, outputs=2) as session:
        assert session.invoke("fine") == ["fine", "fine"]


@pytest.mark.parametrize(
    "given",
    [
        *({"idle_s": value} for value in (0, -1, 0.09, 10_000_001, True, None, "3")),
        *({"idle_s": value} for value in (float("nan"), float("inf"))),
        *({"deadlines": value} for value in ("x", {}, {"outer": 3})),
        *({"effects": value} for value in ("junk", 3, [])),
        *({"outputs": value} for value in (0, 65, True, "1")),
        *({"buffer_bytes": value} for value in (999, 1e6, None)),
    ],
    ids=str,
)
def test_what_can_never_hold_is_refused_under_every_strategy(given):
    with pytest.raises(ConfigurationError), compiled(parts.passing, **given):
        pass


@pytest.mark.parametrize(
    ("build", "outputs", "found"), [(parts.pair, 1, 2), (parts.passing, 2, 1)]
)
def test_a_graph_of_other_outputs_is_refused_before_it_runs(build, outputs, found):
    with (
        pytest.raises(GraphRefused, match=f"{found} outputs, and {outputs} are"),
        compiled(build, outputs=outputs),
    ):
        pass


def test_effects_are_those_of_the_tasks_options(run):
    with (
        pytest.raises(ConfigurationError, match="effects"),
        compiled(parts.passing, effects="declared"),
    ):
        pytest.fail("it was opened")
