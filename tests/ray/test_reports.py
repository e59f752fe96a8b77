"""A worker process's way to its collectors."""

import threading
import uuid

import pytest

from actors import reports
from django_ray.protocol import frames
from tests.ray.conftest import wait_until


@pytest.mark.ray
def test_a_leaf_without_a_collector_runs_all_the_same(ray_cluster):
    handle = reports.LateHandle(str(uuid.uuid4()), 1)

    ticket = handle.send(b"frame")

    assert handle.poll([ticket], 0.0) == [(ticket, None)]


def run_of(number):
    return reports.encode(reports.Run(str(uuid.UUID(int=number)), 1, (), 1))


def test_a_process_keeps_the_reports_of_eight_runs():
    first = reports.of(run_of(0))
    others = [reports.of(run_of(number)) for number in range(1, reports.RUNS)]
    assert reports.of(run_of(0)) is first
    assert [reports.of(run_of(n)) for n in range(1, reports.RUNS)] == others

    reports.of(run_of(reports.RUNS))

    assert reports.of(run_of(0)) is not first


def test_the_run_that_was_not_used_for_longest_is_given_up():
    first, second = reports.of(run_of(200)), reports.of(run_of(201))
    for number in range(202, 200 + reports.RUNS):
        reports.of(run_of(number))

    assert reports.of(run_of(200)) is first
    reports.of(run_of(200 + reports.RUNS))

    assert reports.of(run_of(200)) is first
    assert reports.of(run_of(201)) is not second


class Found:
    """A collector's handle whose calls all fail."""

    def send(self, frame):
        return frame

    def poll(self, tickets, timeout_s):
        return [(ticket, None) for ticket in tickets]


def test_a_collector_that_was_there_and_is_not_is_gone():
    answers = [None, Found(), Found(), None]
    handle = reports.LateHandle("run", 1, lambda *_: answers.pop(0))

    never = handle.send(b"1")
    assert handle.poll([never], 0) == [(never, None)]
    for frame in (b"2", b"3"):
        assert handle.send(frame) == frame
        assert handle.poll([frame], 0) == [(frame, None)]

    assert handle.send(b"4") is None


def test_a_run_whose_collector_is_gone_is_forgotten(monkeypatch):
    answers = [Found(), None]
    monkeypatch.setattr(reports, "LateHandle", late(answers))
    lost = reports.of(run_of(300))
    lost.producer.event(frames.Event(0, "kind", None, ""))
    wait_until(lambda: lost.producer.gone, 10)
    monkeypatch.undo()

    assert reports.of(run_of(300)) is not lost


def late(answers):
    def make(run_id, generation):
        return original(run_id, generation, lambda *_: answers.pop(0))

    original = reports.LateHandle
    return make


def test_threads_share_the_reports_of_a_run():
    found = []
    run = run_of(99)
    threads = [
        threading.Thread(target=lambda: found.append(reports.of(run))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(map(id, found))) == 1
