"""Measures one Python source file, and finds the files there are to measure.

Pure functions over the file system: no Ray, no Django.
"""

import ast
import sys
import sysconfig
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.With,
    ast.AsyncWith,
    ast.Assert,
    ast.comprehension,
    ast.IfExp,
    ast.match_case,
)
"""What adds a path through a function, each by one."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What one file, or a group of files, holds."""

    files: int = 0
    lines: int = 0
    functions: int = 0
    classes: int = 0
    complexity: int = 0
    imports: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Measure") -> "Measure":
        return Measure(
            self.files + other.files,
            self.lines + other.lines,
            self.functions + other.functions,
            self.classes + other.classes,
            self.complexity + other.complexity,
            self.imports + other.imports,
        )


@dataclass(frozen=True, slots=True)
class Package:
    """A top-level package or module and its source files, in order of path."""

    name: str
    files: tuple[Path, ...]


def discover() -> list[Package]:
    """Return the standard library's and the installed packages, by name."""
    roots = [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]
    found: dict[str, list[Path]] = {}
    for root in roots:
        for entry in sorted(root.iterdir()):
            if entry.name == "site-packages":
                continue
            files = sorted(entry.rglob("*.py")) if entry.is_dir() else [entry]
            sources = [path for path in files if path.suffix == ".py"]
            if sources:
                found.setdefault(entry.stem, []).extend(sources)
    return [Package(name, tuple(files)) for name, files in sorted(found.items())]


def short(path: Path) -> str:
    """Return the path below the folder of its installation, for people to read."""
    for name in ("purelib", "stdlib"):
        root = sysconfig.get_path(name)
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


def measure(path: Path) -> Measure:
    """Parse one file; a file that is not Python of this version raises SyntaxError."""
    source = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    functions = classes = complexity = 0
    imports: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions += 1
            complexity += 1
        elif isinstance(node, ast.ClassDef):
            classes += 1
        elif isinstance(node, ast.Import):
            imports.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports[node.module.partition(".")[0]] += 1
        elif isinstance(node, ast.BoolOp):
            complexity += len(node.values) - 1
        elif isinstance(node, BRANCHES):
            complexity += 1
    return Measure(1, source.count(b"\n") + 1, functions, classes, complexity, imports)


def python_version() -> str:
    """Return the version whose grammar decides what parses."""
    return ".".join(map(str, sys.version_info[:3]))
