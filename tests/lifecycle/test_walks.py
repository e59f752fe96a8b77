"""Long random walks: nothing is raised, snapshots stay bounded, a replay repeats them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_ray.lifecycle import events
from django_ray.lifecycle.callbacks import ANSWERS
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import Rejection, Transition
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.terms import LifecycleDeadlines
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind
from tests.lifecycle.making import IDENTITY, INVOCATION_DEADLINES, session

BYTES_AN_EVENT = 3
COMMANDS, CALLBACKS = tuple(CommandKind), tuple(CallbackKind)
HAPPY = {
    "VALIDATE": "VALIDATED",
    "PREPARE": "PREPARED",
    "ADMIT": "ADMITTED",
    "SUBMIT": "SUBMITTED",
    "CONSUME_OUTPUT": "OUTPUT_CONSUMED",
    "RELEASE_CAPACITY": "CAPACITY_RELEASED",
    "CANCEL": "CANCELLED",
    "DRAIN_INVOCATION": "DRAINED",
    "DRAIN_SESSION": "DRAINED",
    "CHECK_HEALTH": "HEALTHY",
    "TEARDOWN": "TORN_DOWN",
}
ONWARD = {
    "NEW": CommandKind.VALIDATION_REQUESTED,
    "VALIDATED": CommandKind.PREPARATION_REQUESTED,
    "READY": CommandKind.ADMISSION_REQUESTED,
    "ADMITTED": CommandKind.SUBMISSION_REQUESTED,
    "RUNNING": CommandKind.CONSUMPTION_REQUESTED,
    "QUARANTINED": CommandKind.TEARDOWN_REQUESTED,
}


class Walk:
    """A session driven by bytes: three choose one event."""

    def __init__(self, data):
        self.data = data
        self.deadlines = LifecycleDeadlines(
            **dict(zip(LifecycleDeadlines.__slots__, self.times(data), strict=True))
        )
        self.state = session(self.deadlines)

    def times(self, data):
        """Most walks have far deadlines; in the others they lie close together."""
        far = 2**62
        return [byte * 16 if data[0] < 96 else far for byte in data[:7]]

    def events(self):
        now = 0
        for start in range(0, len(self.data) - 2, BYTES_AN_EVENT):
            how, what, when = self.data[start : start + BYTES_AN_EVENT]
            now += when // 64
            yield self.event(how, what, now if when != 255 else now - 1)

    def event(self, how, what, now):
        state, pending = self.state, self.state.pending
        if how < 160:
            return self.onward(what, now)
        if how < 200 and pending is not None:
            answers = (*ANSWERS[pending.kind], CallbackKind.DEADLINE_EXPIRED)
            kind = answers[what % len(answers)]
            return events.answer(pending, kind, now, not_started=how % 2 == 0)
        if how < 225:
            return self.command(COMMANDS[what % len(COMMANDS)], what, now)
        invocation = state.invocation and state.invocation.identity
        return events.Callback(
            kind=CALLBACKS[what % len(CALLBACKS)],
            session=IDENTITY,
            observed_at=now,
            invocation=invocation if how % 2 else None,
            token=(None, state.issued, state.completed, 1)[how % 4],
            output=None if how % 3 else what % 3,
        )

    def onward(self, what, now):
        state, pending = self.state, self.state.pending
        if pending is not None:
            return events.answer(pending, CallbackKind[HAPPY[pending.kind]], now)
        invocation = state.in_progress
        place = state.state if invocation is None else invocation.state
        return self.command(ONWARD.get(place, CommandKind.DRAIN_REQUESTED), what, now)

    def command(self, kind, what, now):
        state = self.state
        if kind is CommandKind.ADMISSION_REQUESTED:
            last = state.last_invocation
            return events.admission(
                state,
                now,
                invocation_id=f"{'x' * 100}{0 if last is None else last.number}",
                outputs=1 + what % 66,
                deadlines=INVOCATION_DEADLINES,
            )
        if kind is CommandKind.CONSUMPTION_REQUESTED:
            invocation = state.in_progress
            slots = len(invocation.outputs) if invocation is not None else 1
            return events.consumption(state, now, output=what % (slots + 1))
        return events.command(state, kind, now)

    def run(self):
        """Return the events and, after each, the snapshot."""
        trace = []
        for event in self.events():
            before = self.state
            result = reduce_lifecycle(before, event)
            if isinstance(result, Transition):
                self.state = result.state
            else:
                assert isinstance(result, Rejection)
            trace.append((event, lifecycle_snapshot(self.state)))
        return trace


def check(data):
    trace = Walk(data).run()
    state = Walk(data).state
    for event, snapshot in trace:
        assert len(snapshot) <= 16_384
        result = reduce_lifecycle(state, event)
        state = getattr(result, "state", state)
        assert lifecycle_snapshot(state) == snapshot
    if trace:
        document = json.loads(trace[-1][1])
        plain = json.dumps(
            document, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        assert plain.encode() == trace[-1][1]
    return len(trace)


@given(st.binary(min_size=9, max_size=150))
def test_no_walk_raises_and_a_replay_gives_the_same_bytes(data):
    check(data)


@pytest.mark.deep
def test_a_million_random_events_raise_nothing_and_replay_to_the_same_bytes(capsys):
    total = 0

    @settings(max_examples=2_000, deadline=None)
    @given(st.binary(min_size=1_536, max_size=1_536))
    def walk(data):
        nonlocal total
        total += check(data)

    walk()
    with capsys.disabled():
        print(f"\nlifecycle: {total:,} random events")
    assert total >= 1_000_000
