"""The run as a whole: what is due again after a failure, and what no policy but full keeps."""

import pytest

from django_ray.progress.overview import Overview
from django_ray.protocol.frames import Failure, State
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EventItem, decode_events
from django_ray.protocol.vocabulary import NodeState

AT = 1_700_000_000_000
FAILED = State(3, 0, 1, NodeState.FAILED, AT, AT - 5, None, 0, Failure("E", "no"))


@pytest.fixture
def overview():
    overview = Overview(V1, full=True)
    overview.discovered(2)
    overview.place(overview.index("leaf"), 0, retained=True)
    return overview


def test_what_did_not_change_is_not_said_again(overview):
    stages, events = overview.take()
    assert stages is not None
    assert events is None
    assert overview.take() == (None, None)


@pytest.mark.parametrize("lost", [(True, False), (False, True), (True, True)])
def test_what_was_lost_is_said_again_as_it_is_then(overview, lost):
    overview.tell(EventItem(AT, "note", None, "first"))
    overview.take()
    overview.restore(stages=lost[0], events=lost[1])
    said = overview.take()
    assert tuple(each is not None for each in said) == lost


def test_a_failure_is_an_event_of_its_node(overview):
    overview.failed(FAILED, "1.leaf")
    _, events = overview.take()
    assert decode_events(events) == (EventItem(AT, "failed", 3, "E: no"),)


def test_without_full_only_counts_are_kept():
    overview = Overview(V1, full=False)
    overview.discovered(2)
    assert overview.index("leaf") == 0
    overview.moved(0, NodeState.PENDING, NodeState.FAILED, AT)
    overview.started(0, AT - 5)
    overview.ended(0, FAILED, AT - 5, AT)
    overview.failed(FAILED, "1.leaf")
    overview.seen("10.0.0.7")
    overview.seen(None)
    assert overview.take() == (None, None)
    assert (overview.edges, overview.hosts) == (2, 1)
    assert overview.ended_by_minute(AT)[-1] == 1
