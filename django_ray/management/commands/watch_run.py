"""Watches one run in the terminal, from PostgreSQL alone."""

import shutil
import time
import uuid
from argparse import ArgumentParser
from typing import IO, cast

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from django_ray.errors import StorageUnavailable
from django_ray.management.terminal import watch
from django_ray.readers import live
from django_ray.readers.picture import Picture

INTERRUPTED = 130


class Command(BaseCommand):
    """Show a run live; the exit status is its outcome."""

    help = (
        "Watch a run until it ends. Exit status: 0 succeeded, 1 failed, timed out or "
        "lost, 2 cancelled, 3 not ended (with --once), 4 no such run or no database, "
        "130 interrupted."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("id", type=uuid.UUID, help="what enqueue() returned as id")
        parser.add_argument(
            "--once", action="store_true", help="print one frame and exit"
        )
        parser.add_argument(
            "--plain", action="store_true", help="plain lines, in a terminal too"
        )
        parser.add_argument(
            "--ascii", action="store_true", help="ASCII shapes: # X C / > : ."
        )

    def handle(
        self, *, id: uuid.UUID, once: bool, plain: bool, ascii: bool, **_: object
    ) -> None:
        """Follow the run, then leave with its outcome."""
        try:
            last = self._watch(id, once=once, plain=plain, ascii=ascii)
        except StorageUnavailable as exc:
            raise CommandError(str(exc), returncode=watch.NOT_THERE) from exc
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        if last is None:
            raise CommandError("There is no such run.", returncode=watch.NOT_THERE)
        status = watch.exit_status(last)
        if status:
            raise SystemExit(status)

    def _watch(
        self, public_id: uuid.UUID, *, once: bool, plain: bool, ascii: bool
    ) -> Picture | None:
        def read() -> Picture | None:
            return live.read(public_id)

        def wait() -> None:
            time.sleep(watch.INTERVAL_S)

        # rich ends its lines itself.
        self.stdout.ending = ""
        terminal = self.stdout.isatty()
        size = shutil.get_terminal_size((100, 30))
        console = Console(
            file=cast(IO[str], self.stdout),
            force_terminal=terminal,
            width=None if terminal else size.columns,
            height=None if terminal else size.lines,
            highlight=False,
        )
        unicode = not ascii and console.encoding.startswith("utf")
        if once:
            last = read()
            if last is not None:
                console.print(watch.Screen(console, unicode).draw(last))
            return last
        if terminal and not console.is_dumb_terminal and not plain:
            return watch.live(watch.Screen(console, unicode), read, wait)
        return watch.lines(self._say, read, wait, unicode=unicode)

    def _say(self, line: str) -> None:
        self.stdout.write(f"{line}\n")
        self.stdout.flush()
