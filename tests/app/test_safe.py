import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from django_ray.management.terminal import safe


@pytest.mark.parametrize(
    "value",
    [
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x9b2J",
        "a\x00b",
        "a\rb",
        "a\nb",
        "back\x08space",
        "\u202egnp.exe",
        "zero\u200bwidth",
        "\ud800",
        "\u2028line",
    ],
    ids=ascii,
)
def test_nothing_a_terminal_obeys_passes(value):
    found = safe.clean(value)
    assert "\x1b" not in found
    assert all(
        unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for character in found
    )


def test_a_refused_character_leaves_a_mark():
    assert safe.clean("a\x1bb") == "a\ufffdb"


def test_line_breaks_and_tabs_become_spaces():
    assert safe.clean("one\ntwo\tthree") == "one two three"


def test_ordinary_text_of_any_language_passes():
    for text in ("Größe 3 µm", "測定", "مقياس", "naïve é"):
        assert safe.clean(text) == text


@pytest.mark.parametrize(("marks", "kept"), [(3, 3), (4, 4), (5, 4), (900, 4)])
def test_combining_marks_do_not_pile_up(marks, kept):
    found = safe.clean("a" + "\u0301" * marks + "b")
    assert found.count("\u0301") == kept


@given(st.text())
def test_the_filter_changes_nothing_the_second_time(value):
    once = safe.clean(value)
    assert safe.clean(once) == once
    once.encode()


@given(st.text(), st.integers(0, 30))
def test_a_cut_never_takes_more_columns_than_it_has(value, columns):
    text = safe.clean(value)
    assert cell_len(safe.fit(text, columns)) <= columns
    assert cell_len(safe.middle(text, columns)) <= columns


@given(st.text(), st.integers(1, 30), st.booleans())
def test_a_column_is_exactly_as_wide_as_it_says(value, columns, right):
    assert cell_len(safe.column(value, columns, right=right)) == columns


@pytest.mark.parametrize(
    ("columns", "cut"), [(9, "sample_1…"), (10, "sample_100"), (11, "sample_100")]
)
def test_a_cut_is_marked(columns, cut):
    assert safe.fit("sample_100", columns) == cut


def test_a_cut_in_the_middle_keeps_both_ends():
    assert safe.middle("PICARD_MARKDUPLICATES_116", 13) == "PICARD…ES_116"


def test_wide_characters_count_two_columns():
    assert safe.fit("測定測定", 5) == "測定…"


def test_without_unicode_the_shapes_are_letters():
    assert safe.narrow("█✗■⊘▸◌·") == "#XC/>:."
    assert safe.narrow("測 \u2013 …") == "? - ~"
