import pytest
from rich.cells import cell_len

from django_ray.management.terminal.pen import Pen


@pytest.mark.parametrize("width", [4, 5, 6])
def test_a_line_never_exceeds_its_width(width):
    line = Pen(width, True).line(("ab", "red"), ("cde", ""), ("fgh", ""))
    assert cell_len(line.plain) == width
    assert line.plain.endswith("…")


def test_a_line_that_fits_is_whole():
    assert Pen(5, True).line(("ab", "red"), ("cde", "")).plain == "abcde"


def test_no_text_reaches_the_terminal_unfiltered():
    line = Pen(40, True).line(("\x1b[31mboo\nhoo\u202e", ""))
    assert line.plain == "\ufffd[31mboo hoo\ufffd"


def test_markup_of_a_user_is_printed_and_not_obeyed():
    assert Pen(40, True).line(("[red]x[/red]", "")).plain == "[red]x[/red]"


def test_without_unicode_everything_is_ascii():
    pen = Pen(12, False)
    assert pen.line(("▸ größe 測 …………", "")).plain.isascii()
    assert pen.rule().plain == "-" * 12


def test_a_cut_between_two_parts_is_marked_too():
    line = Pen(4, True).line(("abcd", ""), ("e", ""))
    assert line.plain == "abc…"


def test_blanks_at_the_end_are_not_a_cut():
    assert Pen(2, True).line(("ab", ""), ("   ", "")).plain == "ab"
