import pytest

from django_ray.errors import StorageUnavailable
from django_ray.management.terminal.session import Session, look
from django_ray.management.terminal.view import Pane, View
from django_ray.protocol.vocabulary import ExecutionState
from django_ray.readers.closer import Causes, Nodes
from tests.app import pictures
from tests.app.pictures import make_picture, make_reading

GOING = make_picture()
DONE = make_picture(
    make_reading(
        pictures.ended(pictures.make_summary()), state=ExecutionState.SUCCEEDED
    )
)


class Watched:
    """A session with a clock of its own: each wait takes its time, or a key's moment."""

    def __init__(self, found, keys=(), view=None):
        self.found, self.keys = list(found), list(keys)
        self.looks, self.shown, self.time = [], [], 0.0
        self.session = Session(
            read=self.read,
            show=lambda picture, view: self.shown.append((picture, view)),
            wait=self.wait,
            now=lambda: self.time,
            interval=1.0,
            view=view or View(),
        )

    def read(self, asked):
        self.looks.append(asked)
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found

    def wait(self, seconds):
        if not self.keys:
            self.time += seconds
            return []
        pressed = self.keys.pop(0)
        self.time += 0.1 if pressed else seconds
        return [pressed] if pressed else []

    def follow(self):
        return self.session.follow()


def test_without_a_key_it_is_read_each_second_until_the_end():
    watched = Watched([GOING, GOING, DONE])
    assert watched.follow() is DONE
    assert watched.time == 2.0
    assert [picture for picture, _ in watched.shown] == [GOING, GOING, DONE]


def test_a_key_is_read_where_it_asks_for_something_else_and_shown_at_once():
    watched = Watched([GOING], ["f", "down", "n", "/", "m", "enter", "s", "q"])
    assert watched.follow() is GOING
    assert watched.looks == [None, Causes(), Nodes(""), Nodes("m"), None]
    assert watched.time < 1
    assert [view.pane for _, view in watched.shown][-1] is Pane.stages


def test_what_is_paused_is_not_read_however_long():
    watched = Watched([GOING, DONE], ["p", *[None] * 50, "p"])
    assert watched.follow() is DONE
    assert len(watched.looks) == 2
    assert watched.time > 50


def test_an_end_is_waited_at_where_somebody_looks_closer():
    watched = Watched([DONE], [None, "down", None, "q"], View(pane=Pane.failures))
    assert watched.follow() is DONE
    assert watched.looks == [Causes()]
    assert not watched.keys
    back = Watched([DONE], ["escape", "never"], View(pane=Pane.failures))
    assert back.follow() is DONE
    assert back.keys == ["never"]


def test_while_the_database_is_silent_the_last_picture_stays_marked():
    watched = Watched([GOING, StorageUnavailable(), DONE])
    assert watched.follow() is DONE
    assert [picture.answered for picture, _ in watched.shown] == [True, False, True]
    with pytest.raises(StorageUnavailable):
        Watched([StorageUnavailable()]).follow()


def test_what_is_not_there_ends_it():
    assert Watched([None]).follow() is None
    assert Watched([GOING, None]).follow() is None


def test_each_pane_reads_what_it_shows():
    assert {pane: look(View(pane=pane, filter="x")) for pane in Pane} == {
        Pane.run: None,
        Pane.failures: Causes(),
        Pane.stages: None,
        Pane.nodes: Nodes("x"),
    }
