"""The envelope of an outer task's outcome: bounded, redacted, parsed back."""

import traceback
from collections import UserList
from collections.abc import Sequence

import pytest

from django_ray.errors import DjangoRayError, LimitExceeded, ProtocolError
from django_ray.protocol.redaction import Redactor
from django_ray.readers.archive import error_line
from django_ray.tasks import outcome
from django_ray.tasks.outcome import Cancelled, Failed, Refused, Succeeded

PLAIN = Redactor(())


def raised(error):
    try:
        raise error
    except BaseException as exc:
        return exc


@pytest.mark.parametrize(
    "said", [Succeeded(b"[]"), Failed("a.B", "text"), Cancelled(), Refused()]
)
def test_outcome_parses_back(said):
    assert outcome.decode(outcome.encode(said)) == said


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 9, b"\x81\xa4type\xa1x"])
def test_bytes_that_are_no_outcome_are_a_protocol_error(data):
    with pytest.raises(ProtocolError):
        outcome.decode(data)


@pytest.mark.parametrize("size", [outcome.ERROR_TEXT - 1, outcome.ERROR_TEXT])
def test_error_text_up_to_its_limit_parses(size):
    said = Failed("a.B", "x" * size)

    assert outcome.decode(outcome.encode(said)) == said


def test_error_text_over_its_limit_is_a_protocol_error():
    with pytest.raises(ProtocolError):
        outcome.decode(outcome.encode(Failed("a.B", "x" * (outcome.ERROR_TEXT + 1))))


def test_result_is_stored_as_json():
    said = outcome.of_result({"a": (1, 2.5, None, "ü")}, PLAIN)

    assert said == Succeeded('{"a": [1, 2.5, null, "ü"]}'.encode())


@pytest.mark.parametrize("below", [1, 0])
def test_result_up_to_its_limit_is_stored(below):
    assert outcome.storable("x" * (98 - below), "result", 100)


def test_result_over_its_limit_is_refused_by_name():
    with pytest.raises(LimitExceeded, match="result is 101; the limit is 100"):
        outcome.storable("x" * 99, "result", 100)


class Unreadable(UserList):
    def __iter__(self):
        raise RuntimeError


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(object(), float("nan"), "a\x00", "\udcff", b"\xff", nested(100_000)),
        *(nested(outcome.NESTING), Unreadable()),
    ],
    ids=[
        *("object", "nan", "nul", "surrogate", "bytes", "deep", "too-deep"),
        "unreadable",
    ],
)
def test_result_that_cannot_be_stored_is_a_failure(value):
    assert isinstance(outcome.of_result(value, PLAIN), Failed)


class Closed(Sequence):
    """Raises when it is read."""

    def __len__(self):
        return 2

    def __getitem__(self, place):
        raise RuntimeError("the database is away")


class Shut(dict):
    """Raises when it is read."""

    def items(self):
        raise KeyError("shut")


@pytest.mark.parametrize(
    ("value", "kind"), [(Closed(), "RuntimeError"), (Shut(a=1), "KeyError")]
)
def test_result_that_raises_when_it_is_read_is_a_failure(value, kind):
    said = outcome.of_result(value, PLAIN)
    assert isinstance(said, Failed)
    assert said.error_class == "builtins.TypeError"
    assert f"it raised {kind}" in said.error_text


def test_result_up_to_the_deepest_is_stored():
    assert outcome.storable(nested(outcome.NESTING - 1), "result", outcome.RESULT)


def test_error_is_its_importable_class_and_its_traceback():
    said = outcome.of_error(raised(ValueError("no")), PLAIN)

    assert said.error_class == "builtins.ValueError"
    assert said.error_text.startswith("Traceback (most recent call last):")
    assert said.error_text.endswith("ValueError: no\n")


def test_error_of_a_cause_is_told_with_it():
    error = ValueError("second")
    error.__cause__ = raised(KeyError("first"))

    text = outcome.of_error(error, PLAIN).error_text

    assert text.index("KeyError: 'first'") < text.index("ValueError: second")


def test_secrets_are_taken_out_of_message_and_cause():
    error = ValueError("password=hunter2 and more")
    error.__cause__ = raised(KeyError("postgresql://root:hunter2@db/x"))
    error.add_note("token: hunter2")

    text = outcome.of_error(error, PLAIN).error_text

    assert "hunter2" not in text
    assert text.count("[redacted]") == 3


def test_secrets_of_the_deployment_are_taken_out():
    said = outcome.of_error(ValueError("patient 4711"), Redactor((r"patient \d+",)))

    assert said.error_text == "ValueError: [redacted]\n"


def test_message_of_ten_megabytes_is_cut_with_its_size():
    text = outcome.of_error(ValueError("x" * 10_485_760), PLAIN).error_text

    assert len(text.encode()) <= outcome.ERROR_TEXT
    assert "bytes]" in text


def test_long_traceback_keeps_its_last_lines():
    def descend(levels):
        if levels % 2:
            return other(levels - 1)
        if not levels:
            raise ValueError("the end")
        return descend(levels - 1)

    def other(levels):
        return descend(levels)

    with pytest.raises(ValueError, match="the end") as caught:
        descend(200)
    said = outcome.of_error(caught.value, PLAIN)

    assert len(said.error_text.encode()) <= outcome.ERROR_TEXT
    assert said.error_text.endswith("ValueError: the end\n")


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError


def test_error_that_cannot_be_printed_is_told_by_its_class():
    said = outcome.of_error(raised(Unspeakable()), PLAIN)

    assert said.error_class.endswith("test_outcome.Unspeakable")
    assert "Unspeakable" in said.error_text
    assert outcome.decode(outcome.encode(said)) == said


def test_control_characters_do_not_reach_the_text():
    text = outcome.of_error(ValueError("\x1b[31m\x00\ud800"), PLAIN).error_text

    assert not {"\x1b", "\x00", "\ud800"} & set(text)


def test_fault_of_ours_has_its_class_and_message():
    said = outcome.of_fault(DjangoRayError("The run is over."))

    assert said == Failed(
        "django_ray.errors.DjangoRayError", "DjangoRayError: The run is over."
    )


def test_lost_run_names_its_reason():
    assert "(ActorDiedError)" in outcome.lost("ActorDiedError").error_text


def test_traceback_reads_as_pythons_own():
    error = raised(ValueError("no"))

    assert outcome.of_error(error, PLAIN).error_text == "".join(
        traceback.format_exception(error)
    )


class Nameless(Exception):
    def __getattr__(self, name):
        raise KeyError(name)


class Leaving(Exception):
    def __str__(self):
        raise SystemExit(3)


class Anonymous(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__qualname__", "__name__"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


class Placeless(Exception, metaclass=Anonymous):
    pass


class Noted(Exception):
    @property
    def __notes__(self):
        raise RuntimeError("no notes")


@pytest.mark.parametrize(
    "error",
    [Nameless(), Leaving(), Noted(), SyntaxError("x", ("f", 5, 5, object()))],
    ids=lambda error: type(error).__name__,
)
def test_error_that_cannot_be_formatted_is_told_by_its_class(error):
    said = outcome.of_error(error, Redactor(()))

    assert said.error_class.endswith(type(error).__qualname__)
    assert type(error).__qualname__ in said.error_text


def test_error_whose_class_does_not_say_its_name_is_told_all_the_same():
    said = outcome.of_error(Placeless(), Redactor(()))

    assert said.error_class.endswith("test_outcome.Placeless")
    assert "Placeless" in said.error_text


def wrapped(cause):
    """Return an error as Ray gives it, of a leaf that raised `cause`."""
    ray_text = f"\x1b[36mray::leaf()\x1b[39m (pid=1, ip=1.2.3.4)\nValueError: {cause}"
    kind = type("RayTaskError(ValueError)", (Exception,), {})
    kind.__module__ = "ray.exceptions"
    error = kind(ray_text)
    error.cause = cause
    return error


@pytest.mark.parametrize(("size", "ends"), [(10, 1), (5_000, 1)])
def test_error_of_a_leaf_ends_with_its_own_line_without_colours(size, ends):
    cause = ValueError("why " + "x" * size)
    said = outcome.of_error(wrapped(cause), PLAIN)

    assert said.error_class == "builtins.ValueError"
    assert "[36m" not in said.error_text
    assert "ray::leaf() (pid=1" in said.error_text
    line = error_line(said.error_class, said.error_text)
    assert line.startswith("ValueError: why xx")
    assert said.error_text.count("\nValueError: why") == ends


def test_colours_do_not_divide_a_secret():
    said = outcome.of_error(ValueError("pass\x1b[31mword=hunter2"), PLAIN)

    assert said.error_text == "ValueError: password=[redacted]\n"
