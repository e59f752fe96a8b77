"""Writes the page of published figures from the documents of verified runs."""

from collections.abc import Iterable, Mapping
from typing import Any

KINDS: Mapping[str, tuple[str, ...]] = {
    "Ratios": (
        "publish_initial",
        "publish_sparse",
        "ingest",
        "overhead",
        "reducer",
        "owner_invocations",
        "reader_pages",
    ),
    "Load": ("latency", "readers_live", "cleanup", "flood", "million", "soak"),
    "Faults": (
        "collector_killed",
        "postgres_killed",
        "node_killed",
        "answer_lost",
        "fence_race",
    ),
}
"""Under which heading a scenario stands, in this order."""

HEAD = """# Figures

What the scenarios of `cluster/` found, written by `python -m cluster report`. Each was
verified by audit before it was reported. Ratios are of one run, against the baseline that
`cluster/README.md` names; times are this machine's, shared with others, and prove nothing
elsewhere. The spread is from the least to the greatest value.
"""

Document = Mapping[str, Any]


def page(documents: Iterable[Document], questions: Mapping[str, str]) -> str:
    """Return the page: of each scenario its newest document, and what was not run.

    `documents` come oldest first; `questions` holds every scenario's, by its name.
    """
    newest = {str(document["scenario"]): document for document in documents}
    placed = {name for names in KINDS.values() for name in names}
    kinds = {**KINDS, "Others": tuple(sorted(questions.keys() - placed))}
    parts = [HEAD]
    for kind, names in kinds.items():
        found = [name for name in names if name in newest]
        if found:
            parts.append(f"## {kind}\n")
            parts += [_section(newest[name], questions.get(name, "")) for name in found]
    absent = sorted(questions.keys() - newest.keys())
    if absent:
        parts.append("## Not run\n\n" + "".join(f"- `{name}`\n" for name in absent))
    return "\n".join(parts)


def _section(document: Document, question: str) -> str:
    lines = [
        f"### `{document['scenario']}`\n",
        f"{question}\n",
        "| figure | median | spread | of | unit | to reach | reached |",
        "|---|---|---|---|---|---|---|",
        *(_row(name, body) for name, body in sorted(document["figures"].items())),
        "",
    ]
    notes = [_cell(note) for note in document["notes"]]
    if notes:
        lines += ["; ".join(notes) + ".", ""]
    lines += [_origin(document), ""]
    return "\n".join(lines)


def _row(name: str, body: Mapping[str, Any]) -> str:
    reach, reached = body.get("reach"), body.get("reached")
    cells = (
        name,
        _number(body["median"]),
        f"{_number(body['minimum'])} to {_number(body['maximum'])}",
        str(body["count"]),
        _cell(str(body["unit"])),
        "" if reach is None else _number(reach),
        "" if reached is None else ("yes" if reached else "**no**"),
    )
    return f"| {' | '.join(cells)} |"


def _origin(document: Document) -> str:
    """Say on what, of which versions, and with which parameters it was run."""
    machine, versions = document["machine"], document["versions"]
    parameters = ", ".join(
        f"{name} {value}" for name, value in sorted(document["parameters"].items())
    )
    told = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
    return (
        f"Commit `{document['commit']}`; {machine['processors']} processors"
        f" ({machine['architecture']}, {machine['system']}); {told}. With {parameters}."
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
