"""One JSON document and one table a run; two documents compared."""

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from cluster.scenario import Result


def document(name: str, result: Result, database: str) -> dict[str, object]:
    """Return the result document of a verified scenario."""
    return {
        "scenario": name,
        "figures": {
            key: figure.document() for key, figure in sorted(result.figures.items())
        },
        "verified": True,
        "notes": list(result.notes),
        "machine": {
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
            "system": platform.system(),
        },
        "versions": {
            "python": platform.python_version(),
            "postgresql": database,
            **{name: version(name) for name in ("ray", "psycopg", "msgspec", "Django")},
        },
        "commit": commit(),
        "parameters": dict(result.parameters),
    }


def commit() -> str:
    """Return the checked-out commit, with a plus when the tree differs from it."""
    root = Path(__file__).resolve().parents[1]

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + (
        "+" if git("status", "--porcelain") else ""
    )


def table(result: Result) -> str:
    """Return the figures as lines for a person."""
    rows = [("figure", "median", "min", "max", "unit", "reach")]
    for key, figure in sorted(result.figures.items()):
        rows.append(
            (
                key,
                f"{figure.median:.3f}",
                f"{min(figure.values):.3f}",
                f"{max(figure.values):.3f}",
                figure.unit,
                "" if figure.reach is None else f"{figure.reach:g}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def compare(before: Path, after: Path) -> str:
    """Return, for each figure both documents have, its medians and their ratio."""
    old, new = (json.loads(path.read_text())["figures"] for path in (before, after))
    lines = []
    for key in sorted(old.keys() & new.keys()):
        a, b = old[key]["median"], new[key]["median"]
        ratio = f"{b / a:.3f}" if a else "-"
        lines.append(f"{key}: {a:g} -> {b:g} {new[key]['unit']} ({ratio})")
    return "\n".join(lines)
