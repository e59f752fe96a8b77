"""Which rows of which tables were applied: coverage of transitions, not of lines."""

import sys
from contextlib import contextmanager

from django_ray.lifecycle.callbacks import ANSWERS
from django_ray.lifecycle.commands import COMMANDS
from django_ray.lifecycle.deadlines import DEADLINES
from django_ray.lifecycle.settle import settle

TOOL = 4
"""An identifier that no debugger, coverage or profiler takes."""


def all_entries():
    """Return a name for every row under every key of the three tables."""
    return {name for rows, prefix in _tables() for name, _ in _named(rows, prefix)}


@contextmanager
def applied_rows():
    """Collect the names of the rows that are applied within."""
    names = {}
    for rows, prefix in _tables():
        for name, row in _named(rows, prefix):
            names.setdefault((id(row), prefix.partition(" ")[0]), name)
    found = set()

    def note(code, offset):
        values = sys._getframe(1).f_locals
        found.add(names_of(values["state"], values["row"]))

    def names_of(state, row):
        pending, invocation = state.pending, state.in_progress
        if pending is not None:
            for key in (f"deadline:{pending.kind}", f"answer:{pending.kind}"):
                if (id(row), key) in names:
                    return names[id(row), key]
        place = (
            f"idle:{state.state}" if invocation is None else f"busy:{invocation.state}"
        )
        return names[id(row), place]

    sys.monitoring.use_tool_id(TOOL, "rows")
    sys.monitoring.register_callback(TOOL, sys.monitoring.events.PY_START, note)
    sys.monitoring.set_local_events(
        TOOL, settle.__code__, sys.monitoring.events.PY_START
    )
    try:
        yield found
    finally:
        sys.monitoring.free_tool_id(TOOL)


def _tables():
    for kind, rows in DEADLINES.items():
        yield rows, f"deadline:{kind}"
    for kind, answers in ANSWERS.items():
        for callback, rows in answers.items():
            yield rows, f"answer:{kind} {callback}"
    for kind, requests in COMMANDS.items():
        for state, rows in requests.idle.items():
            yield rows, f"idle:{state} {kind}"
        for state, rows in requests.busy.items():
            yield rows, f"busy:{state} {kind}"


def _named(rows, prefix):
    for number, row in enumerate(rows, 1):
        yield f"{prefix} row {number}", row
