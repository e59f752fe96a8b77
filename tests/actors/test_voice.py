"""What a leaf says of itself, report after report."""

import pytest
from django.utils.functional import SimpleLazyObject

from actors.voice import Voice
from django_ray.protocol import frames
from django_ray.protocol.redaction import Redactor


class Way:
    """Keeps what would go to the collector."""

    def __init__(self):
        self.redactor = Redactor(())
        self.producer = self
        self.sent = []

    def progress(self, record):
        self.sent.append(record)

    def event(self, record):
        self.sent.append(record)


@pytest.fixture
def way():
    return Way()


def heard(way, *reports):
    """Return what the last of these reports comes to."""
    voice = Voice(way, 0, 1, 1)
    for current, total, message, metrics in reports:
        voice.report(current, total, message, metrics)
    said = [record for record in way.sent if isinstance(record, frames.Progress)]
    assert voice.said is said[-1]
    return said[-1].current, said[-1].total, said[-1].message, said[-1].metrics


def test_what_a_report_leaves_out_is_said_again(way):
    first = (1, 10, "begun", {"rows": 3})
    assert heard(way, first, (None, None, "on", None)) == (1, 10, "on", {"rows": 3})
    assert heard(way, first, (2, None, None, {"b": 1})) == (2, 10, "begun", {"b": 1})


@pytest.mark.parametrize(
    ("second", "pair"),
    [((11, None), (11, None)), ((None, 4), (None, 4)), ((None, 5), (5, 5))],
)
def test_what_contradicts_a_later_number_is_not_said_again(way, second, pair):
    assert heard(way, (5, 10, None, None), (*second, None, None))[:2] == pair


def test_a_refused_part_leaves_what_was_said(way):
    last = heard(way, (1, 2, "begun", {"a": 1}), (2, 2, 3, {"a": object()}))

    assert last == (2, 2, "begun", {"a": 1})
    reasons = [r.text for r in way.sent if isinstance(r, frames.Event)]
    assert len(reasons) == 2


class Loud(str):
    """Text whose own ways of being read raise."""

    def __contains__(self, part):
        raise RuntimeError("not to be searched")

    def __getitem__(self, place):
        raise RuntimeError("not to be cut")

    def __str__(self):
        raise RuntimeError("not to be shown")


def test_text_of_a_users_class_is_read_as_plain_text(way):
    assert heard(way, (1, 2, Loud("two"), None))[2] == "two"


class Lazy:
    """Passes for text, and raises when it is asked anything."""

    @property
    def __class__(self):
        raise RuntimeError("the database is away")


def test_a_message_that_passes_for_text_is_refused(way):
    assert heard(
        way, (1, 2, Lazy(), None), (1, 2, SimpleLazyObject(lambda: "a"), None)
    ) == (1, 2, None, None)

    assert [r.text for r in way.sent if isinstance(r, frames.Event)] == [
        "message_not_text"
    ]


def test_metrics_over_their_bound_are_told_once_whatever_their_size(way):
    voice = Voice(way, 0, 1, 1)
    for size in (5_000, 6_000, 7_000):
        voice.report(1, 2, None, {f"k{n}": "x" * 100 for n in range(size // 100)})

    (told,) = [r.text for r in way.sent if isinstance(r, frames.Event)]
    assert "the limit is" in told


def test_a_refused_number_says_nothing(way):
    assert heard(way, (1, 2, "begun", None), (3, 2, "on", None)) == (
        1,
        2,
        "begun",
        None,
    )
