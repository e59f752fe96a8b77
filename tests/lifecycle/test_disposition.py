"""The disposition of an attempt, from those of its invocations."""

import itertools

import pytest

from django_ray.lifecycle.disposition import STRICTNESS, of_session, strictest
from django_ray.lifecycle.vocabulary import RetryDisposition
from tests.actors.test_owner import Stand

AUTOMATIC, APPLICATION, PROHIBITED, OPERATOR = STRICTNESS


def test_every_disposition_has_its_place():
    assert set(STRICTNESS) == set(RetryDisposition)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_strictest_holds_in_any_order(count):
    for told in itertools.product(STRICTNESS, repeat=count):
        places = [STRICTNESS.index(each) for each in told]
        assert strictest(told) is STRICTNESS[max(places)]


def test_without_an_invocation_nothing_was_started():
    assert strictest([]) is AUTOMATIC


def test_session_that_has_served_nothing_leaves_nothing():
    stand = Stand(outputs=1)
    stand.owner.prepare()

    assert of_session(stand.state) is AUTOMATIC


def test_invocation_that_succeeded_is_the_applications_to_repeat():
    stand = Stand(outputs=1)
    stand.owner.prepare()
    stand.invoke()

    assert stand.state.retry is PROHIBITED
    assert of_session(stand.state) is APPLICATION
