"""Names of a run's detached actors."""

import uuid

import pytest

from actors import names
from django_ray.identity import RunIdentity


@pytest.mark.parametrize(
    "name", ["", "host", "host:", "host:x", "host:x:", "host:x:-1", "owner:x:1"]
)
def test_foreign_name_is_nobodys(name):
    assert names.parse(name) is None


def test_name_parses_back():
    name = names.ActorName("collector", str(uuid.uuid4()), 2**63 - 1)

    assert names.parse(str(name)) == name


def test_run_has_a_name_for_each_kind():
    run_id = str(uuid.uuid4())
    run = RunIdentity(
        task_execution_pk=1, attempt_number=1, execution_generation=3, run_id=run_id
    )

    assert [str(name) for name in names.of_run(run)] == [
        f"collector:{run_id}:3",
        f"host:{run_id}:3",
    ]
