"""The named mutants still fit the code, and the tests that kill them are there."""

import pytest

from tests.mutants import MUTANTS, ROOT, main


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code_once(mutant):
    text = (ROOT / mutant.path).read_text()
    assert text.count(mutant.before) == 1
    assert (ROOT / mutant.tests).exists()


def test_there_are_fifteen_mutants_at_least_and_each_has_a_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15


@pytest.mark.deep
def test_every_mutant_is_killed():
    assert main([]) == 0
