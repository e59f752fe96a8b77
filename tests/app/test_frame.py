import itertools

import pytest
from rich.cells import cell_len

from django_ray.management.terminal import frame, shapes
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.view import Pane, View
from django_ray.protocol.vocabulary import ExecutionState
from tests.app import pictures
from tests.app.pictures import make_picture, make_reading

SIZES = list(
    itertools.product((60, 76, 80, 92, 100, 240), (14, 15, 22, 24, 26, 30, 60))
)


def hostile():
    text = "\x1b[31m\n\u202e測\u0301\u0301\u0301\u0301\u0301\u0301" * 40
    return make_picture(
        make_reading(task_path=text, queue_name=text),
        failures=(
            pictures.replace(pictures.FAILURES[0], node_id=text, kind=text, text=text),
        )
        * 16,
        running=(
            pictures.replace(
                pictures.RUNNING[0], node_id=text, host=text, message=text
            ),
        )
        * 256,
        stages=tuple(
            pictures.stage(index, text, index, 10**12, 10**12, running=10**9)
            for index in range(64)
        ),
        error=text,
    )


PICTURES = {
    "running": make_picture(),
    "waiting": make_picture(make_reading(None), stages=(), failures=(), running=()),
    "silent": make_picture(answered=False),
    "hostile": hostile(),
    **{
        state.value: make_picture(make_reading(state=state)) for state in ExecutionState
    },
}


def drawn(picture, width, height, *, unicode=True, view=None):
    pen = Pen(width, unicode)
    lines = frame.compose(picture, "21 a minute, last 60 s", pen, height, view)
    return [line.plain for line in lines]


@pytest.mark.parametrize("name", PICTURES)
def test_a_frame_fits_every_terminal_and_obeys_nothing(name):
    for width, height in SIZES:
        lines = drawn(PICTURES[name], width, height)
        assert len(lines) <= height
        assert all(cell_len(line) <= width for line in lines)
        assert all(not ({"\x1b", "\n", "\u202e"} & set(line)) for line in lines)


@pytest.mark.parametrize("size", [(60, 14), (100, 29), (200, 60)])
def test_all_seven_states_are_there_by_shape_and_word(size):
    counts = pictures.EVERY_STATE
    picture = make_picture(make_reading(pictures.make_summary(counts)))
    lines = drawn(picture, *size)
    (bar,) = (line for line in lines if " % " in line)
    text = "\n".join(lines)
    for shape in shapes.SHAPES:
        assert shape.cell in bar
        assert f"{shape.mark} 1 {shape.state.lower()}" in text


def test_at_sixty_by_fifteen_the_stages_are_still_there():
    lines = drawn(make_picture(), 60, 14)
    assert any(line.startswith("✗ DUPRADAR") for line in lines)
    assert "Nothing failed." not in lines
    assert any("CalledProcessError" in line for line in lines)


@pytest.mark.parametrize(("height", "listed"), [(25, False), (26, True), (27, True)])
def test_the_longest_list_is_the_first_to_go(height, listed):
    lines = drawn(make_picture(), 100, height)
    assert ("RUNNING, LONGEST FIRST" in lines) == listed


@pytest.mark.parametrize(("height", "blanks"), [(21, False), (22, True), (23, True)])
def test_panels_are_parted_where_there_is_room(height, blanks):
    assert ("" in drawn(make_picture(), 100, height)) == blanks


def test_a_running_frame_ends_with_how_to_leave():
    assert drawn(make_picture(), 100, 30)[-1].startswith(frame.FOOT)
    ended = make_picture(make_reading(state=ExecutionState.SUCCEEDED))
    assert not drawn(ended, 100, 30)[-1].startswith(frame.FOOT)


def test_a_frame_without_unicode_is_ascii():
    assert all(line.isascii() for line in drawn(hostile(), 100, 30, unicode=False))


@pytest.mark.parametrize("pane", Pane)
@pytest.mark.parametrize("name", PICTURES)
def test_each_pane_fits_every_terminal_and_obeys_nothing(name, pane):
    for width, height in ((60, 14), (92, 22), (240, 60)):
        lines = drawn(PICTURES[name], width, height, view=View(pane=pane))
        assert len(lines) <= height
        assert all(cell_len(line) <= width for line in lines)
        assert all(not ({"\x1b", "\n", "\u202e"} & set(line)) for line in lines)


def test_the_foot_names_the_keys_where_somebody_can_press_them():
    hints = "f failures   s stages   n nodes   / filter   ↑↓ scroll   p pause   q quit"
    for pane in Pane:
        foot = drawn(make_picture(), 100, 30, view=View(pane=pane))[-1]
        assert foot.startswith(hints)
        assert foot.endswith("every 1 s")
    typing = View(pane=Pane.nodes, filter="mDiff", is_typing=True)
    assert drawn(make_picture(), 100, 30, view=typing)[-1].startswith("/mDiff▏")
    still = View(pane=Pane.stages, has_keys=False)
    assert "MULTIQC" in drawn(make_picture(), 100, 30, view=still)[-1]


def test_a_pause_says_whose_and_of_when_the_figures_are():
    lines = drawn(make_picture(), 100, 30, view=View(is_paused=True))
    assert lines[1] == (
        "Paused    by you: revision 412, figures of 14:10:47 UTC; p goes on"
    )
    assert "every" not in lines[-1]
