"""A worker process's way to its collectors."""

import threading
import uuid

import pytest

from actors import reports


@pytest.mark.ray
def test_a_leaf_without_a_collector_runs_all_the_same(ray_cluster):
    handle = reports.LateHandle(str(uuid.uuid4()), 1)

    ticket = handle.send(b"frame")

    assert handle.poll([ticket], 0.0) == [(ticket, None)]


def run_of(number):
    return reports.encode(reports.Run(str(uuid.UUID(int=number)), 1, ()))


def test_a_process_keeps_the_reports_of_eight_runs():
    first = reports.of(run_of(0))
    for number in range(1, reports.RUNS):
        reports.of(run_of(number))
    assert reports.of(run_of(0)) is first

    reports.of(run_of(reports.RUNS))

    assert reports.of(run_of(0)) is not first


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
