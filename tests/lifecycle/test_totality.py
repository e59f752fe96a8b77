"""Whatever comes in, something is answered: contract 4.17."""

from dataclasses import fields, is_dataclass, replace
from itertools import product

import pytest

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.events import Admission, Callback, Command, answer
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import REJECTIONS, Rejection, Transition
from django_ray.lifecycle.shape import is_known
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.state import (
    CompiledGraphInvocationState,
    CompiledGraphSessionState,
    seal,
)
from django_ray.lifecycle.vocabulary import (
    CallbackKind,
    CommandKind,
    RejectionCode,
    SessionState,
)
from tests.lifecycle.making import (
    IDENTITY,
    INVOCATION_DEADLINES,
    Session,
    invocation_identity,
)
from tests.lifecycle.universe import NOW, universe

INVALID_STATE = REJECTIONS[RejectionCode.INVALID_STATE]
INVALID_EVENT = REJECTIONS[RejectionCode.INVALID_EVENT]


class Hostile(int):
    """Raises whenever it is asked anything."""

    def _raise(self, *_):
        raise RuntimeError("asked")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = _raise
    __getattr__ = __iter__ = __repr__ = __str__ = __index__ = __contains__ = _raise

    def __hash__(self):
        raise RuntimeError("asked")


class FakeString(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError("asked")

    __hash__ = str.__hash__


GARBAGE = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    2**4000,
    1.0,
    float("nan"),
    "",
    "READY",
    "x" * 129,
    "\ud800",
    "\x00",
    b"READY",
    (),
    (None,),
    [],
    {},
    object(),
    Hostile(1),
    FakeString("READY"),
    SessionState,
    SessionState.READY,
    IDENTITY,
    object.__new__(type(IDENTITY)),
    object.__new__(Admission),
    object.__new__(CompiledGraphInvocationState),
    invocation_identity("second"),
)


def states():
    """Return one state of every kind: idle, busy, pending, ended."""
    session = Session()
    yield session.state
    yield session.ready().state
    yield session.admitted(outputs=2).state
    yield session.told("ADMITTED").state
    yield session.asked("SUBMISSION_REQUESTED").told("SUBMITTED").state
    yield session.consuming(1).state
    yield session.asked("CANCELLATION_REQUESTED").state
    yield session.told("CANCELLED").told("DRAIN_FAILED").state
    yield session.told("TEARDOWN_FAILED").state


STATES = list(states())
ADMISSION = Session().ready().admission("next")
NO_OUTPUTS = replace(ADMISSION.admission, outputs=0)
OTHER_OUTPUT = replace(
    answer(STATES[5].pending, CallbackKind.OUTPUT_CONSUMED, 0), output=0
)


def events_for(state):
    """Return a sound event of every kind for `state`."""
    invocation = state.invocation and state.invocation.identity
    token = state.pending and state.pending.token
    output = state.pending and state.pending.output
    for kind in CommandKind:
        yield Command(kind=kind, session=IDENTITY, observed_at=0, invocation=invocation)
    yield Command(
        kind=CommandKind.ADMISSION_REQUESTED,
        session=IDENTITY,
        observed_at=0,
        invocation=invocation_identity("next"),
        admission=Admission(number=2, outputs=1, deadlines=INVOCATION_DEADLINES),
    )
    for kind in CallbackKind:
        yield Callback(
            kind=kind,
            session=IDENTITY,
            observed_at=0,
            invocation=invocation,
            token=token,
            output=output,
        )


def answered(state, event):
    result = reduce_lifecycle(state, event)
    assert isinstance(result, Transition | Rejection)
    return result


def spoiled(value):
    """Yield `value` with garbage in every field, at every depth."""
    for field in fields(value):
        good = getattr(value, field.name)
        for bad in GARBAGE:
            yield replace_by_force(value, field.name, bad)
        if is_dataclass(good):
            for inner in spoiled(good):
                yield replace_by_force(value, field.name, inner)


def replace_by_force(value, name, bad):
    """Return a copy with one field changed, past every check of its class."""
    copy = object.__new__(type(value))
    for field in fields(value):
        object.__setattr__(copy, field.name, getattr(value, field.name))
    object.__setattr__(copy, name, bad)
    return copy


def test_garbage_is_no_state_and_no_event():
    for state, garbage in product(STATES, GARBAGE):
        assert reduce_lifecycle(state, garbage) is INVALID_EVENT
        assert reduce_lifecycle(garbage, next(events_for(state))) is INVALID_STATE


def test_objects_without_fields_are_no_states_and_no_events():
    for kind in (Command, Callback):
        assert reduce_lifecycle(STATES[0], object.__new__(kind)) is INVALID_EVENT
    empty = object.__new__(CompiledGraphSessionState)
    assert reduce_lifecycle(empty, next(events_for(STATES[0]))) is INVALID_STATE


def test_an_event_with_garbage_anywhere_is_answered_and_changes_no_more_than_it_may():
    for state in STATES:
        for event in events_for(state):
            for bad in spoiled(event):
                result = answered(state, bad)
                if isinstance(result, Transition):
                    assert is_known(replace(result.state))


def test_a_state_with_garbage_anywhere_is_answered_and_is_sound_when_it_is_accepted():
    for state in STATES:
        event = next(events_for(state))
        for bad in spoiled(state):
            if reduce_lifecycle(bad, event) is not INVALID_STATE:
                assert is_known(bad)
                lifecycle_snapshot(bad)


def test_a_state_changed_by_force_raises_nothing():
    for original in STATES:
        for field, bad in product(fields(original), GARBAGE):
            state = Session().state
            for name in fields(original):
                object.__setattr__(state, name.name, getattr(original, name.name))
            object.__setattr__(state, field.name, bad)
            for event in list(events_for(original))[5::8]:
                answered(state, event)


def test_a_state_that_was_put_together_anew_is_examined_and_goes_on():
    for state in STATES:
        for event in events_for(state):
            anew = reduce_lifecycle(replace(state), event)
            assert anew == reduce_lifecycle(state, event)


def test_no_rejection_repeats_what_came_from_outside():
    marker = "marker-from-outside"
    for state in STATES:
        for event in events_for(state):
            for field in fields(event):
                result = answered(state, replace_by_force(event, field.name, marker))
                if isinstance(result, Rejection):
                    assert marker not in result.message


def flawed(state):
    """Yield events that no state accepts, one for each thing that can be wrong."""
    sound = next(events_for(state))
    reply = Callback(kind=CallbackKind.VALIDATED, session=IDENTITY, observed_at=NOW)
    yield replace(sound, output=0)
    yield replace(sound, session=None)
    yield replace(sound, session=replace(IDENTITY, owner_epoch=2))
    yield replace(sound, observed_at=-1)
    yield replace(sound, invocation=None, observed_at=0)
    yield replace(sound, invocation=None, observed_at=NOW, token=1)
    yield reply
    yield replace(reply, token=99)
    yield replace(reply, token=state.completed or 99)
    other = invocation_identity("other")
    yield replace(reply, kind=CallbackKind.SUBMITTED, invocation=other)


@pytest.mark.xdist_group("lifecycle universe")
def test_every_reachable_state_answers_every_event_and_every_rejection_code_is_given():
    codes = set(universe().rejections)
    for state in {node.state for node in universe().nodes}:
        assert is_known(state)
        seal(state)
        for event in events_for(state):
            for name in (None, event.invocation):
                moved = replace(event, observed_at=NOW, invocation=name)
                codes.add(getattr(answered(state, moved), "code", None))
        for event in flawed(state):
            codes.add(answered(state, event).code)
    exhausted = replace(STATES[0], issued=MAXIMUM_63)
    codes.add(answered(exhausted, next(events_for(exhausted))).code)
    codes.add(answered(None, None).code)
    codes.add(answered(STATES[1], replace(ADMISSION, admission=NO_OUTPUTS)).code)
    codes.add(answered(STATES[5], OTHER_OUTPUT).code)
    assert set(RejectionCode) - codes == set()
