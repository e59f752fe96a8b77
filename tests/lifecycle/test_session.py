"""How a session begins: the terms it may have, and what importing the package loads."""

import subprocess
import sys
from dataclasses import replace

import pytest

from django_ray.errors import ConfigurationError
from django_ray.lifecycle.reducer import initial_session
from django_ray.lifecycle.terms import (
    CAPACITY,
    PROTOCOL_VERSION,
    LastInvocation,
    LifecycleCapacity,
)
from django_ray.protocol.plan import LIFECYCLE_PROTOCOL_VERSION
from tests.lifecycle.making import DEADLINES, IDENTITY, Session

SOUND = {
    "identity": IDENTITY,
    "capacity": LifecycleCapacity(),
    "deadlines": DEADLINES,
    "before": None,
}


def test_a_session_begins_new_with_everything_open_and_nothing_done():
    state = initial_session(**SOUND)
    assert (state.state, state.graph, state.effect) == (
        "NEW",
        "UNPREPARED",
        "NOT_STARTED",
    )
    assert state.retry == "AUTOMATIC_ALLOWED"
    assert state.admission_open
    assert state.fallback_open
    assert (state.outcome, state.invocation, state.pending) == (None, None, None)


@pytest.mark.parametrize("field", sorted(CAPACITY))
@pytest.mark.parametrize("value", [0, 1, 2, True, False, "1", None, 1.0], ids=repr)
def test_a_capacity_other_than_version_1s_is_refused(field, value):
    capacity = LifecycleCapacity(**{field: value})
    if type(value) is int and value == CAPACITY[field]:
        initial_session(**SOUND | {"capacity": capacity})
    else:
        with pytest.raises(ConfigurationError):
            initial_session(**SOUND | {"capacity": capacity})


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": None},
        {"identity": replace(IDENTITY, graph_key="")},
        {"identity": replace(IDENTITY, session_id="x" * 129)},
        {"identity": replace(IDENTITY, owner_epoch=0)},
        {"identity": replace(IDENTITY, owner_epoch=True)},
        {"capacity": None},
        {"deadlines": None},
        {"deadlines": replace(DEADLINES, outer=-1)},
        {"deadlines": replace(DEADLINES, drain=1.5)},
        {"deadlines": replace(DEADLINES, teardown=2**63)},
        {"deadlines": replace(DEADLINES, result=True)},
        {"before": LastInvocation(number=0, invocation_id="first")},
        {"before": LastInvocation(number=1, invocation_id="")},
        {"before": ("first", 1)},
    ],
    ids=str,
)
def test_malformed_terms_are_refused(changes):
    with pytest.raises(ConfigurationError) as caught:
        initial_session(**SOUND | changes)
    assert "xxx" not in str(caught.value)


def test_a_stage_may_be_later_than_outer_and_never_counts():
    session = Session(replace(DEADLINES, teardown=DEADLINES.outer + 1)).ready()
    session.asked("TEARDOWN_REQUESTED")
    assert session.action.deadline == DEADLINES.outer


def test_the_plan_names_the_protocol_that_is_implemented():
    assert PROTOCOL_VERSION == LIFECYCLE_PROTOCOL_VERSION


def test_importing_the_lifecycle_loads_the_standard_library_alone():
    code = (
        "import importlib, pkgutil, sys\n"
        "import django_ray.lifecycle as package\n"
        "for module in pkgutil.iter_modules(package.__path__):\n"
        "    importlib.import_module(f'django_ray.lifecycle.{module.name}')\n"
        "own = {n for n in sys.modules if n.partition('.')[0] == 'django_ray'}\n"
        "own -= {'django_ray', 'django_ray.errors', 'django_ray.identity'}\n"
        "assert all(n.startswith('django_ray.lifecycle') for n in own), own\n"
        "names = {n.partition('.')[0] for n in sys.modules} - {'django_ray'}\n"
        "foreign = {n for n in names if n not in sys.stdlib_module_names}\n"
        "print(sorted(foreign - {'__main__', 'sitecustomize', 'usercustomize'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
