"""A module that cannot be imported, and not because something is missing."""

raise ZeroDivisionError
