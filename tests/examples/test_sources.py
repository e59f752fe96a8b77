"""Measuring Python source files."""

import pytest

from examples.census import sources
from examples.census.sources import Measure

SOURCE = """
import os, sys
from json.decoder import JSONDecoder
from . import sibling

class A:
    def one(self, x):
        if x and x.y or x.z:
            return [i for i in x]

async def two():
    for _ in range(3):
        pass
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="module.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_file_is_measured_by_its_syntax(write):
    found = sources.measure(write(SOURCE))

    assert (found.files, found.functions, found.classes) == (1, 2, 1)
    assert found.lines == SOURCE.count("\n") + 1
    # two functions, an if, two boolean operators, a comprehension, a for
    assert found.complexity == 7
    assert dict(found.imports) == {"os": 1, "sys": 1, "json": 1}


def test_file_that_does_not_parse_raises_a_syntax_error(write):
    with pytest.raises(SyntaxError):
        sources.measure(write("def broken(:\n"))


def test_measures_add_up():
    one = Measure(1, 10, 2, 1, 5)

    assert one + one == Measure(2, 20, 4, 2, 10)


def test_installed_packages_are_found_with_their_files():
    packages = {package.name: package.files for package in sources.discover()}

    assert len(packages["json"]) >= 4
    assert len(packages["django"]) > 500
    assert all(path.suffix == ".py" for path in packages["msgspec"])


def test_short_path_is_below_its_installation():
    packages = {package.name: package.files for package in sources.discover()}

    assert "json/decoder.py" in {sources.short(path) for path in packages["json"]}
