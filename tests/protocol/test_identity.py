import dataclasses
import itertools
import uuid

import pytest

from django_ray.identity import MAXIMUM_63, RunIdentity, is_positive_63, is_run_id

RUN = "6f1c3b0e-7a52-4c1d-9f52-0d8a4b1e2c33"
FIELDS = {
    "task_execution_pk": 1,
    "attempt_number": 2,
    "execution_generation": 3,
    "run_id": RUN,
}


@pytest.mark.parametrize("value", [1, 2, MAXIMUM_63 - 1, MAXIMUM_63])
def test_a_positive_63_bit_integer_is_one(value):
    assert is_positive_63(value)


@pytest.mark.parametrize(
    "value", [0, -1, MAXIMUM_63 + 1, True, False, 1.0, "1", None, float("nan")]
)
def test_anything_else_is_no_positive_63_bit_integer(value):
    assert not is_positive_63(value)


@pytest.mark.parametrize(
    "value",
    [
        RUN.upper(),
        RUN.replace("-", ""),
        "{" + RUN + "}",
        "urn:uuid:" + RUN,
        RUN[:-1],
        RUN + "0",
        "g" * 36,
        "",
        None,
        5,
        uuid.UUID(RUN),
    ],
)
def test_a_run_id_has_one_form(value):
    assert is_run_id(RUN)
    assert not is_run_id(value)


@pytest.mark.parametrize(
    "name", ["task_execution_pk", "attempt_number", "execution_generation"]
)
@pytest.mark.parametrize("value", [0, -1, True, MAXIMUM_63 + 1, "1"])
def test_an_identity_refuses_a_number_out_of_range(name, value):
    with pytest.raises(ValueError, match=name):
        RunIdentity(**{**FIELDS, name: value})


def test_an_identity_refuses_a_run_id_of_another_form():
    with pytest.raises(ValueError, match="run_id"):
        RunIdentity(**{**FIELDS, "run_id": RUN.upper()})


def test_identities_are_equal_in_all_four_fields_only():
    other = {
        "task_execution_pk": 9,
        "attempt_number": 9,
        "execution_generation": 9,
        "run_id": str(uuid.UUID(int=9)),
    }
    for names in itertools.chain.from_iterable(
        itertools.combinations(FIELDS, size) for size in range(5)
    ):
        changed = {**FIELDS, **{name: other[name] for name in names}}
        same = RunIdentity(**FIELDS) == RunIdentity(**changed)
        assert same is (not names)


def test_an_identity_cannot_be_changed():
    identity = RunIdentity(**FIELDS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        identity.attempt_number = 5
    assert len({identity, RunIdentity(**FIELDS)}) == 1
