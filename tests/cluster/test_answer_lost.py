"""A run whose commits are done but reported as failed: nothing twice, nothing lost."""

from contextlib import ExitStack

import pytest

from cluster.scenarios.answer_lost import AnswerLost, Parameters
from tests.cluster.here import Here


@pytest.fixture
def scenario(transactional_db):
    parameters = Parameters(publications=60, lost=0.2, burst=270, seed=3)
    with ExitStack() as stack:
        scenario = AnswerLost(parameters)
        scenario.setup(Here(stack))
        stack.callback(scenario.teardown)
        yield scenario


def test_nothing_is_stored_twice_and_nothing_is_lost(scenario):
    scenario.measure()
    scenario.verify()

    figures = scenario.result().figures
    assert figures["publications"].median >= 60
    assert figures["publications_made_again"].median >= 5
    assert (figures["twice"].median, figures["lost"].median) == (0, 0)


def test_a_publisher_that_believes_in_a_failed_commit_is_found_out(scenario):
    scenario.collector.restore = scenario.collector.settle

    with pytest.raises(AssertionError):
        scenario.measure()
