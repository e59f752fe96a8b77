"""Removes stored progress that nobody may read any more; says what it would do first."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from django_ray.checks import DATABASE
from django_ray.maintenance import cleanup
from django_ray.maintenance.candidates import Kind
from django_ray.maintenance.cleanup import Report, Swept
from django_ray.management.asking import asking

BATCH_SIZE = 1_000
MOST = 100_000
"""So many at once: what is due is listed in memory, and told when all is done."""
FAILED = 1
NO_DATABASE = 4


class Command(BaseCommand):
    """Make one pass of cleanup; dry unless told to delete."""

    help = (
        "Show what cleanup would remove of stored workflow progress, and with --delete "
        "remove it: expired runs, candidates and pages that nobody published for an "
        "hour, empty rows of ended runs. Never a current run, a summary or an outcome. "
        "Exit status: 0 done, 1 something could not be removed, 4 no database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "--delete", action="store_true", help="remove it (default: only say so)"
        )
        parser.add_argument(
            "--batch-size",
            type=int,
            default=BATCH_SIZE,
            help=(
                f"how many of each class to examine, 1 to {MOST:,} "
                f"(default: {BATCH_SIZE:,})"
            ),
        )

    def handle(self, *, delete: bool, batch_size: int, **_: object) -> None:
        """Make the pass, and print its report."""
        if not 1 <= batch_size <= MOST:
            raise CommandError(f"--batch-size is 1 to {MOST:,}.")
        with asking(NO_DATABASE):
            now = cleanup.database_now(DATABASE)
            report = cleanup.clean(
                using=DATABASE,
                now=now,
                delete=delete,
                batch_size=batch_size,
                rest=cleanup.unhurried,
            )
        self._print(report)
        if report.failed:
            raise SystemExit(FAILED)

    def _print(self, report: Report) -> None:
        for swept in report.swept:
            self.stdout.write(line(swept, deleting=report.deleting))
        for diagnostic in report.diagnostics:
            self.stderr.write(
                f"failed: {diagnostic.kind} of run {diagnostic.run_id}: "
                f"{diagnostic.reason}"
                f"{'' if diagnostic.recorded else ' (not recorded)'}"
            )
        untold = report.failed - len(report.diagnostics)
        if untold:
            self.stderr.write(f"failed: {untold:,} more")
        if not report.deleting:
            self.stdout.write("Nothing was removed: this was a dry run (--delete).")


def line(swept: Swept, *, deleting: bool) -> str:
    """Say in one line what became of one class."""
    did = "removed" if deleting else "to remove"
    removed = swept.removed
    parts = [f"{swept.kind}: {removed.items:,} {did}"]
    if swept.kind is Kind.expired_runs:
        parts.append(f"with {removed.rows:,} rows and {removed.pages:,} pages")
    if swept.kind is Kind.stale_candidates:
        parts.append(f"with {removed.pages:,} pages")
    if swept.spared:
        parts.append(f"{swept.spared:,} not due any more")
    if swept.failed:
        parts.append(f"{swept.failed:,} failed")
    if swept.is_full:
        parts.append("the batch was full: there may be more")
    return ", ".join(parts)
