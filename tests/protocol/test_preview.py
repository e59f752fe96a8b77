"""What a projector made becomes a bounded plain value, or is refused by name."""

import collections
import enum
import fractions
import json
import math

import pytest

from django_ray.errors import ConfigurationError, LimitExceeded, ProtocolError
from django_ray.protocol import preview, values
from django_ray.protocol.limits import V1
from django_ray.protocol.redaction import MARK, Redactor

REDACTOR = Redactor(("internal-[0-9]+",))


def shown(projected):
    data = preview.encode(projected, REDACTOR)
    values.require_preview(data)
    return json.loads(data)


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"


Point = collections.namedtuple("Point", ["x", "y"])


@pytest.mark.parametrize(
    ("projected", "plain"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (0.5, 0.5),
        ("text\nof two lines", "text\nof two lines"),
        ([1, (2, 3)], [1, [2, 3]]),
        ({"b": 1, "a": {"c": None}}, {"a": {"c": None}, "b": 1}),
        (Level.HIGH, 3),
        (fractions.Fraction(7, 2), 3.5),
        ({Mode.FAST: Mode.FAST}, {"fast": "fast"}),
        (Point(1, 2), [1, 2]),
        (collections.OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        ("a\x1b[31mb\ud800", "a\ufffd[31mb\ufffd"),
    ],
    ids=repr,
)
def test_plain_data_and_its_subclasses_are_shown(projected, plain):
    assert shown(projected) == plain


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def entries(number, key="k{:02}"):
    return {key.format(place): place for place in range(number)}


# One below, at, and one above each bound of the contract.
BOUNDS = {
    "preview_nesting": (nested, V1.preview_nesting),
    "preview_items": (lambda n: [[1] * (n // 2), [1] * (n - 3 - n // 2)], 32),
    "preview_list_items": (lambda n: [1] * n, V1.preview_list_items),
    "preview_entries": (entries, V1.preview_entries),
    "preview_key": (lambda n: {"k" * n: 1}, V1.preview_key),
    "preview_string": (lambda n: "s" * n, V1.preview_string),
    "preview": (lambda n: ["s" * 250, "s" * (n - 250 - 7)], V1.preview_encoded),
}


@pytest.mark.parametrize("boundary", BOUNDS)
def test_a_preview_one_above_a_bound_is_refused_and_at_it_shown(boundary):
    make, limit = BOUNDS[boundary]
    assert shown(make(limit - 1)) == make(limit - 1)
    assert shown(make(limit)) == make(limit)

    with pytest.raises(LimitExceeded) as caught:
        preview.encode(make(limit + 1), REDACTOR)

    assert (caught.value.boundary, caught.value.actual) == (boundary, limit + 1)
    assert preview.reason_of(caught.value) == boundary


@pytest.mark.parametrize(
    ("projected", "boundary"),
    [({"é" * 33: 1}, "preview_key"), ("é" * 129, "preview_string")],
)
def test_keys_and_texts_are_bounded_in_bytes(projected, boundary):
    with pytest.raises(LimitExceeded) as caught:
        preview.encode(projected, REDACTOR)
    assert caught.value.boundary == boundary


def recursive_list():
    made = [1]
    made.append(made)
    return made


def recursive_dict():
    made = {}
    made["again"] = made
    return made


def ever_wider():
    made = []
    made.extend([made] * 16)
    return made


class Hostile:
    """An object whose every look raises."""

    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __iter__(self):
        raise RuntimeError("no items")

    def __repr__(self):
        raise RuntimeError("no text")


class Liar:
    """An object that says it is a list."""

    __class__ = list


@pytest.mark.parametrize(
    ("projected", "reason"),
    [
        (math.nan, "preview_not_finite"),
        ([math.inf], "preview_not_finite"),
        (2**63, "preview_integer_too_large"),
        (-(10**5000), "preview_integer_too_large"),
        (b"bytes", "preview_value_not_plain"),
        ({1, 2}, "preview_value_not_plain"),
        (object(), "preview_value_not_plain"),
        (1j, "preview_value_not_plain"),
        (iter([1]), "preview_value_not_plain"),
        ({1: 2}, "preview_key_not_text"),
        ({b"k": 2}, "preview_key_not_text"),
        ({"a\x00": 1}, "unsafe_text"),
        ({"\ud800": 1}, "unsafe_text"),
        ("x" * 10_000_000, "preview_string"),
        ({"k" * 10_000_000: 1}, "preview_key"),
        ([0] * 10_000_000, "preview_list_items"),
        (dict.fromkeys(map(str, range(100_000))), "preview_entries"),
        (recursive_list(), "preview_nesting"),
        (recursive_dict(), "preview_nesting"),
        (ever_wider(), "preview_nesting"),
        ([[[[0] * 16] * 16] * 16] * 16, "preview_items"),
        (fractions.Fraction(10**400), "preview_malformed"),
        (Hostile(), "preview_malformed"),
        (Liar(), "preview_malformed"),
    ],
    ids=range(24),
)
def test_what_is_no_preview_is_refused_by_name(projected, reason):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the classes are foreign)
        preview.encode(projected, REDACTOR)
    assert preview.reason_of(caught.value) == reason


class Endless(list):
    """A list that says it is short and never ends."""

    def __len__(self):
        return 1

    def __iter__(self):
        while True:
            yield 1


class EndlessDict(dict):
    def __len__(self):
        return 1

    def items(self):
        while True:
            yield "k", 1


class Talkative(str):
    __slots__ = ()

    def __str__(self):
        return "x" * 10_000_000

    __len__ = __format__ = __hash__ = None


def test_subclasses_are_read_by_the_methods_of_their_base():
    assert shown(Endless([1, 2])) == [1, 2]
    assert shown(EndlessDict(a=1)) == {"a": 1}
    assert shown([Talkative("short")]) == ["short"]


def test_secrets_are_taken_out_of_keys_and_values():
    token = "ghp_" + "a" * 36
    projected = {
        "api_key": "abc",
        "password": {"deep": ["hunter2"]},
        token: 1,
        "note": "password=hunter2 internal-42",
        "list": [f"Bearer {token}", {"internal-7": True}],
    }

    assert shown(projected) == {
        "api_key": MARK,
        "password": MARK,
        MARK: 1,
        "note": f"password={MARK} {MARK}",
        "list": [f"Bearer {MARK}", {MARK: True}],
    }


def test_keys_that_differ_in_their_secrets_alone_become_one_without_a_value():
    projected = {"internal-1": "a", "rows": 2, "internal-2": "b"}
    assert shown(projected) == {MARK: MARK, "rows": 2}


def test_what_redaction_makes_too_long_is_refused():
    secret = "password=x " * 23
    assert len(secret) <= V1.preview_string
    with pytest.raises(LimitExceeded) as caught:
        preview.encode(secret, REDACTOR)
    assert caught.value.boundary == "preview_string"


def test_an_omission_is_a_preview_that_names_its_reason():
    marker = preview.omitted("preview_items")
    values.require_preview(marker)
    assert json.loads(marker) == {"omitted": "preview_items"}


def test_a_reason_is_the_projects_own_word():
    assert preview.reason_of(ProtocolError("unsafe_text")) == "unsafe_text"
    assert preview.reason_of(RuntimeError("hunter2")) == "preview_malformed"


def head(output):
    return output


class Holder:
    @staticmethod
    def inner(output):
        return output


@pytest.mark.parametrize(
    ("projector", "path"),
    [
        (head, f"{__name__}.head"),
        (len, "builtins.len"),
        ("package.module.head", "package.module.head"),
    ],
)
def test_a_projector_is_a_function_of_a_module_or_its_path(projector, path):
    assert preview.path_of(projector) == path


@pytest.mark.parametrize(
    "projector",
    [lambda output: output, Holder.inner, Holder(), "head", "", "a..b", "a.b c", None],
    ids=range(8),
)
def test_a_projector_without_a_path_is_refused(projector):
    with pytest.raises(ConfigurationError):
        preview.path_of(projector)


def test_a_function_carries_the_path_of_its_projector():
    def leaf():
        return 1

    assert preview.marked(leaf) is None
    preview.mark(leaf, "a.b")
    assert preview.marked(leaf) == "a.b"


@pytest.mark.parametrize("function", [len, Holder, Holder(), None], ids=range(4))
def test_only_a_function_carries_a_projector(function):
    assert preview.marked(function) is None
    with pytest.raises(ConfigurationError):
        preview.mark(function, "a.b")
