"""What an owner tells, asked for now and then."""

from actors.chronicle import Chronicle
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.protocol import frames
from django_ray.protocol.vocabulary import NodeState
from tests.actors.test_owner import Stand
from tests.fakes import START_MS

S = NodeState
ALL = (S.SUCCEEDED, S.SUCCEEDED)


def chronicle(first=5):
    nudges = []
    made = Chronicle(("hunter",), lambda: nudges.append(1))
    made.first = first
    made.counts(2)
    return made, nudges


def nodes(made):
    return [
        (told.ordinal, told.invocation, str(told.state))
        for told in made.records()
        if isinstance(told, frames.State)
    ]


def test_the_latest_invocation_alone_is_told():
    made, nudges = chronicle()
    for number in range(1, 1_001):
        made.began(number, START_MS)
        made.ended(ALL, START_MS + 1, None)
    assert nodes(made) == [(5, 1_000, "SUCCEEDED"), (6, 1_000, "SUCCEEDED")]
    assert nodes(made) == []
    assert len(nudges) == 1_000


class Mute(Exception):
    """An error that answers nothing it is asked."""

    def __bool__(self):
        raise RuntimeError("neither")

    def __str__(self):
        raise SystemExit(3)


def test_an_error_that_answers_nothing_is_told_by_its_class():
    made, _ = chronicle()
    kind = type("RayTaskError(Mute)", (Mute,), {"__module__": "ray.exceptions"})
    wrapped = kind()
    wrapped.cause = Mute()
    for error in (Mute(), wrapped):
        made.began(1, START_MS)
        made.ended((S.FAILED, S.SKIPPED), START_MS + 1, error)
        failed, _ = (t for t in made.records() if isinstance(t, frames.State))
        assert (failed.error.kind, failed.error.text) == ("Mute", "")


def test_an_invocation_that_lasts_is_told_as_running_and_then_as_ended():
    made, _ = chronicle()
    made.began(3, START_MS)
    assert nodes(made) == [(5, 3, "RUNNING"), (6, 3, "RUNNING")]
    made.ended(ALL, START_MS + 1, None)
    assert nodes(made) == [(5, 3, "SUCCEEDED"), (6, 3, "SUCCEEDED")]


def test_a_failed_method_is_told_before_the_next_invocation_and_without_its_secret():
    made, _ = chronicle()
    made.began(1, START_MS)
    made.ended((S.FAILED, S.SKIPPED), START_MS, ValueError("password=hunter2"))
    made.began(2, START_MS)
    made.ended(ALL, START_MS, None)
    told = list(made.records())
    assert [(each.invocation, str(each.state)) for each in told] == [
        (1, "FAILED"),
        (1, "SKIPPED"),
        (2, "SUCCEEDED"),
        (2, "SUCCEEDED"),
    ]
    assert told[0].error == frames.Failure("ValueError", "password=[redacted]")
    assert told[1].error is None


def test_nodes_are_told_once_they_are_registered_and_a_session_at_once():
    made, _ = chronicle(first=None)
    stand = Stand()
    stand.owner.prepare()
    made.moved(stand.state)
    made.began(1, START_MS)
    assert made.records() == [frames.Session(lifecycle_snapshot(stand.state))]
    assert made.records() == []
    made.first = 0
    assert len(made.records()) == 2
