"""The durable picture: what is in it, what never is, and its bytes."""

import json
from dataclasses import replace

import pytest

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.reducer import initial_session
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.terms import (
    INVOCATION_STAGES,
    SESSION_STAGES,
    InvocationDeadlines,
    LifecycleCapacity,
    LifecycleDeadlines,
    SessionIdentity,
)
from django_ray.lifecycle.vocabulary import CleanupCode
from django_ray.protocol import canonical
from tests.lifecycle.making import RUN, Session
from tests.recording import replay

WIDE = "\U0001f680" * 128


def test_a_snapshot_names_exactly_what_the_record_lists():
    session = Session().ready().running(outputs=2).consuming(1)
    document = json.loads(replay("lifecycle.json", lifecycle_snapshot(session.state)))
    assert set(document) == {
        "action_sequence",
        "action_token",
        "capacity",
        "cleanup",
        "deadlines",
        "effect",
        "fallback_open",
        "graph",
        "invocation",
        "invocation_state",
        "outcome",
        "protocol_version",
        "retry",
        "run",
        "session",
        "session_state",
    }
    assert (document["action_token"], document["action_sequence"]) == (5, 6)
    assert document["invocation"]["outputs"] == ["AVAILABLE", "CONSUMING"]


def test_without_an_invocation_its_state_is_none():
    document = json.loads(lifecycle_snapshot(Session().state))
    assert (document["invocation_state"], document["invocation"]) == ("NONE", None)


def test_the_largest_snapshot_there_can_be_is_within_its_bound():
    identity = SessionIdentity(
        run=replace(
            RUN,
            task_execution_pk=MAXIMUM_63,
            attempt_number=MAXIMUM_63,
            execution_generation=MAXIMUM_63,
        ),
        graph_key=WIDE,
        session_id=WIDE,
        owner_epoch=MAXIMUM_63,
    )
    session = Session()
    session.state = initial_session(
        identity=identity,
        capacity=LifecycleCapacity(),
        deadlines=LifecycleDeadlines(**dict.fromkeys(SESSION_STAGES, MAXIMUM_63)),
        before=None,
    )
    session.ready()
    own = InvocationDeadlines(**dict.fromkeys(INVOCATION_STAGES, MAXIMUM_63))
    event = session.admission(WIDE, 64, own)
    run = replace(event.invocation, run=identity.run)
    session.reduce(replace(event, invocation=run)).told("ADMITTED")
    session.asked("SUBMISSION_REQUESTED").told("ACTOR_DIED")
    session.told("TORN_DOWN")
    code = CleanupCode.CAPACITY_RELEASE_TIMEOUT
    session.altered(
        cleanup=(code,) * 7 + (CleanupCode.DIAGNOSTICS_TRUNCATED,),
        issued=MAXIMUM_63 - 1,
        completed=None,
    )
    snapshot = lifecycle_snapshot(session.state)
    assert set(json.loads(snapshot)["invocation"]["outputs"]) == {
        "UNAVAILABLE_AFTER_TEARDOWN"
    }
    assert len(snapshot) <= 16_384


def test_the_bytes_are_the_projects_canonical_json():
    session = Session().ready().running('"\\/é\U0001f680')
    snapshot = lifecycle_snapshot(session.state)
    assert canonical.encode(json.loads(snapshot)) == snapshot


def test_an_exhausted_sequence_has_no_next_number():
    session = Session().altered(issued=MAXIMUM_63)
    assert json.loads(lifecycle_snapshot(session.state))["action_sequence"] is None


def test_there_is_no_snapshot_of_what_is_no_state():
    with pytest.raises(ValueError, match="not a well-formed state"):
        lifecycle_snapshot(replace(Session().state, invocation="payload"))
