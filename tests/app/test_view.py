import itertools

import pytest

from django_ray.management.terminal.view import (
    FILTER_CHARACTERS,
    HINTS,
    PAGE,
    Pane,
    View,
    press,
)


def pressed(*keys, view=None, last=100):
    view = view or View()
    for key in keys:
        view = press(view, key, last)
    return view


@pytest.mark.parametrize(
    ("key", "pane"), [("f", Pane.failures), ("s", Pane.stages), ("n", Pane.nodes)]
)
def test_a_key_shows_its_pane_and_again_the_run(key, pane):
    assert pressed(key).pane is pane
    assert pressed(key, key) == View()
    assert pressed(key, "escape") == View()


def test_scrolling_stays_within_what_there_is():
    assert pressed("n", "up").at == 0
    assert pressed("n", "down", "j", "page down").at == 2 + PAGE
    assert pressed("n", *["page down"] * 20, last=7).at == 7
    assert pressed("n", "down", last=-1).at == 0
    assert pressed("n", "page down", "k", "page up").at == 0


def test_a_cause_is_opened_and_closed_where_it_was():
    opened = pressed("f", "down", "down", "right")
    assert (opened.opened, opened.at) == (2, 0)
    assert pressed("enter", view=opened) == opened
    for key in ("left", "escape"):
        closed = pressed("down", key, view=opened)
        assert (closed.pane, closed.opened, closed.at) == (Pane.failures, None, 2)
    assert pressed("s", "right").opened is None


def test_a_filter_is_typed_kept_and_cleared():
    typing = pressed("/", "q", "f", "/", "x", "backspace")
    assert (typing.pane, typing.filter, typing.is_typing) == (Pane.nodes, "qf/", True)
    kept = pressed("enter", view=typing)
    assert (kept.filter, kept.is_typing) == ("qf/", False)
    assert pressed("escape", view=typing).filter == ""
    assert pressed("escape", view=kept) == View()
    assert pressed("s", "/").pane is Pane.stages
    assert pressed("f", "/").pane is Pane.nodes
    assert len(pressed("/", *"y" * 200).filter) == FILTER_CHARACTERS
    assert pressed("/", "up", "\x07").filter == ""


def test_a_pause_ends_where_something_else_is_looked_at():
    assert pressed("p").is_paused
    assert pressed("p", "p") == View()
    assert pressed("n", "p", "down").is_paused
    assert not pressed("p", "f").is_paused


def test_every_hint_is_a_key_that_does_something():
    for hint in HINTS:
        for key in [hint.key] if len(hint.key) == 1 else ["up", "down"]:
            assert pressed(key, view=View(at=1)) != View(at=1), hint


def test_no_sequence_of_keys_is_an_error():
    known = ["f", "s", "n", "/", "p", "up", "right", "left", "enter", "escape", "é"]
    for keys in itertools.product(known, repeat=4):
        view = pressed(*keys, last=3)
        assert 0 <= view.at <= 3
