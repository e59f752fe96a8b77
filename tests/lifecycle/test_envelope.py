"""What is refused before any table, and in which order."""

from dataclasses import replace

import pytest

from django_ray.lifecycle import events
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import REJECTIONS, Rejection, Transition
from django_ray.lifecycle.terms import WorkflowInvocationIdentity
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind, RejectionCode
from tests.lifecycle.making import (
    IDENTITY,
    INVOCATION_DEADLINES,
    RUN,
    Session,
    invocation_identity,
)

OTHER_RUN = replace(RUN, attempt_number=2)


def code(state, event):
    result = reduce_lifecycle(state, event)
    assert isinstance(result, Rejection)
    return result.code


CALLBACK_FAULTS = [
    ({"not_started": True}, "INVALID_EVENT"),
    ({"session": "session-1"}, "INVALID_IDENTITY"),
    ({"session": replace(IDENTITY, owner_epoch=2)}, "STALE_SESSION_IDENTITY"),
    ({"invocation": None}, "MISSING_INVOCATION_IDENTITY"),
    ({"invocation": "first"}, "INVALID_IDENTITY"),
    ({"invocation": invocation_identity("other")}, "STALE_INVOCATION_IDENTITY"),
    ({"observed_at": True}, "INVALID_CLOCK"),
    ({"observed_at": 4}, "CLOCK_REGRESSION"),
    ({"token": None}, "ACTION_TOKEN_REQUIRED"),
    ({"token": 3}, "DUPLICATE_ACTION"),
    ({"token": 2}, "STALE_ACTION_TOKEN"),
    ({"kind": CallbackKind.ADMITTED}, "INVALID_TRANSITION"),
    ({"output": 0}, "ACTION_PAYLOAD_MISMATCH"),
]


def test_of_several_faults_of_a_callback_the_first_in_the_pages_order_is_named():
    session = Session().at(5).ready().admitted().told("ADMITTED")
    session.asked("SUBMISSION_REQUESTED")
    sound = events.answer(session.state.pending, CallbackKind.SUBMITTED, 5)
    assert isinstance(reduce_lifecycle(session.state, sound), Transition)
    for first in range(len(CALLBACK_FAULTS)):
        event = sound
        for changes, _ in reversed(CALLBACK_FAULTS[first:]):
            event = replace(event, **changes)
        assert code(session.state, event) == CALLBACK_FAULTS[first][1]


COMMAND_FAULTS = [
    ({"output": 0}, "INVALID_EVENT"),
    ({"session": None}, "INVALID_IDENTITY"),
    ({"session": replace(IDENTITY, session_id="other")}, "STALE_SESSION_IDENTITY"),
    ({"invocation": invocation_identity("")}, "INVALID_IDENTITY"),
    ({"invocation": invocation_identity("other")}, "STALE_INVOCATION_IDENTITY"),
    ({"observed_at": -1}, "INVALID_CLOCK"),
    ({"observed_at": 4}, "CLOCK_REGRESSION"),
    ({"token": 1}, "UNEXPECTED_ACTION_TOKEN"),
]


def test_of_several_faults_of_a_command_the_first_in_the_pages_order_is_named():
    session = Session().at(5).ready().admitted()
    sound = replace(
        events.command(session.state, CommandKind.DRAIN_REQUESTED, 5), output=None
    )
    assert code(session.state, sound) == "ACTION_IN_PROGRESS"
    for first in range(len(COMMAND_FAULTS)):
        event = sound
        for changes, _ in reversed(COMMAND_FAULTS[first:]):
            event = replace(event, **changes)
        assert code(session.state, event) == COMMAND_FAULTS[first][1]


def test_a_pending_action_is_named_before_the_commands_row_and_that_before_its_content():
    session = Session().ready()
    assert session.refused(session.admission(outputs=0)) == "OUTPUT_CARDINALITY_INVALID"
    session.asked("DRAIN_REQUESTED")
    assert session.refused(session.admission(outputs=0)) == "ACTION_IN_PROGRESS"
    session.told("DRAINED").told("TORN_DOWN")
    assert session.refused(session.admission(outputs=0)) == "INVALID_TRANSITION"


@pytest.mark.parametrize("count", [0, 65, -1, True, 2**70, "1", None, 1.0])
def test_a_count_of_outputs_is_1_to_64(count):
    session = Session().ready()
    event = session.admission(outputs=count)
    assert session.refused(event) == "OUTPUT_CARDINALITY_INVALID"


@pytest.mark.parametrize("index", [2, -1, True, False, 2**70, "0", None, 0.0])
def test_an_output_index_is_one_that_was_declared(index):
    session = Session().ready().running(outputs=2)
    event = session.consumption(index)
    assert session.refused(event) == "OUTPUT_INDEX_INVALID"


@pytest.mark.parametrize("number", [0, -1, True, 2**63, "1", None, 2])
def test_the_first_number_is_1_and_any_malformed_one_no_identity(number):
    session = Session().ready()
    event = session.admission()
    event = replace(event, admission=replace(event.admission, number=number))
    assert session.refused(event) == "INVALID_IDENTITY"


def test_numbers_go_on_from_an_earlier_session():
    earlier = Session().ready().succeeded("first").state.last_invocation
    session = Session(before=earlier).ready()
    assert session.refused(session.admission("first")) == "DUPLICATE_INVOCATION"
    session.admitted("second")
    assert session.state.invocation.number == 2


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (None, "MISSING_INVOCATION_IDENTITY"),
        (invocation_identity("x" * 129), "INVALID_IDENTITY"),
        (invocation_identity("\ud800"), "INVALID_IDENTITY"),
        (invocation_identity("a\x00b"), "INVALID_IDENTITY"),
        (invocation_identity(7), "INVALID_IDENTITY"),
        (
            WorkflowInvocationIdentity(run=OTHER_RUN, invocation_id="first"),
            "STALE_INVOCATION_IDENTITY",
        ),
    ],
)
def test_an_admission_brings_a_whole_identity_of_this_run(identity, expected):
    session = Session().ready()
    event = replace(session.admission(), invocation=identity)
    assert session.refused(event) == expected


def test_an_id_of_128_characters_is_admitted():
    Session().ready().admitted("\U0001f680" * 128)


@pytest.mark.parametrize(
    "changes",
    [
        {"admission": None},
        {"output": 0},
        {
            "admission": events.Admission(
                number=1, outputs=1, deadlines=replace(INVOCATION_DEADLINES, drain=True)
            )
        },
        {"kind": "ADMISSION_REQUESTED"},
        {"kind": CallbackKind.ADMITTED},
    ],
)
def test_an_admission_with_wrong_fields_is_no_event(changes):
    session = Session().ready()
    assert session.refused(replace(session.admission(), **changes)) == "INVALID_EVENT"


def test_content_of_an_admission_belongs_to_an_admission_alone():
    session = Session().ready()
    event = replace(session.admission(), kind=CommandKind.DRAIN_REQUESTED)
    assert session.refused(event) == "INVALID_EVENT"


@pytest.mark.parametrize("kind", list(CallbackKind))
def test_only_two_callbacks_may_say_that_nothing_was_started(kind):
    session = Session().ready()
    event = events.Callback(
        kind=kind, session=IDENTITY, observed_at=0, not_started=True
    )
    may = kind in (CallbackKind.SUBMISSION_TIMED_OUT, CallbackKind.CHANNEL_ERROR)
    assert (session.refused(event) == "INVALID_EVENT") == (not may)


def test_while_none_is_in_progress_a_command_may_name_the_last_invocation():
    session = Session().ready().succeeded()
    session.reduce(
        replace(
            events.command(session.state, CommandKind.OWNER_LOST, 0),
            invocation=session.state.invocation.identity,
        )
    )
    stale = replace(
        events.command(session.state, CommandKind.OWNER_LOST, 0),
        invocation=invocation_identity("other"),
    )
    assert session.refused(stale) == "STALE_INVOCATION_IDENTITY"


def test_a_drain_answers_for_the_scope_of_the_pending_action():
    session = Session().ready().running().asked("DRAIN_REQUESTED")
    event = events.answer(session.state.pending, CallbackKind.DRAINED, 0)
    assert session.refused(replace(event, invocation=None)) == (
        "MISSING_INVOCATION_IDENTITY"
    )
    session = Session().ready().asked("DRAIN_REQUESTED")
    event = events.answer(session.state.pending, CallbackKind.DRAINED, 0)
    named = replace(event, invocation=invocation_identity("first"))
    assert session.refused(named) == "INVALID_IDENTITY"


def test_every_rejection_has_fixed_words_of_at_most_256_characters():
    assert set(REJECTIONS) == set(RejectionCode)
    assert all(0 < len(r.message) <= 256 for r in REJECTIONS.values())
