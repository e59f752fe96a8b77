"""`manage.py ray_runs`: lists the executions at work, and who watches them."""

from collections.abc import Iterator

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_ray.management.asking import asking
from django_ray.management.terminal import status
from django_ray.management.terminal.safe import clean
from django_ray.management.terminal.words import NONE, age, milliseconds
from django_ray.readers import active
from django_ray.readers.active import MOST, Active

HEADS = (
    *("ID", "STATE", "ATTEMPT", "AGE", "PROGRESS", "HEARD", "LEASE", "WORKER"),
    "TASK",
)


class Command(BaseCommand):
    """Prints one line an execution, the longest claimed first."""

    help = (
        "List the executions that are claimed or running: their age since the claim, how "
        "far they are, how long ago their collector was heard, what is left of the lease."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the argument."""
        parser.add_argument(
            "--limit", type=int, default=50, help=f"at most so many, 1 to {MOST}"
        )

    def handle(self, *, limit: int, **_: object) -> None:
        """List them."""
        if not 1 <= limit <= MOST:
            raise CommandError(f"--limit is 1 to {MOST}.")
        with asking(returncode=1):
            found = active.read(limit)
        if not found:
            self.stdout.write("Nothing is at work.")
            return
        for line in lines(found):
            self.stdout.write(line)
        if len(found) == limit:
            self.stdout.write("There may be more: see --limit.")


def lines(found: list[Active]) -> Iterator[str]:
    """Yield the table, its columns as wide as they must be."""
    rows = [HEADS, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _row(one: Active) -> tuple[str, ...]:
    execution, summary = one.reading.execution, one.reading.summary
    now = milliseconds(one.reading.read_at)
    since = execution.claimed_at or execution.enqueued_at
    state = execution.state.value
    if execution.cancel_requested_at is not None:
        state += ", to be cancelled"
    return (
        str(execution.public_id),
        state,
        str(execution.attempt_number),
        age(now - milliseconds(since)),
        NONE if summary is None else f"{summary.percent} %",
        NONE if summary is None else age(status.silence(one.reading, summary)),
        _left(one),
        clean(one.owner) or NONE,
        clean(execution.task_path),
    )


def _left(one: Active) -> str:
    """Say how long the lease holds, or since when it does not."""
    until = one.reading.execution.lease_expires_at
    if until is None:
        return "none"
    left = milliseconds(until) - milliseconds(one.reading.read_at)
    return age(left) if left >= 0 else f"ended {age(-left)} ago"
