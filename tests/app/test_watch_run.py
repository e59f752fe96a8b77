import io
import os
import pty
import sys
import uuid

import pytest
from django.core.management import CommandError, call_command

from django_ray.protocol.vocabulary import WorkflowState
from tests.app import pictures, stored

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments, stdout=None):
    out = stdout or io.StringIO()
    status = 0
    try:
        call_command("watch_run", str(pictures.PUBLIC_ID), *arguments, stdout=out)
    except SystemExit as left:
        status = left.code
    return status, "" if stdout else out.getvalue()


def make(state, **changes):
    row = stored.make_row(state=state, finished_at=pictures.NOW)
    outcome = WorkflowState(state)
    stored.report(row, state=outcome, terminal=ending(outcome), **changes)
    return row


def ending(outcome):
    return pictures.Terminal(derived=False, outcome=outcome, reason="")


@pytest.mark.parametrize(
    ("state", "status"),
    [("SUCCEEDED", 0), ("FAILED", 1), ("TIMED_OUT", 1), ("LOST", 1), ("CANCELLED", 2)],
)
def test_it_leaves_with_the_outcome(state, status):
    make(state)
    left, written = run()
    assert left == status
    assert f"rnaseq {state} rev=412" in written


def test_once_prints_one_frame_of_what_is_now():
    stored.report(stored.make_row())
    status, written = run("--once")
    assert status == 3
    assert written.count("rnaseq") == 1
    assert "✓ 120 succeeded" in written
    assert "\x1b" not in written


def test_ascii_is_ascii():
    stored.report(stored.make_row())
    _, written = run("--once", "--ascii")
    assert written.isascii()


def test_what_is_not_there_is_said():
    with pytest.raises(CommandError, match="no such run") as raised:
        call_command("watch_run", str(uuid.uuid4()), stdout=io.StringIO())
    assert raised.value.returncode == 4


def test_an_id_that_is_none_is_refused():
    with pytest.raises(CommandError):
        call_command("watch_run", "latest", stdout=io.StringIO())


def test_in_a_terminal_it_draws_a_frame(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    make("SUCCEEDED")
    master, slave = pty.openpty()
    try:
        with open(slave, "w", encoding="utf-8") as terminal:
            status, _ = run(stdout=terminal)
            written = os.read(master, 65_536).decode()
    finally:
        os.close(master)
    assert status == 0
    assert "✓ SUCCEEDED" in written
    assert "\x1b[?25l" in written


def at_the_keys(monkeypatch, typed, *arguments):
    """Watch with so much typed ahead; return the exit status and what was drawn."""
    monkeypatch.setenv("TERM", "xterm-256color")
    master, slave = pty.openpty()
    try:
        with (
            open(slave, "w", encoding="utf-8", closefd=False) as terminal,
            open(slave, encoding="utf-8") as keyboard,
        ):
            monkeypatch.setattr(sys, "stdin", keyboard)
            os.write(master, typed.encode())
            status, _ = run(*arguments, stdout=terminal)
            return status, os.read(master, 65_536).decode()
    finally:
        os.close(master)


def test_a_key_leaves_and_the_run_goes_on(monkeypatch):
    stored.report(stored.make_row())
    status, written = at_the_keys(monkeypatch, "q")
    assert status == 3
    assert "q quit" in written


def test_an_ended_run_can_be_looked_at_closer(monkeypatch):
    make("FAILED")
    status, written = at_the_keys(monkeypatch, "q", "--view", "failures")
    assert status == 1
    assert "FAILURES  1, counted" in written
    assert "Final" in written


def test_one_frame_of_a_closer_look_can_be_printed():
    make("FAILED")
    status, written = run("--once", "--view", "failures")
    assert status == 1
    assert "FAILURES  1, counted; none of them is kept with detail" in written
    assert "q quit" not in written


def test_plain_lines_can_be_asked_for_in_a_terminal():
    make("SUCCEEDED")
    master, slave = pty.openpty()
    try:
        with open(slave, "w", encoding="utf-8") as terminal:
            run("--plain", stdout=terminal)
            written = os.read(master, 65_536).decode()
    finally:
        os.close(master)
    assert "\x1b" not in written
    assert "rnaseq SUCCEEDED rev=412" in written
