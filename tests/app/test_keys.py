import os
import pty
import termios
import time

import pytest

from django_ray.management.terminal import keys


@pytest.fixture
def terminal():
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("fq", ["f", "q"]),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        ("\x1bOA\x1b[5~\x1b[6~", ["up", "page up", "page down"]),
        ("\r\n\x7f\x08", ["enter", "enter", "backspace", "backspace"]),
        ("\x1b", ["escape"]),
        ("\x1bf", ["escape", "f"]),
        ("\x1b[1;5Cx", ["x"]),
        ("\x1b[", []),
        ("\x00\x07\x9bé測", ["é", "測"]),
        ("", []),
    ],
)
def test_bytes_of_a_terminal_are_keys(typed, found):
    assert list(keys.parse(typed)) == found


def test_a_key_comes_as_it_is_pressed_and_is_not_echoed(terminal):
    master, slave = terminal
    with keys.of(slave) as typed:
        assert typed.wait(0) == []
        os.write(master, "fé".encode()[:2])
        assert typed.wait(1) == ["f"]
        os.write(master, "é".encode()[1:])
        assert typed.wait(1) == ["é"]
        assert not termios.tcgetattr(slave)[3] & (termios.ECHO | termios.ICANON)


def test_the_terminal_is_left_as_it_was(terminal):
    _, slave = terminal
    before = termios.tcgetattr(slave)
    with pytest.raises(KeyboardInterrupt), keys.of(slave):
        raise KeyboardInterrupt
    assert termios.tcgetattr(slave) == before


def test_at_the_end_of_its_input_it_only_waits():
    reading, writing = os.pipe()
    os.close(writing)
    try:
        typed = keys.Keys(reading)
        assert typed.wait(1) == []
        begun = time.monotonic()
        assert typed.wait(0.02) == []
        assert time.monotonic() - begun >= 0.02
    finally:
        os.close(reading)
