import random

import pytest

from django_ray.progress.ranks import BLOCK, Ranks


def test_a_root_is_of_rank_zero():
    assert Ranks().add(()) == 0


def test_a_node_stands_one_past_its_deepest_dependency():
    ranks = Ranks()
    ranks.add(())
    ranks.add((0, 1))

    assert ranks.add((0, 1)) == 1
    assert ranks.add((0, 1, 2, 1)) == 2
    assert ranks.add((0, 4)) == 3


@pytest.mark.parametrize("number", [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_ranks_agree_with_a_loop_over_all_dependencies(number):
    chance = random.Random(number)
    ranks, naive = Ranks(), []
    for ordinal in range(number):
        first = chance.randrange(ordinal) if ordinal else 0
        count = chance.randrange(1, ordinal - first + 1) if ordinal else 0
        runs = (first, count) if count and chance.random() < 0.1 else ()
        naive.append(
            max((1 + r for r in naive[first : first + count] if runs), default=0)
        )

        assert ranks.add(runs) == naive[-1]

    assert len(ranks) == number


def test_only_ranked_dependencies_count():
    ranks = Ranks()
    ranks.add(())

    assert ranks.after((0, 9_000)) == 1
    assert ranks.after((5, 9_000)) == 0
    assert len(ranks) == 1


def test_a_node_that_joins_very_many_is_cheap_and_right():
    ranks = Ranks()
    for ordinal in range(5_000):
        ranks.add((0, ordinal) if ordinal else ())

    assert ranks.after((0, 5_000)) == 5_000
    assert ranks.after((3, 4_000)) == 4_003
