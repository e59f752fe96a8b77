"""Writes lines of a given width; every text it writes passes the terminal-safe filter."""

from dataclasses import dataclass

from rich.text import Text

from django_ray.management.terminal import safe
from django_ray.management.terminal.shapes import Part


@dataclass(frozen=True, slots=True)
class Pen:
    """A width, and whether the terminal shows more than ASCII."""

    width: int
    unicode: bool

    def line(self, *parts: Part) -> Text:
        """Return one line, cut to the width with a mark where it is too long."""
        line = Text(no_wrap=True, overflow="crop")
        clean = [(safe.clean(value), style) for value, style in parts]
        whole = "".join(value for value, _ in clean).rstrip()
        cut = safe.fit(whole, self.width)
        for value, style in clean:
            piece, cut = cut[: len(value)], cut[len(value) :]
            written = piece if self.unicode else safe.narrow(piece)
            line.append(written, style=style or None)
        return line

    def rule(self) -> Text:
        """Return a line across the whole width."""
        return self.line(("─" * self.width, "bright_black"))
