import time

import pytest

from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.protocol import text

REFUSED = [
    "\x00",
    "\x07",
    "\x08",
    "\r",
    "\x1b",
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x7f",
    "\x80",
    "\x9b",
    "\x9f",
    "\ud800",
    "\udfff",
]


@pytest.mark.parametrize("refused", REFUSED)
def test_refused_characters_are_found_wherever_they_stand(refused):
    for value in (refused, f"a{refused}", f"{refused}b", f"a{refused}b"):
        assert not text.is_clean(value)
        assert not text.is_line(value)


@pytest.mark.parametrize(
    "value", ["", "a", "é", "日本語", "🙂", "\xa0", "a b", "עברית"]
)
def test_ordinary_text_is_clean_and_one_line(value):
    assert text.is_clean(value)
    assert text.is_line(value)


@pytest.mark.parametrize("value", ["a\nb", "a\tb", "\n"])
def test_line_feed_and_tab_are_text_but_no_line(value):
    assert text.is_clean(value)
    assert not text.is_line(value)


@pytest.mark.parametrize("check", [text.require, text.require_line])
@pytest.mark.parametrize(
    ("character", "width"), [("a", 1), ("é", 2), ("日", 3), ("🙂", 4)]
)
def test_bytes_are_counted_one_below_at_and_one_above(check, character, width):
    limit = 4 * width
    for count in (3, 4):
        assert check(character * count, "label", limit) == character * count
    with pytest.raises(LimitExceeded) as caught:
        check(character * 4 + "a", "label", limit)
    assert (caught.value.boundary, caught.value.limit) == ("label", limit)
    assert caught.value.actual == limit + 1 or width > 1


@pytest.mark.parametrize("refused", REFUSED)
def test_parsed_text_with_a_refused_character_is_refused(refused):
    for check in (text.require, text.require_line):
        with pytest.raises(ProtocolError) as caught:
            check(f"a{refused}", "message", 100)
        assert caught.value.reason == "unsafe_text"


def test_a_line_break_is_refused_in_a_line_only():
    assert text.require("a\nb", "message", 10) == "a\nb"
    with pytest.raises(ProtocolError):
        text.require_line("a\nb", "node_id", 10)


def test_a_refusal_names_no_value():
    with pytest.raises(LimitExceeded) as caught:
        text.require("hunter2" * 100, "message", 10)
    assert "hunter2" not in str(caught.value)


def test_text_within_its_limit_stays_as_it_is():
    for value in ("", "abc", "日本語", "a\nb\tc"):
        assert text.fit(value, 9) == value


def test_fit_cuts_one_byte_above_and_says_the_full_size():
    assert text.fit("a" * 100, 100) == "a" * 100
    cut = text.fit("a" * 101, 100)
    assert cut.endswith("… [101 bytes]")
    assert len(cut.encode()) == 100


def test_the_full_size_of_a_cut_is_in_bytes_of_the_original():
    assert text.fit("é" * 1_000, 100).endswith("… [2,000 bytes]")
    assert text.fit("\ud800" * 1_000, 100).endswith("… [3,000 bytes]")
    assert text.fit("a" * 10_485_760, 2_048).endswith("… [10,485,760 bytes]")


@pytest.mark.parametrize("refused", REFUSED)
def test_fit_replaces_what_is_refused(refused):
    fitted = text.fit(f"a{refused}b", 100)
    assert text.is_clean(fitted)
    assert fitted[0] == "a"
    assert fitted[-1] == "b"
    assert text.REPLACEMENT in fitted


@pytest.mark.parametrize("limit", range(40))
@pytest.mark.parametrize("character", ["a", "é", "日", "🙂", "\x00", "\ud800"])
def test_fitted_text_is_within_every_limit_and_clean(limit, character):
    for count in (limit - 1, limit, limit + 1, 100):
        fitted = text.fit(character * max(0, count), limit)
        assert len(fitted.encode()) <= limit
        assert text.is_clean(fitted)
        line = text.label(character * max(0, count), limit)
        assert len(line.encode()) <= limit
        assert text.is_line(line)


def test_fitting_fitted_text_changes_nothing():
    for value in ("a" * 500, "日" * 500, "\x00" * 500):
        once = text.fit(value, 100)
        assert text.fit(once, 100) == once


def test_replacements_that_outgrow_the_limit_are_cut():
    fitted = text.fit("\x00" * 50, 100)
    assert len(fitted.encode()) <= 100
    assert fitted.endswith("[50 bytes]")


def test_a_label_is_one_line_shortened_with_an_ellipsis():
    assert text.label("app.tasks.measure", 17) == "app.tasks.measure"
    assert text.label("app.tasks.measure", 16) == "app.tasks.mea…"
    assert text.label("a\nb\x1bc", 20) == "a\ufffdb\ufffdc"
    assert text.label("日本語", 8) == "日…"


def test_clean_keeps_clean_text_and_replaces_the_rest():
    assert text.clean("a\nb") == "a\nb"
    assert text.clean("a\rb") == "a\ufffdb"


def test_size_counts_what_the_encoding_would_take():
    assert [text.size(value) for value in ("", "abc", "é", "\ud800")] == [0, 3, 2, 3]


@pytest.mark.parametrize("character", ["a", "日", "\x00", "\ud800", "🙂"])
def test_ten_megabytes_cost_little_more_than_their_size(character):
    value = character * 10_000_000
    started = time.thread_time()
    for _ in range(3):
        value.encode("utf-8", "surrogatepass")
    whole = time.thread_time() - started

    started = time.thread_time()
    fitted = text.fit(value, 2_048)
    taken = time.thread_time() - started

    assert len(fitted.encode()) <= 2_048
    # Many times the cost of three plain encodings would be a pass of Python over it.
    assert taken <= 5 * whole + 0.01
