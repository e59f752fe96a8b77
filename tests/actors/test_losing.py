"""A compiled session whose owner is lost, as its outer task tells it, without Ray."""

from contextlib import nullcontext

import pytest

from actors.dispositions import UNHEARD, Dispositions
from actors.session import CompiledSession
from django_ray.errors import InvocationFailed
from django_ray.lifecycle.vocabulary import RetryDisposition
from tests.actors.test_owner import Stand
from tests.fakes import START_MS

OUTER_MS = START_MS + 60_000


class Run:
    """What a session asks of its coordinator."""

    def __init__(self):
        self.dispositions = Dispositions(None)
        self.told = []

    def begin(self):
        return 1

    def redacted(self, node_id):
        return node_id

    def declare(self, call, number):
        pass

    def in_a_row(self):
        return nullcontext()

    def register(self, node_id, label, stage, sources):
        return len(sources)

    def mirror(self, first, states):
        pass

    def lost(self, first, states, invocation, failure, snapshot):
        self.told.append((states, invocation, failure.kind))


class Absent:
    """An owner that takes what it is sent, and is gone `after_ms` later."""

    def __init__(self, stand, after_ms):
        self.stand = stand
        self.after_ms = after_ms
        self.waits = []

    def prepare(self, timeout_s):
        self.waits.append(timeout_s)
        return self.stand.owner.prepare()

    def send(self, value, first, invocation_id):
        pass

    def receive(self, timeout_s):
        self.waits.append(timeout_s)
        self.stand.clock.advance(self.after_ms)

    def close(self, timeout_s):
        return None

    def kill(self):
        pass


def losing(after_ms, *, at_ms=0, outer_ms=OUTER_MS):
    """A session that has sent an input at `at_ms` and lost its owner, and its run."""
    stand, run = Stand(outer_ms=outer_ms), Run()
    owner = Absent(stand, after_ms)
    session = CompiledSession(run, owner, stand.owner._terms, stand.clock)
    assert session.prepare() is None
    stand.clock.advance(at_ms)
    with pytest.raises(InvocationFailed) as failed:
        session.invoke("in")
    return session, run, owner, failed.value


@pytest.mark.parametrize(
    ("after_ms", "outcome"), [(1, "OWNER_LOST"), (15_000, "OUTER_DEADLINE")]
)
def test_an_input_that_was_sent_in_time_may_have_started_whenever_its_loss_is_seen(
    after_ms, outcome
):
    session, run, _, failed = losing(after_ms, at_ms=50_000)

    assert (failed.outcome, failed.effect) == (outcome, "MAY_HAVE_STARTED")
    assert failed.retry == "OPERATOR_RECONCILIATION_REQUIRED"
    assert session.retry is RetryDisposition.OPERATOR_RECONCILIATION_REQUIRED
    assert run.told[0][0] == ("FAILED", "FAILED")


def test_of_an_input_that_no_state_admits_nothing_is_known():
    session, run, _, _ = losing(1, at_ms=60_001)

    assert session.retry is UNHEARD
    session.close()
    assert run.dispositions.current is UNHEARD


def test_an_owner_is_waited_for_until_it_must_have_ended_by_itself():
    _, _, owner, _ = losing(1, at_ms=50_000)
    first, then = owner.waits

    assert first == pytest.approx(60 + 10 + 10, abs=1)
    assert then == pytest.approx(10 + 10 + 10, abs=1)


def test_without_an_outer_deadline_an_owner_is_waited_for_as_long_as_it_takes():
    stand = Stand()
    _, _, owner, _ = losing(1, outer_ms=stand.owner._terms.outer_ms)

    assert owner.waits == [None, None]
