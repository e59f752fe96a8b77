"""The races of the record, one a file, each told as a text that needs no code to read."""

import os
from pathlib import Path

import pytest

from tests.lifecycle import script

FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))


def test_there_are_scenarios_and_each_has_a_title():
    assert len(FILES) >= 25
    assert all(path.read_text().startswith("# ") for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_goes_as_it_is_written(path):
    written = path.read_text()
    performed = script.perform(written)
    if os.environ.get("RECORD") == "1":
        path.write_text(performed)
        written = performed
    assert performed == written
