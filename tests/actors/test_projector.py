"""Whatever a projector does, its leaf has its value and says why there is no preview."""

import json
import logging
import os
import sys
import threading

import pytest

from actors.projector import Projector, of
from django_ray.protocol.redaction import Redactor

REDACTOR = Redactor(())
SECRET = "hunter2-of-the-projectors"

stuck = threading.Event()
calls = []
said = {}


def rows(output):
    calls.append(output)
    return {"rows": len(output)}


def note_the_thread(output):
    said.update(thread=threading.current_thread())


def fail(_output):
    raise ValueError(f"password={SECRET}")


def interrupt(_output):
    raise KeyboardInterrupt


def recur(output):
    return recur(output)


def leave(_output):
    sys.exit(3)


def be_stuck(output):
    calls.append(output)
    stuck.wait()
    return output


def self_containing(_output):
    made = []
    made.append(made)
    return made


@pytest.fixture(autouse=True)
def fresh():
    calls.clear()
    stuck.clear()
    yield
    stuck.set()


def project(name, output=(1, 2), patience_s=60.0):
    made = Projector(f"{__name__}.{name}", patience_s)
    return json.loads(made.preview(output, REDACTOR))


def test_a_projector_is_given_the_output_itself():
    output = [1, 2, 3]
    assert project("rows", output) == {"rows": 3}
    assert calls[0] is output


def test_a_projector_runs_in_a_thread_of_its_own():
    assert project("note_the_thread") is None
    assert said["thread"] is not threading.current_thread()
    assert said["thread"].daemon


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fail", "preview_raised"),
        ("recur", "preview_raised"),
        ("leave", "preview_raised"),
        ("interrupt", "preview_raised"),
        ("self_containing", "preview_nesting"),
        ("not_there", "preview_unavailable"),
        ("calls", "preview_raised"),
    ],
)
def test_a_projector_that_makes_none_leaves_a_marker(name, reason):
    assert project(name) == {"omitted": reason}


@pytest.mark.parametrize("source", ["raise ValueError", "import sys; sys.exit(3)", "("])
def test_a_module_that_cannot_be_imported_costs_the_preview_alone(
    tmp_path, monkeypatch, source
):
    (tmp_path / "projectors_of_a_test.py").write_text(source)
    monkeypatch.syspath_prepend(os.fspath(tmp_path))
    made = Projector("projectors_of_a_test.head", 60.0)

    for _ in range(2):
        marker = json.loads(made.preview(1, REDACTOR))
        assert marker == {"omitted": "preview_unavailable"}


def test_a_slow_projector_is_left_behind_and_not_run_again():
    made = Projector(f"{__name__}.be_stuck", 0.01)

    markers = [json.loads(made.preview(each, REDACTOR)) for each in range(3)]

    assert markers == [{"omitted": "preview_slow"}] * 3
    assert calls == [0]


def test_without_a_thread_there_is_a_marker(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert project("rows") == {"omitted": "preview_no_thread"}


def test_each_reason_is_logged_once_by_the_class_of_its_error(caplog):
    made = Projector(f"{__name__}.fail", 60.0)
    with caplog.at_level(logging.WARNING):
        made.preview(1, REDACTOR)
        made.preview(2, REDACTOR)

    (record,) = caplog.records
    assert "preview_raised (ValueError)" in record.getMessage()
    assert SECRET not in record.getMessage()


def test_a_process_has_one_projector_of_a_path():
    assert of("builtins.len") is of("builtins.len")
    assert of("builtins.len") is not of("builtins.max")
