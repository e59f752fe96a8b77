"""Seconds of an author, and the absolute deadlines made of them."""

import pytest

from django_ray.errors import ConfigurationError
from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle import budgets, terms
from django_ray.lifecycle.budgets import Deadlines


def test_the_deadlines_of_an_invocation_are_absolute_and_in_order():
    told = budgets.of_invocation(
        Deadlines(admission=1, submission=2, result=3, cancellation=4, drain=5), 1_000
    )
    assert (told.admission, told.submission, told.result) == (2_000, 3_000, 4_000)
    assert (told.cancellation, told.drain) == (8_000, 13_000)
    assert terms.are_invocation_deadlines(told)


def test_a_session_has_its_outer_deadline_and_no_other():
    assert budgets.outer(Deadlines(), 5) == MAXIMUM_63
    outer = budgets.outer(Deadlines(outer=2.5), 1_000)
    assert outer == 3_500
    assert terms.are_session_deadlines(budgets.of_session(outer))
    assert set(vars_of(budgets.of_session(outer))) == {outer}


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "1", 1e8])
def test_what_no_deadline_can_be_made_of_is_refused(value):
    with pytest.raises(ConfigurationError, match="result"):
        Deadlines(result=value)


def vars_of(deadlines):
    return [getattr(deadlines, name) for name in terms.SESSION_STAGES]
