"""Races for one execution: no order of statements lets a stale or mixed thing through."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.db import connection

from cluster.cast import STALE, Race, pairs, triples
from cluster.interleave import Play, every
from cluster.verdict import look
from django_ray.progress.delta import Fenced, Published
from django_ray.tasks.transitions import Stale
from tests.storage import helpers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def race() -> Iterator[Race]:
    race = Race(helpers.dsn())
    yield race
    race.close()
    connection.close()


def answers(race, *names):
    return set(race.answers[names])


@pytest.mark.parametrize("stale", STALE)
@pytest.mark.parametrize("other", ["new", "lifecycle"])
def test_stale_writer_changes_nothing_in_any_order(race, stale, other):
    assert race.every((stale, other)) > 1

    said = {answer for answer in answers(race, stale, other) if stale in answer}
    assert said == {f"{stale} Fenced"}


def test_publication_and_the_end_of_its_run_happen_one_after_the_other(race):
    assert race.every(("new", "lifecycle")) > 4

    assert answers(race, "new", "lifecycle") == {
        "new Published",
        "new Fenced",
        "lifecycle Recorded",
    }
    assert race.waits > 0


def test_restarted_collector_and_the_one_before_it_never_mix(race):
    assert race.every(("new", "heir")) > 4

    assert answers(race, "new", "heir") == {
        "new Published",
        "new Fenced",
        "heir Published",
    }


def test_cleanup_removes_a_run_that_has_ended_and_never_one_that_goes_on(race):
    for play in every(lambda choose: race.play(("lifecycle", "cleanup"), choose)):
        ended_first = play.moves[0] == "lifecycle SELECT execution"
        assert play.outcomes["cleanup"] == ("removed" if ended_first else "spared")

    assert race.races > 4


def test_reader_never_sees_rows_of_one_publication_with_the_revision_of_another(race):
    seen = set()
    for play in every(lambda choose: race.play(("new", "reader"), choose)):
        seen.add(play.outcomes["reader"].said.revision)

    # The one before and the one after: both orders were really met.
    assert seen == {race.world.base.summary, race.world.base.summary + 1}


def test_all_together_leave_what_must_hold(race):
    assert race.seeds(range(20)) == race.races == 20


def test_every_kind_meets_every_other():
    met = {frozenset(pair) for pair in pairs()}
    everybody = frozenset().union(*met)
    assert len(everybody) == 9
    # The newest collector does one of its three things at a time.
    assert len(met) == 9 * 8 // 2 - 3
    assert len(triples()) == 5 * 4 * 3 // 6 - 1


@pytest.mark.deep
@pytest.mark.parametrize("names", [*pairs(), *triples()], ids=" ".join)
def test_no_interleaving_breaks_an_invariant(race, names):
    assert race.every(names) > 0


@pytest.mark.deep
def test_no_seed_breaks_an_invariant(race):
    assert race.seeds(range(2_000)) == 2_000


# The judge and the player themselves


def test_reading_of_two_publications_is_noticed(race):
    before = look(race.world)
    race.play(("new",), in_turn)
    after = look(race.world)
    after.require_one_publication()

    for mixed in (
        {"said": before.said},
        {"rows": before.rows},
        {"manifest_id": None},
        {"run": None},
    ):
        with pytest.raises(AssertionError):
            replace(after, **mixed).require_one_publication()


def test_answer_that_is_not_what_was_done_is_noticed(race):
    race.play(("new",), in_turn)
    race.judge.judge({"new": Published(4, 1)})

    for told in (
        {"new": Fenced("task")},
        {"new": ValueError()},
        {"stale": Published(4, 1), "new": Published(4, 1)},
        {"new": Published(4, 1), "lifecycle": Stale()},
    ):
        with pytest.raises(AssertionError):
            race.judge.judge(told)


def in_turn(_position, _ready):
    """Choose whoever comes first."""
    return 0


def scripted(tree):
    """Return a play over a tree of choices instead of actors."""

    def play(choose):
        played, here = Play(), tree
        while isinstance(here, list):
            picked = choose(len(played.choices), len(here))
            played.choices.append((picked, len(here)))
            here = here[picked]
        played.moves.append(here)
        return played

    return play


def test_every_leaf_of_the_choices_is_played_once_in_order():
    tree = ["a", ["b", ["c", "d"], "e"], ["f"]]

    assert [play.moves for play in every(scripted(tree))] == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
        ["e"],
        ["f"],
    ]


def test_a_play_that_does_not_repeat_is_noticed():
    trees = iter([[["a", "b"], "c"], [["a", "b", "x"], "c"]])

    with pytest.raises(AssertionError, match="not what it was"):
        list(every(lambda choose: scripted(next(trees))(choose)))
