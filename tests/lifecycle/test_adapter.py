"""The owner's loop as the how-to tells it, with an adapter that does as it is told."""

import pytest

from django_ray.lifecycle import events
from django_ray.lifecycle.adapter import CompiledGraphLifecycleAdapter
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import Transition
from django_ray.lifecycle.terms import (
    INVOCATION_STAGES,
    SESSION_STAGES,
    InvocationDeadlines,
    LifecycleDeadlines,
)
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind
from tests.fakes import START_MS, FakeAdapter, FakeClock
from tests.lifecycle.making import session

FAR = START_MS + 1_000_000
OWN = InvocationDeadlines(**dict.fromkeys(INVOCATION_STAGES, FAR))


class Owner:
    """Reduces, dispatches, reduces the answer, until nothing is pending."""

    def __init__(self, adapter: CompiledGraphLifecycleAdapter, clock: FakeClock):
        self.adapter, self.clock = adapter, clock
        self.state = session(LifecycleDeadlines(**dict.fromkeys(SESSION_STAGES, FAR)))

    def tell(self, event):
        result = reduce_lifecycle(self.state, event)
        while isinstance(result, Transition):
            self.state = result.state
            if result.action is None:
                return
            result = reduce_lifecycle(self.state, self.adapter.dispatch(result.action))
        raise AssertionError(result)

    def ask(self, kind):
        self.tell(events.command(self.state, kind, self.clock()))

    def prepare(self):
        self.ask(CommandKind.VALIDATION_REQUESTED)
        self.ask(CommandKind.PREPARATION_REQUESTED)

    def invoke(self, invocation_id, outputs):
        self.tell(
            events.admission(
                self.state,
                self.clock(),
                invocation_id=invocation_id,
                outputs=outputs,
                deadlines=OWN,
            )
        )
        if self.state.in_progress is not None:
            self.ask(CommandKind.SUBMISSION_REQUESTED)
        for output in range(outputs):
            if self.state.in_progress is not None:
                self.tell(events.consumption(self.state, self.clock(), output=output))


@pytest.fixture
def adapter():
    return FakeAdapter(FakeClock())


@pytest.fixture
def owner(adapter):
    return Owner(adapter, adapter.clock)


def kinds(adapter):
    return [str(action.kind) for action in adapter.dispatched]


def test_the_loop_serves_invocations_and_drains_an_idle_session(owner, adapter):
    owner.prepare()
    owner.invoke("first", 2)
    owner.invoke("second", 1)
    owner.ask(CommandKind.DRAIN_REQUESTED)
    assert kinds(adapter) == [
        "VALIDATE",
        "PREPARE",
        *("ADMIT", "SUBMIT", "CONSUME_OUTPUT", "CONSUME_OUTPUT", "CHECK_HEALTH"),
        *("ADMIT", "SUBMIT", "CONSUME_OUTPUT", "CHECK_HEALTH"),
        *("DRAIN_SESSION", "TEARDOWN"),
    ]
    assert owner.state.state == "TORN_DOWN"
    assert [action.token for action in adapter.dispatched] == list(range(1, 14))


def test_the_loop_has_no_case_for_failures_and_cleans_up_all_the_same(owner, adapter):
    owner.prepare()
    adapter.says["CONSUME_OUTPUT"] = CallbackKind.CHANNEL_ERROR
    adapter.says["TEARDOWN"] = CallbackKind.TEARDOWN_FAILED
    owner.invoke("first", 2)
    assert kinds(adapter)[-2:] == ["CONSUME_OUTPUT", "TEARDOWN"]
    assert (owner.state.state, owner.state.outcome) == ("QUARANTINED", "CHANNEL_ERROR")
    assert owner.state.cleanup == ("TEARDOWN_FAILED",)


def test_an_action_carries_the_scope_it_is_answered_in(owner, adapter):
    owner.prepare()
    owner.invoke("first", 1)
    owner.ask(CommandKind.DRAIN_REQUESTED)
    named = {str(a.kind): a.invocation is not None for a in adapter.dispatched}
    assert named == {
        "VALIDATE": False,
        "PREPARE": False,
        "ADMIT": True,
        "SUBMIT": True,
        "CONSUME_OUTPUT": True,
        "CHECK_HEALTH": True,
        "DRAIN_SESSION": False,
        "TEARDOWN": False,
    }
