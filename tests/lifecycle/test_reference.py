"""The printed reference of the lifecycle."""

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_reference_of_the_lifecycle_is_what_its_tables_print():
    printer = runpy.run_path(str(DOCS / "reference" / "lifecycle.py"))
    printed = printer["page"]()
    assert (DOCS / "reference" / "lifecycle.md").read_text() == printed
    assert printed.count("stateDiagram-v2") == 2
