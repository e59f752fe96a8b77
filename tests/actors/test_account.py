"""What is said of each method of an invocation, and that it is no more than is known."""

from actors.account import Method, ends
from django_ray.lifecycle.vocabulary import Outcome
from django_ray.protocol.vocabulary import NodeState

S = NodeState
CHAIN = tuple(Method(f"m{n}", None, (n - 1,) if n else ()) for n in range(4))
FORK = (
    Method("root", None, ()),
    Method("left", None, (0,)),
    Method("right", None, (0,)),
    Method("after", None, (2,)),
)


def test_all_methods_that_lead_to_a_value_have_succeeded():
    assert ends(CHAIN, (3,), {0: ()}, Outcome.SUCCEEDED) == (S.SUCCEEDED,) * 4


def test_before_the_method_that_raised_all_succeeded_and_behind_it_none_ran():
    told = ends(CHAIN, (3,), {0: (1,)}, Outcome.APPLICATION_ERROR)
    assert told == (S.SUCCEEDED, S.FAILED, S.SKIPPED, S.SKIPPED)


def test_two_methods_of_the_participant_that_raised_are_not_told_apart():
    told = ends(CHAIN, (3,), {0: (1, 3)}, Outcome.APPLICATION_ERROR)
    assert told == (S.FAILED,) * 4


def test_what_was_not_waited_for_behind_an_error_is_abandoned():
    told = ends(FORK, (1, 3), {0: (1,), 1: (1,)}, Outcome.APPLICATION_ERROR)
    assert told == (S.SUCCEEDED, S.FAILED, S.CANCELLED, S.CANCELLED)


def test_another_output_that_gave_a_value_proves_its_own_methods():
    told = ends(FORK, (1, 3), {0: (), 1: (3,)}, Outcome.APPLICATION_ERROR)
    assert told == (S.SUCCEEDED, S.SUCCEEDED, S.SUCCEEDED, S.FAILED)


def test_under_an_end_that_proves_nothing_all_have_failed():
    for outcome in (Outcome.GET_TIMEOUT, Outcome.ACTOR_DIED, Outcome.OWNER_LOST):
        assert ends(CHAIN, (3,), {}, outcome) == (S.FAILED,) * 4


def test_a_late_value_after_a_cancellation_says_that_its_methods_ran():
    outcome = Outcome.CANCELLED_AFTER_SUBMISSION
    assert ends(FORK, (1, 3), {0: ()}, outcome) == (
        S.SUCCEEDED,
        S.SUCCEEDED,
        S.CANCELLED,
        S.CANCELLED,
    )
