"""The owner's loop, its control and its sessions, with an engine that does as it is told."""

import itertools
import threading
import time

import pytest

from actors.owner import Owner, OwnerTerms
from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.budgets import Deadlines
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.vocabulary import ActionKind, CallbackKind, CommandKind
from django_ray.protocol.vocabulary import NodeState
from tests.fakes import IDENTITY, START_MS, FakeClock, FakeEngine, FakeNews

S = NodeState


class Stand:
    """An owner with fakes; `engines` are those of its sessions."""

    def __init__(self, *, outputs=1, idle_s=3_600.0, outer_ms=MAXIMUM_63, news=None):
        self.clock = FakeClock()
        self.news = news or FakeNews()
        self.engines = []
        self.like = []
        self.outputs = outputs
        names = itertools.count(1)
        self.owner = Owner(
            OwnerTerms(
                run=IDENTITY,
                graph_key="graph",
                outputs=outputs,
                budgets=Deadlines(),
                outer_ms=outer_ms,
                idle_s=idle_s,
            ),
            self.make,
            clock=self.clock,
            identify=lambda: f"session-{next(names)}",
            news=self.news,
        )
        self.numbers = itertools.count(1)

    def make(self, like):
        engine = FakeEngine(self.clock, self.outputs)
        self.like.append(like)
        self.engines.append(engine)
        return engine

    @property
    def engine(self):
        return self.engines[-1]

    @property
    def state(self):
        return self.owner.state

    def invoke(self, value="in"):
        return self.owner.invoke(value, f"invocation-{next(self.numbers)}")

    def control(self, kind):
        """Control from another thread, and its end awaited."""
        thread = threading.Thread(target=self.owner.control, args=(kind,))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    def kinds(self):
        return [str(action.kind) for action in self.engine.dispatched]


@pytest.fixture
def stand():
    made = Stand()
    made.owner.prepare()
    yield made
    made.owner.close()


CANCEL = CommandKind.CANCELLATION_REQUESTED


def test_a_prepared_owner_serves_inputs_and_counts_its_invocations(stand):
    assert [stand.invoke(n).values for n in range(5)] == [(n,) for n in range(5)]
    assert stand.state.last_invocation.number == 5
    assert stand.news.begun == [1, 2, 3, 4, 5]
    assert stand.news.ends == [(S.SUCCEEDED, S.SUCCEEDED)] * 5
    assert stand.news.states[-1] is stand.state


def test_a_close_drains_and_tears_down_and_nothing_is_served_any_more(stand):
    stand.invoke()
    assert stand.owner.close().state.state == "TORN_DOWN"
    assert stand.kinds()[-2:] == ["DRAIN_SESSION", "TEARDOWN"]
    assert stand.invoke().values is None
    assert len(stand.engines) == 1


def test_a_cancellation_before_submission_starts_nothing(stand):
    stand.engine.during[ActionKind.ADMIT] = lambda: stand.control(CANCEL)
    answer = stand.invoke()
    assert (answer.values, answer.ends) == (None, None)
    assert "SUBMIT" not in stand.kinds()
    state = stand.state
    assert (state.state, state.outcome) == ("TORN_DOWN", "CANCELLED_PRE_SUBMISSION")
    assert (state.effect, state.retry) == ("NOT_STARTED", "PROHIBITED")
    assert state.invocation.outputs == ("NOT_CREATED",)
    assert stand.news.begun == []


def test_a_cancellation_during_a_call_wins_over_its_late_result(stand):
    stand.engine.during[ActionKind.CONSUME_OUTPUT] = lambda: stand.control(CANCEL)
    answer = stand.invoke()
    assert answer.values is None
    assert answer.ends == (S.SUCCEEDED, S.SUCCEEDED)
    assert stand.state.outcome == "CANCELLED_AFTER_SUBMISSION"
    assert stand.kinds()[3:] == [
        "SUBMIT",
        "CONSUME_OUTPUT",
        "CANCEL",
        "DRAIN_INVOCATION",
        "CHECK_HEALTH",
        "DRAIN_SESSION",
        "TEARDOWN",
    ]


def test_a_cancellation_after_the_result_closes_admission_alone(stand):
    stand.invoke()
    stand.control(CANCEL)
    state = stand.state
    assert (state.state, state.outcome) == ("TORN_DOWN", "SUCCEEDED")
    assert stand.invoke().values is None


def test_a_cancellation_while_the_health_is_checked_lets_the_success_stand(stand):
    stand.engine.during[ActionKind.CHECK_HEALTH] = lambda: stand.control(CANCEL)
    assert stand.invoke("late").values == ("late",)
    assert (stand.state.state, stand.state.outcome) == ("TORN_DOWN", "SUCCEEDED")


def test_a_clock_that_steps_back_stops_nothing(stand):
    stand.invoke()
    stand.clock.advance(-1_000_000)
    assert stand.invoke("again").values == ("again",)


def test_the_outer_deadline_ends_the_session_and_its_rest_is_ended():
    stand = Stand(outer_ms=START_MS + 1_000)
    stand.owner.prepare()
    stand.clock.advance(1_000)
    assert stand.invoke().values is None
    assert (stand.state.state, stand.state.outcome) == ("QUARANTINED", "OUTER_DEADLINE")
    assert stand.engine.released > 0


def test_a_session_that_had_to_be_rebuilt_is_followed_by_the_next(stand):
    stand.engine.says[ActionKind.CHECK_HEALTH] = CallbackKind.UNHEALTHY
    assert stand.invoke("first").values == ("first",)
    assert stand.state.state == "TORN_DOWN"
    assert stand.invoke("second").values == ("second",)
    assert stand.state.identity.owner_epoch == 2
    assert stand.state.identity.session_id != stand.news.states[0].identity.session_id
    assert stand.state.invocation.number == 2
    assert stand.like == [(), stand.engine.methods]


def test_a_teardown_that_fails_quarantines_and_keeps_the_success(stand):
    stand.engine.says[ActionKind.CHECK_HEALTH] = CallbackKind.UNHEALTHY
    stand.engine.says[ActionKind.TEARDOWN] = CallbackKind.TEARDOWN_FAILED
    assert stand.invoke("value").values == ("value",)
    state = stand.state
    assert (state.state, state.outcome) == ("QUARANTINED", "SUCCEEDED")
    assert state.cleanup == ("HEALTH_CHECK_FAILED", "TEARDOWN_FAILED")
    assert stand.engine.released > 0
    assert stand.invoke().values is None
    assert stand.state.last_invocation.number == 1


def test_of_two_outputs_one_consumed_the_other_is_drained():
    stand = Stand(outputs=2)
    stand.owner.prepare()

    def fail_later():
        stand.engine.says[ActionKind.CONSUME_OUTPUT] = CallbackKind.APPLICATION_ERROR
        stand.engine.during.clear()

    stand.engine.during[ActionKind.CONSUME_OUTPUT] = lambda: None
    stand.engine.during[ActionKind.SUBMIT] = fail_later
    answer = stand.invoke()
    assert answer.values is None
    assert stand.state.invocation.outputs == ("CONSUMED", "ADAPTER_RELEASED")
    assert stand.state.state == "READY"


def test_an_input_that_was_refused_has_run_no_method(stand):
    said = stand.engine.dispatch

    def refuse(action):
        told = said(action)
        if action.kind is not ActionKind.SUBMIT:
            return told
        from django_ray.lifecycle.events import answer

        kind = CallbackKind.CHANNEL_ERROR
        return answer(action, kind, told.observed_at, not_started=True)

    stand.engine.dispatch = refuse
    assert stand.invoke().ends == (S.SKIPPED, S.SKIPPED)
    assert stand.state.state == "READY"


def test_a_refused_graph_is_told_and_nothing_is_prepared():
    stand = Stand()
    stand.engine.says[ActionKind.VALIDATE] = CallbackKind.VALIDATION_REJECTED
    stand.engine.error = ValueError("no graph")
    answer = stand.owner.prepare()
    assert answer.state.state == "REJECTED"
    assert isinstance(answer.error, ValueError)
    assert stand.kinds() == ["VALIDATE"]
    assert stand.invoke().values is None


def test_an_idle_session_is_taken_down_and_a_later_input_prepares_another():
    stand = Stand(idle_s=0.05)
    down = threading.Event()
    stand.owner.prepare()
    stand.engine.during[ActionKind.TEARDOWN] = down.set
    stand.invoke()
    assert down.wait(10)
    assert stand.invoke("later").values == ("later",)
    assert stand.state.identity.owner_epoch == 2
    stand.owner.close()


def test_a_session_that_took_long_to_prepare_is_not_idle_for_that():
    stand = Stand(idle_s=0.2)
    stand.engine.during[ActionKind.PREPARE] = lambda: threading.Event().wait(0.4)
    stand.owner.prepare()
    assert stand.owner._used_s > time.monotonic() - 0.2
    assert stand.invoke("in").values == ("in",)
    assert stand.state.identity.owner_epoch == 1
    stand.owner.close()


def test_why_the_next_session_could_not_be_prepared_is_told(stand):
    stand.engine.says[ActionKind.CHECK_HEALTH] = CallbackKind.UNHEALTHY
    stand.invoke()
    make = stand.owner._make

    def refused(like):
        engine = make(like)
        engine.says[ActionKind.VALIDATE] = CallbackKind.VALIDATION_REJECTED
        engine.error = ValueError("another graph")
        return engine

    stand.owner._make = refused
    answer = stand.invoke()
    assert answer.state.state == "REJECTED"
    assert str(answer.error) == "another graph"


def test_every_state_the_owner_tells_has_a_snapshot(stand):
    stand.invoke()
    stand.control(CANCEL)
    for state in stand.news.states:
        assert len(lifecycle_snapshot(state)) <= 16_384
