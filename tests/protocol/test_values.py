import enum
import fractions
import math

import msgspec
import pytest

from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.protocol import values
from django_ray.protocol.limits import V1


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"


@pytest.mark.parametrize(
    ("current", "total"),
    [
        (None, None),
        (0, 0),
        (0, None),
        (None, 5),
        (3, 10),
        (10, 10),
        (0.5, 1),
        (2.5, 3.5),
        (2**63 - 1, 2**63 - 1),
        (-0.0, 0),
    ],
)
def test_progress_in_order_is_accepted(current, total):
    values.require_progress(current, total)
    assert values.progress(current, total) == (current, total)


@pytest.mark.parametrize(
    ("current", "total", "reason"),
    [
        (math.nan, 1, "progress_not_finite"),
        (1, math.nan, "progress_not_finite"),
        (math.inf, None, "progress_not_finite"),
        (1, math.inf, "progress_not_finite"),
        (-math.inf, 1, "progress_not_finite"),
        (-1, 1, "progress_negative"),
        (None, -0.1, "progress_negative"),
        (11, 10, "progress_past_total"),
        (1e-9, 0, "progress_past_total"),
        ("three", 10, "progress_not_a_number"),
        (3, "ten", "progress_not_a_number"),
        (True, 1, "progress_not_a_number"),
        (1, False, "progress_not_a_number"),
        ([], 1, "progress_not_a_number"),
        (1j, 1, "progress_not_a_number"),
        (2**63, None, "progress_too_large"),
        (10**400, None, "progress_too_large"),
        (0, 10**400, "progress_too_large"),
    ],
)
def test_progress_that_is_none_is_refused_by_name(current, total, reason):
    for check in (values.require_progress, values.progress):
        with pytest.raises(ProtocolError) as caught:
            check(current, total)
        assert caught.value.reason == reason


def test_reported_numbers_of_other_kinds_become_plain():
    current, total = values.progress(Level.HIGH, fractions.Fraction(7, 2))
    assert (current, total) == (3, 3.5)
    assert (type(current), type(total)) == (int, float)


def test_a_subclass_of_a_number_does_not_pass_the_check_of_the_wire():
    with pytest.raises(ProtocolError):
        values.require_progress(Level.HIGH, 10)
    with pytest.raises(ProtocolError):
        values.require_metrics({"a": Level.HIGH})


def test_metrics_of_every_plain_kind_are_accepted():
    values.require_metrics({})
    values.require_metrics({"a": 1, "b": 0.5, "c": "text\nof two lines", "d": True})


def test_reported_metrics_become_plain():
    plain = values.metrics({"a": Level.HIGH, "b": Mode.FAST, Mode.FAST: True})
    assert plain == {"a": 3, "b": "fast", "fast": True}
    assert {type(value) for value in plain.values()} == {int, str, bool}
    assert all(type(key) is str for key in plain)
    msgspec.msgpack.encode(plain)


@pytest.mark.parametrize("count", [31, 32])
def test_up_to_32_keys_are_accepted(count):
    values.require_metrics({f"k{place}": place for place in range(count)})


@pytest.mark.parametrize("check", [values.require_metrics, values.metrics])
@pytest.mark.parametrize(
    ("metrics", "boundary", "actual"),
    [
        ({f"k{place}": place for place in range(33)}, "metrics_keys", 33),
        ({"k" * 65: 1}, "metric_key", 65),
        ({"é" * 33: 1}, "metric_key", 66),
        ({"k": "v" * 257}, "metric_string", 257),
        ({"k": "é" * 129}, "metric_string", 258),
        ({f"k{place:02}": "v" * 256 for place in range(16)}, "metrics", 4_241),
    ],
)
def test_metrics_above_a_bound_are_refused(check, metrics, boundary, actual):
    with pytest.raises(LimitExceeded) as caught:
        check(metrics)
    assert (caught.value.boundary, caught.value.actual) == (boundary, actual)


def test_metrics_at_every_bound_are_accepted():
    values.require_metrics({"k" * 64: "v" * 256, "é" * 32: "é" * 128})
    full = {f"k{place:02}": "v" * 256 for place in range(15)}
    room = V1.metrics_encoded - len(msgspec.json.encode(full)) - len(',"last":""')
    values.require_metrics({**full, "last": "v" * room})
    values.require_metrics({**full, "last": "v" * (room - 1)})
    with pytest.raises(LimitExceeded) as caught:
        values.require_metrics({**full, "last": "v" * (room + 1)})
    assert caught.value.actual == V1.metrics_encoded + 1


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 0, -1.5, 1e308])
def test_numbers_at_the_ends_of_their_range_are_accepted(value):
    values.require_metrics({"k": value})


@pytest.mark.parametrize("check", [values.require_metrics, values.metrics])
@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ([], "metrics_not_a_mapping"),
        (None, "metrics_not_a_mapping"),
        ({1: 1}, "metrics_key_not_text"),
        ({"": 1}, "metrics_key_not_text"),
        ({"a\nb": 1}, "unsafe_text"),
        ({"k": "a\x00b"}, "unsafe_text"),
        ({"k": "\x1b[31m"}, "unsafe_text"),
        ({"k": "\ud800"}, "unsafe_text"),
        ({"k": math.nan}, "metrics_not_finite"),
        ({"k": math.inf}, "metrics_not_finite"),
        ({"k": 2**63}, "metrics_integer_too_large"),
        ({"k": -(2**63) - 1}, "metrics_integer_too_large"),
        ({"k": None}, "metrics_value_not_plain"),
        ({"k": [1]}, "metrics_value_not_plain"),
        ({"k": b"x"}, "metrics_value_not_plain"),
    ],
)
def test_metrics_of_another_kind_are_refused_by_name(check, metrics, reason):
    with pytest.raises(ProtocolError) as caught:
        check(metrics)
    assert caught.value.reason == reason


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "text",
        "s" * 256,
        [1] * 16,
        {f"k{place:02}": place for place in range(15)},
        nested(4),
        {"k" * 64: 1},
        [[1] * 14, [1] * 15],
    ],
)
def test_a_preview_within_its_bounds_is_accepted(value):
    values.require_preview(msgspec.json.encode(value, order="deterministic"))


@pytest.mark.parametrize(
    ("value", "boundary"),
    [
        ("s" * 257, "preview_string"),
        ([1] * 17, "preview_list_items"),
        ({f"k{place:02}": place for place in range(16)}, "preview_entries"),
        (nested(5), "preview_nesting"),
        ({"k" * 65: 1}, "preview_key"),
        ([[1] * 15, [1] * 15], "preview_items"),
        (["s" * 250, "s" * 255, "s"], "preview"),
    ],
)
def test_a_preview_above_a_bound_is_refused(value, boundary):
    with pytest.raises(LimitExceeded) as caught:
        values.require_preview(msgspec.json.encode(value, order="deterministic"))
    assert caught.value.boundary == boundary


def test_a_preview_of_512_bytes_is_the_longest():
    data = msgspec.json.encode(["s" * 250, "s" * 255])
    assert len(data) == V1.preview_encoded
    values.require_preview(data)
    longer = msgspec.json.encode(["s" * 251, "s" * 255])
    with pytest.raises(LimitExceeded) as caught:
        values.require_preview(longer)
    assert (caught.value.boundary, caught.value.actual) == ("preview", 513)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 400, b"NaN", b"\xff", b'"\xed\xa0"']
)
def test_bytes_that_are_no_json_are_refused(data):
    with pytest.raises(ProtocolError) as caught:
        values.require_preview(data)
    assert caught.value.reason == "malformed_json"


@pytest.mark.parametrize(
    "data", [b"[1, 2]", b'{"b":1,"a":2}', b'{"a":1,"a":1}', b"1.50", b' "a"']
)
def test_json_that_is_not_canonical_is_refused(data):
    with pytest.raises(ProtocolError) as caught:
        values.require_canonical(data)
    assert caught.value.reason == "json_not_canonical"


def test_a_preview_with_refused_characters_is_refused():
    with pytest.raises(ProtocolError) as caught:
        values.require_preview(b'"a\\u0000b"')
    assert caught.value.reason == "unsafe_text"
