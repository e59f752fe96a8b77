"""A compiled session in the run's picture: the whole snapshot, and the compact one."""

import json

import pytest

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.progress import session
from django_ray.progress.draft import Draft
from django_ray.progress.model import Model
from django_ray.progress.standing import Standing
from django_ray.protocol import frames, summary
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import ExecutionStrategy
from tests.actors.test_owner import Stand
from tests.progress import making


@pytest.fixture(scope="module")
def stand():
    made = Stand(outputs=64)
    made.owner.prepare()
    made.invoke()
    return made


def test_the_compact_session_holds_the_facts_within_its_bound(stand):
    told = session.compact(lifecycle_snapshot(stand.state))
    assert len(told) <= V1.session_compact
    facts = json.loads(told)
    assert facts["outcome"] == "SUCCEEDED"
    assert facts["outputs"] == {"CONSUMED": 64}
    assert (facts["invocation"], facts["owner_epoch"]) == (1, 1)
    assert session.was_prepared(told)


def test_what_is_no_snapshot_has_no_compact_session():
    for data in (b"{}", b"[]", b"null", b"nothing", b'{"session":1}'):
        assert session.compact(data) is None


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("session", "session_id", "a\x00b"),
        ("session", "owner_epoch", MAXIMUM_63 + 1),
        ("session", "owner_epoch", -1),
        ("invocation", "invocation_id", "a\x1b[2J"),
        ("invocation", "outputs", ["a\nb"]),
        (None, "retry", "\x9b"),
    ],
)
def test_a_snapshot_of_what_no_summary_may_hold_is_none(stand, place, key, value):
    told = json.loads(lifecycle_snapshot(stand.state))
    (told if place is None else told[place])[key] = value
    assert session.compact(json.dumps(told).encode()) is None


@pytest.mark.parametrize("told", [b'"s"', b"[]", b'{"state":"READY"}', b"{"])
def test_a_stored_session_that_tells_no_graph_was_not_prepared(told):
    assert not session.was_prepared(told)


def test_a_session_that_was_not_prepared_says_so():
    told = session.compact(lifecycle_snapshot(Stand().state))
    assert not session.was_prepared(told)


def test_a_session_changes_the_summary_and_the_row_once(stand):
    model = Model(making.settings())
    told = frames.Session(lifecycle_snapshot(stand.state))
    assert model.apply(told, 1) is None
    delta = model.take(2)
    assert delta.snapshot == told.snapshot
    assert json.loads(delta.session)["session_state"] == "READY"
    model.restore(delta)
    delta = model.take(3)
    assert delta.snapshot == told.snapshot
    model.settle(delta)
    model.apply(told, 4)
    assert model.tallies["duplicate"] == 1
    assert model.take(5) is None


def test_a_successor_still_knows_the_stored_session(stand):
    model, draft = Model(making.settings()), Draft(making.settings())
    model.apply(frames.Session(lifecycle_snapshot(stand.state)), 1)
    delta = model.take(2)
    published = draft.publication(delta, None, 3)
    assert published.session == delta.snapshot
    said = summary.decode(published.summary)
    assert said.strategy is ExecutionStrategy.compiled_graph
    successor = Model(making.settings())
    successor.resume(Standing(summary=said, bequest=delta.bequest))
    successor.apply(frames.NEWS, 4)
    successor.apply(frames.RESENT, 5)
    told = successor.take(100_000)
    assert (told.session, told.snapshot) == (delta.session, None)
