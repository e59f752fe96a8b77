"""Watches one run in the terminal, from PostgreSQL alone."""

import shutil
import sys
import time
import uuid
from argparse import ArgumentParser
from typing import IO, cast

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from django_ray.management.asking import asking
from django_ray.management.terminal import keys, session, watch
from django_ray.management.terminal.view import Pane, View
from django_ray.readers import closer, live
from django_ray.readers.picture import Picture

INTERRUPTED = 130


class Command(BaseCommand):
    """Show a run live; the exit status is its outcome."""

    help = (
        "Watch a run until it ends. Exit status: 0 succeeded, 1 failed, timed out or "
        "lost, 2 cancelled, 3 not ended (left by q, or --once), 4 no such run or no "
        "database, 130 interrupted."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("id", type=uuid.UUID, help="what enqueue() returned as id")
        parser.add_argument(
            "--once", action="store_true", help="print one frame and exit"
        )
        parser.add_argument(
            "--view",
            type=Pane,
            choices=list(Pane),
            default=Pane.run,
            help="what is shown below the head; in a terminal a key changes it",
        )
        parser.add_argument(
            "--plain", action="store_true", help="plain lines, in a terminal too"
        )
        parser.add_argument(
            "--ascii", action="store_true", help="ASCII shapes: # X C / > : ."
        )

    def handle(
        self,
        *,
        id: uuid.UUID,
        once: bool,
        view: Pane,
        plain: bool,
        ascii: bool,
        **_: object,
    ) -> None:
        """Follow the run, then leave with its outcome."""
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
        screen = watch.Screen(console, unicode)
        draws = terminal and not console.is_dumb_terminal and not plain
        try:
            with asking(watch.NOT_THERE):
                if once:
                    last = self._once(id, screen, view)
                elif not draws:
                    last = watch.lines(
                        self._say, lambda: live.read(id), _wait, unicode=unicode
                    )
                elif sys.stdin.isatty():
                    last = self._at_the_keys(id, screen, view)
                else:
                    last = watch.live(screen, lambda: live.read(id), _wait)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        if last is None:
            raise CommandError("There is no such run.", returncode=watch.NOT_THERE)
        status = watch.exit_status(last)
        if status:
            raise SystemExit(status)

    def _once(
        self, public_id: uuid.UUID, screen: watch.Screen, pane: Pane
    ) -> Picture | None:
        view = View(pane=pane, has_keys=False)
        last = closer.read(public_id, session.look(view))
        if last is not None:
            screen.console.print(screen.draw(last, None if pane is Pane.run else view))
        return last

    def _at_the_keys(
        self, public_id: uuid.UUID, screen: watch.Screen, pane: Pane
    ) -> Picture | None:
        with keys.of(sys.stdin.fileno()) as typed, watch.in_place(screen.console) as at:
            return session.Session(
                read=lambda look: closer.read(public_id, look),
                show=lambda one, view: at.update(screen.draw(one, view), refresh=True),
                wait=typed.wait,
                now=time.monotonic,
                interval=watch.INTERVAL_S,
                view=View(pane=pane),
            ).follow()

    def _say(self, line: str) -> None:
        self.stdout.write(f"{line}\n")
        self.stdout.flush()


def _wait() -> None:
    time.sleep(watch.INTERVAL_S)
