"""Prints `lifecycle.md` from the reducer's tables: `python docs/reference/lifecycle.py`."""

from collections.abc import Iterator
from pathlib import Path

from django_ray.lifecycle.actions import ISSUES
from django_ray.lifecycle.callbacks import ANSWERS
from django_ray.lifecycle.commands import COMMANDS
from django_ray.lifecycle.deadlines import DEADLINES
from django_ray.lifecycle.results import REJECTIONS
from django_ray.lifecycle.shape import SHAPES
from django_ray.lifecycle.tables import Row, Rows
from django_ray.lifecycle.terms import CAPACITY, MAXIMUM_OUTPUTS, PROTOCOL_VERSION
from django_ray.lifecycle.vocabulary import (
    OPEN_OUTPUTS,
    REUSE_SAFE_OUTPUTS,
    ActionKind,
    InvocationState,
    OutputState,
    SessionState,
)

PAGE = Path(__file__).with_suffix(".md")

HEAD = f"""\
# The compiled lifecycle

Printed from the reducer's tables by `docs/reference/lifecycle.py`; a test says when it is
stale. Protocol version {PROTOCOL_VERSION}. What an adapter does with it is told in
[how to write an adapter](../howto/write-an-adapter.md).

A row says what an event changes; what it does not name stays. An outcome is set only where
none stands. *idle* means that no invocation is in progress: none was admitted yet, or the
last one is TERMINAL.

"""

DEADLINE_NOTE = """\
The outcome is OUTER_DEADLINE where `outer` is not later than the stage's deadline, and the
row's otherwise. A callback observed at or after its action's deadline counts as that
deadline, whatever it says. An action that is issued when its deadline has passed is not
dispatched: it expires at once.

"""

COMMAND_NOTE = """\
A command in any other state is INVALID_TRANSITION. One that is accepted at or after `outer`
counts as OUTER_DEADLINE_EXPIRED, except OWNER_LOST, whose outcome is OUTER_DEADLINE then,
and TEARDOWN_REQUESTED in QUARANTINED. While an action is pending, OUTER_DEADLINE_EXPIRED
counts as that action's deadline; CANCELLATION_REQUESTED and OWNER_LOST are heard too, and
drop the action unless the row says that it goes on; all others are ACTION_IN_PROGRESS.
Whatever is accepted at or after `outer` closes admission and fallback.

A command that issues an action needs a token for it. Validation, preparation and admission
are refused with ACTION_SEQUENCE_EXHAUSTED while fewer than 128 are left.

"""


def page() -> str:
    """Return the whole page."""
    parts = [
        HEAD,
        "## The session\n\n",
        diagram(session_edges()),
        "## The invocation\n\n",
        diagram(invocation_edges()),
        "## Actions\n\n",
        table(
            ("action", "until", "of the", "session", "invocation", "graph"), actions()
        ),
        "An action's deadline is the smaller of its stage's and `outer`.\n\n",
        "## Commands\n\n",
        COMMAND_NOTE,
        table(("command", "accepted when", "next", "issues"), commands()),
        "## Callbacks\n\n",
        table(("pending", "callback", "next", "issues"), callbacks()),
        "## Deadlines\n\n",
        DEADLINE_NOTE,
        table(("pending", "next", "issues"), deadlines()),
        "## Outputs\n\n",
        table(("slot", "may be left", "reuse-safe"), outputs()),
        f"An invocation declares 1 to {MAXIMUM_OUTPUTS} outputs.\n\n",
        "## Capacity\n\n",
        table(("field", "only value"), ((k, str(v)) for k, v in CAPACITY.items())),
        "## Rejections\n\n",
        table(
            ("code", "meaning"),
            ((code, rejection.message) for code, rejection in REJECTIONS.items()),
        ),
    ]
    return "".join(parts).rstrip() + "\n"


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a Markdown table, and an empty line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def told(row: Row) -> str:
    """Return what a row changes, in words."""
    words = [
        ("session", row.session),
        ("invocation", row.invocation),
        ("outcome", row.outcome),
        ("with it retry", row.brings),
        ("effect", row.effect),
        ("retry", row.retry),
        ("graph", row.graph),
        ("open slots", row.open_outputs),
        ("its slot", row.claimed_output),
        ("code", row.code),
    ]
    said = [f"{name} {value}" for name, value in words if value is not None]
    if row.admits:
        said.insert(0, "a new invocation, outcome and codes empty, its slots DECLARED")
    if row.closes_admission:
        said.append("admission closed")
    if row.closes_fallback:
        said.append("fallback closed")
    if row.keeps:
        said.append("the pending action goes on")
    return "; ".join(said) or "-"


def guarded(row: Row) -> str:
    """Return the guard of a row, as a clause."""
    return "" if row.when is None else f", {row.when.__doc__}"


def issued(row: Row) -> str:
    """Return the action that a row issues."""
    return row.issues or "-"


def actions() -> Iterator[tuple[str, ...]]:
    """Yield the table of actions."""
    for kind, issue in ISSUES.items():
        yield (
            kind,
            issue.stage,
            "invocation" if issue.own else "session",
            issue.session or "-",
            issue.invocation or "-",
            issue.graph or "-",
        )


def commands() -> Iterator[tuple[str, ...]]:
    """Yield table 2, states with equal rows together."""
    for kind, requests in COMMANDS.items():
        for prefix, places in (("idle, session", requests.idle), ("", requests.busy)):
            grouped: dict[Rows, list[str]] = {}
            for state, rows in places.items():
                grouped.setdefault(rows, []).append(state)
            for rows, states in grouped.items():
                for row in rows:
                    where = f"{prefix} {', '.join(states)}{guarded(row)}".strip()
                    yield kind, where, told(row), issued(row)


def callbacks() -> Iterator[tuple[str, ...]]:
    """Yield table 3."""
    for kind, answers in ANSWERS.items():
        for callback, rows in answers.items():
            if not rows:
                yield kind, callback, "as its deadline", "-"
            for row in rows:
                yield kind, f"{callback}{guarded(row)}", told(row), issued(row)
        yield kind, "DEADLINE_EXPIRED", "as its deadline", "-"


def deadlines() -> Iterator[tuple[str, ...]]:
    """Yield table 4."""
    for kind, rows in DEADLINES.items():
        for row in rows:
            yield f"{kind}{guarded(row)}", told(row), issued(row)


def outputs() -> Iterator[tuple[str, ...]]:
    """Yield what each state of a slot allows."""
    for state in OutputState:
        yield (
            state,
            "yes" if state in OPEN_OUTPUTS else "no, it is terminal",
            "yes" if state in REUSE_SAFE_OUTPUTS else "no",
        )


type Edge = tuple[str, str, str]


def diagram(edges: Iterator[Edge]) -> str:
    """Return a state diagram, one line for each pair of states."""
    labels: dict[tuple[str, str], list[str]] = {}
    for source, target, label in edges:
        found = labels.setdefault((source, target), [])
        if label not in found:
            found.append(label)
    lines = [
        f"    {source} --> {target}: {'<br>'.join(label)}\n"
        for (source, target), label in labels.items()
    ]
    return "```mermaid\nstateDiagram-v2\n" + "".join(lines) + "```\n\n"


def session_edges() -> Iterator[Edge]:
    """Yield every change of the session's state."""
    yield "[*]", SessionState.NEW, "initial_session"
    for state, label, row in rows_by_session():
        issue = None if row.issues is None else ISSUES[row.issues]
        target = (issue and issue.session) or row.session or state
        if target is not state:
            yield state, target, label
    for state in (SessionState.REJECTED, SessionState.TORN_DOWN):
        yield state, "[*]", "no event is accepted"


def rows_by_session() -> Iterator[tuple[SessionState, str, Row]]:
    """Yield every row with every session state in which it can be applied."""
    for session, invocation, pending in SHAPES:
        idle = invocation in (InvocationState.NONE, InvocationState.TERMINAL)
        for kind, requests in COMMANDS.items():
            rows = (
                requests.idle.get(session, ())
                if idle
                else requests.busy.get(invocation, ())
            )
            yield from ((session, kind.value, row) for row in rows)
        if pending is not None:
            for label, row in rows_of(pending):
                yield session, label, row


def invocation_edges() -> Iterator[Edge]:
    """Yield every change of the invocation's state."""
    yield InvocationState.NONE, InvocationState.ADMITTING, "ADMISSION_REQUESTED"
    yield InvocationState.TERMINAL, InvocationState.ADMITTING, "ADMISSION_REQUESTED"
    for _, state, pending in SHAPES:
        if state in (InvocationState.NONE, InvocationState.TERMINAL):
            continue
        told_rows = [
            (kind.value, row)
            for kind, requests in COMMANDS.items()
            for row in requests.busy.get(state, ())
        ]
        if pending is not None:
            told_rows += rows_of(pending)
        for label, row in told_rows:
            issue = None if row.issues is None else ISSUES[row.issues]
            target = row.invocation or state
            if target is not InvocationState.TERMINAL and issue is not None:
                target = issue.invocation or target
            if target is not state:
                yield state, target, label


def rows_of(pending: ActionKind) -> Iterator[tuple[str, Row]]:
    """Yield what can become of a pending action: its callbacks, then its deadline."""
    for callback, rows in ANSWERS[pending].items():
        for row in rows:
            yield callback.value, row
    for row in DEADLINES[pending]:
        yield f"deadline of {pending}", row


if __name__ == "__main__":
    PAGE.write_text(page())
