"""The house rules no linter knows: sizes, empty packages, where exceptions live."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("django_ray", "actors")
FILE_LINES = 400
FUNCTION_LINES = 60


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def product_files() -> list[Path]:
    return list(sources(*PRODUCT, "cluster", "examples"))


@pytest.mark.parametrize(
    "path", product_files(), ids=lambda p: str(p.relative_to(ROOT))
)
def test_no_product_file_is_over_400_lines_and_no_function_over_60(path):
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES
    long = [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize(
    "path", product_files(), ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_product_file_begins_with_its_sentence(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert re.match(r"^[^\n]+[.?]$", docstring.partition("\n")[0])


def test_an_init_file_holds_a_docstring_and_nothing_else():
    for path in sources(*PRODUCT):
        if path.name == "__init__.py":
            assert len(ast.parse(path.read_text()).body) == 1, path


def test_exception_classes_live_in_errors_alone():
    found = []
    for path in sources(*PRODUCT):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and path.name != "errors.py":
                bases = [ast.unparse(base) for base in node.bases]
                if any(re.search(r"(Error|Exception|Warning)$", b) for b in bases):
                    found.append(f"{path.name}: {node.name}")
    assert found == []


def test_the_remote_decorator_is_said_in_few_files_alone():
    said = {
        path.name
        for path in sources(*PRODUCT)
        if re.search(r"\bray\.remote\(|@ray\.remote", path.read_text())
    }
    assert said <= {
        "remote.py",
        "remote_owner.py",
        "leaf.py",
        "functions.py",
        "workflow.py",
    }


def test_importing_the_web_side_loads_no_ray():
    code = (
        "import os, sys, django;"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings';"
        "django.setup();"
        "import django_ray.urls, django_ray.readers.summary, django_ray.workflow;"
        "from django.core.checks import run_checks; run_checks();"
        "raise SystemExit('ray' in sys.modules or 'actors' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_the_documents_stay_within_their_bounds():
    assert (ROOT / "README.md").read_text().count("\n") <= 100
    for path in (ROOT / "docs" / "decisions").glob("*.md"):
        assert path.read_text().count("\n") <= 80, path


def test_the_lock_holds_hashes_and_no_address():
    lock = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert "://" not in lock
