"""An owner's loss, reduced by its outer task from the last state it was told."""

import pytest

from actors.loss import assumed, begun, reduced
from actors.owner import OwnerTerms
from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle import events
from django_ray.lifecycle.budgets import Deadlines
from django_ray.lifecycle.vocabulary import CommandKind
from tests.actors.test_owner import Stand
from tests.fakes import IDENTITY, START_MS

TERMS = OwnerTerms(
    run=IDENTITY, graph_key="g", outputs=2, budgets=Deadlines(), outer_ms=MAXIMUM_63
)
SUBMIT = CommandKind.SUBMISSION_REQUESTED
CANCEL = CommandKind.CANCELLATION_REQUESTED


def lost(state, now):
    return reduced(state, events.command(state, CommandKind.OWNER_LOST, now))


@pytest.fixture
def served():
    """A session that has served one invocation, and is ready for the next."""
    stand = Stand(outputs=2)
    stand.owner.prepare()
    stand.invoke()
    return stand


def test_before_anything_was_sent_nothing_has_started(served):
    state = lost(served.state, served.clock.now_ms)
    assert (state.state, state.outcome) == ("QUARANTINED", "SUCCEEDED")
    fresh = lost(begun(TERMS, 1, None, "s"), START_MS)
    assert (fresh.state, fresh.outcome) == ("QUARANTINED", "OWNER_LOST")
    assert (fresh.effect, fresh.retry) == ("NOT_STARTED", "AUTOMATIC_ALLOWED")


def test_after_it_was_sent_submission_is_assumed(served):
    now = served.clock.now_ms
    state = lost(assumed(served.state, TERMS, "next", [(SUBMIT, now)]), now)
    assert (state.state, state.outcome) == ("QUARANTINED", "OWNER_LOST")
    assert state.effect == "MAY_HAVE_STARTED"
    assert state.retry == "OPERATOR_RECONCILIATION_REQUIRED"
    assert state.invocation.outputs == ("LOST_WITH_OWNER",) * 2
    assert state.invocation.number == 2
    assert state.invocation.identity.invocation_id == "next"


def test_a_cancellation_that_was_sent_too_stands_as_the_outcome(served):
    now = served.clock.now_ms
    sent = [(SUBMIT, now), (CANCEL, now)]
    state = lost(assumed(served.state, TERMS, "next", sent), now)
    assert state.outcome == "CANCELLED_AFTER_SUBMISSION"
    assert state.invocation.outputs == ("LOST_WITH_OWNER",) * 2


def test_a_session_that_was_torn_down_is_assumed_to_have_been_followed(served):
    served.owner.close()
    now = served.clock.now_ms
    state = lost(assumed(served.state, TERMS, "next", [(SUBMIT, now)]), now)
    assert state.identity.owner_epoch == 2
    assert (state.invocation.number, state.outcome) == (2, "OWNER_LOST")
