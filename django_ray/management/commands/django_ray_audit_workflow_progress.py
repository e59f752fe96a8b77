"""Recounts stored progress, and names everything that disagrees."""

import uuid
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator

from django.core.management.base import BaseCommand, CommandError

from django_ray.maintenance.audit import audit, run_ids, runs_of
from django_ray.maintenance.ledger import Audit
from django_ray.management.asking import asking

TOLD = 50
"""So many runs are told one by one; all are counted."""

DISAGREES = 1
NOT_THERE = 4


class Command(BaseCommand):
    """Audit one run, or all of them; the exit status says whether all agrees."""

    help = (
        "Recount the stored progress of one run, or of all: rows, totals, digests, "
        "pages, stages, summaries and their copies. It only reads, each run in one "
        "snapshot. Exit status: 0 all agrees, 1 something does not, 4 no such run or "
        "no database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "run",
            nargs="?",
            type=uuid.UUID,
            help="a run's id, or an execution's: all its runs (default: every run)",
        )

    def handle(self, *, run: uuid.UUID | None, **_: object) -> None:
        """Audit, and print what was found."""
        with asking(returncode=NOT_THERE):
            found = run_ids() if run is None else runs_of(run)
            if run is not None and not found:
                raise CommandError("There is no such run.", returncode=NOT_THERE)
            disagreeing = self._audit(found)
        if disagreeing:
            raise SystemExit(DISAGREES)

    def _audit(self, ids: Iterable[str]) -> int:
        totals: Counter[str] = Counter()
        for run_id in ids:
            found = audit(run_id)
            totals.update(
                runs=1,
                nodes=found.nodes,
                edges=found.edges,
                rows=found.rows,
                bytes=found.bytes,
                expired=found.is_expired,
            )
            if found.is_clean:
                continue
            totals["disagreeing"] += 1
            if totals["disagreeing"] <= TOLD:
                for line in lines(run_id, found):
                    self.stdout.write(line)
        disagreeing = totals["disagreeing"]
        if disagreeing > TOLD:
            self.stdout.write(f"{disagreeing - TOLD:,} more runs disagree")
        self.stdout.write(
            f"{totals['runs']:,} run{'' if totals['runs'] == 1 else 's'}: "
            f"{totals['nodes']:,} nodes, {totals['edges']:,} edges, "
            f"{totals['rows']:,} rows of {totals['bytes']:,} bytes; "
            f"{totals['expired']:,} expired, {disagreeing:,} disagreeing"
        )
        return disagreeing


def lines(run_id: str, found: Audit) -> Iterator[str]:
    """Say each kind of disagreement in one line: where it was met first, how often."""
    number = Counter(finding.code for finding in found.findings)
    first = {finding.code: finding.at for finding in reversed(found.findings)}
    for code, count in number.items():
        at = "" if first[code] is None else f" at {first[code]}"
        more = "" if count == 1 else f", and {count - 1:,} more"
        yield f"{run_id}: {code}{at}{more}"
    untold = found.disagreements - len(found.findings)
    if untold:
        yield f"{run_id}: {untold:,} more disagreements"
