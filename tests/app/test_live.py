import threading
import uuid

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_ray.errors import StorageUnavailable
from django_ray.progress.rollup import Stages
from django_ray.protocol.frames import Failure as WireFailure
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, Fault
from django_ray.protocol.summary import Detail as Availability
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    NodeState,
    TruncationReason,
)
from django_ray.readers import context, live
from tests.app import pictures, stored

pytestmark = pytest.mark.django_db(transaction=True)

COUNTS = NodeCounts(failed=2, running=2, succeeded=30)
SUBSET = Availability(
    availability=DetailAvailability.TRUNCATED,
    complete=False,
    reasons=(TruncationReason.node_count_limit,),
)
"""Of a subset the rows need not be as many as the counts say."""


def make(counts=COUNTS, **changes):
    row = stored.make_row()
    stored.report(row, made={"counts": counts}, **{"detail": SUBSET, **changes})
    return row, stored.make_run(row)


def read():
    return live.read(pictures.PUBLIC_ID)


def failed(text="no", **changes):
    return Detail(
        state=NodeState.FAILED, error=Fault(kind="ValueError", text=text), **changes
    )


def at_work(started_ms, **changes):
    return Detail(state=NodeState.RUNNING, started_ms=started_ms, **changes)


def test_what_is_not_there_is_none():
    assert live.read(uuid.uuid4()) is None


def test_before_the_first_report_there_is_the_row_alone():
    stored.make_row()
    found = read()
    assert found.reading.summary is None
    assert found.stages == found.failures == found.running == ()


def test_the_failures_are_the_failed_nodes_newest_change_first():
    _, run = make()
    stored.add_node(run, 0, "old", failed("a", try_=3, ended_ms=9), revision=4)
    stored.add_node(run, 1, "fine", Detail(state=NodeState.SUCCEEDED), revision=6)
    stored.add_node(run, 2, "new", failed("b"), revision=5)
    found = read().failures
    assert [failure.node_id for failure in found] == ["new", "old"]
    assert (found[1].try_, found[1].ended_ms, found[1].kind) == (3, 9, "ValueError")
    assert found[0].ended_ms is None


@pytest.mark.parametrize(
    "number", [live.FAILURES - 1, live.FAILURES, live.FAILURES + 1]
)
def test_the_failures_are_bounded(number):
    _, run = make()
    for ordinal in range(number):
        stored.add_node(run, ordinal, f"n{ordinal}", failed())
    assert len(read().failures) == min(number, live.FAILURES)


def test_an_error_that_was_not_kept_says_so():
    _, run = make()
    detail = Detail(state=NodeState.FAILED, error=Fault(omitted="detail_size_limit"))
    stored.add_node(run, 0, "n", detail)
    stored.add_node(run, 1, "m", Detail(state=NodeState.FAILED))
    texts = {failure.text for failure in read().failures}
    assert texts == {"error not kept: detail_size_limit", "no error reported"}


def test_a_damaged_row_is_named_and_stops_nothing():
    _, run = make()
    stored.add_node(run, 0, "bad", failed(), record=b"{")
    stored.add_node(run, 1, "worse", at_work(5), record=b"[]")
    stored.add_node(run, 2, "good", at_work(7))
    found = read()
    assert [failure.kind for failure in found.failures] == ["CORRUPT"]
    assert [node.node_id for node in found.running] == ["good"]


def test_a_failure_that_is_not_kept_comes_from_the_stage_row():
    _, run = make()
    stages = Stages(V1)
    stages.add(stages.index("parse"), 0, retained=False)
    stages.failed(30_000, "far", WireFailure(kind="OSError", text="gone"))
    stored.add_stages(run, stages.encode())
    (found,) = read().failures
    assert (found.node_id, found.kind, found.text) == ("far", "OSError", "gone")


def test_the_nodes_at_work_come_longest_first_with_their_report():
    _, run = make()
    stored.add_node(run, 0, "short", at_work(900), stage=1)
    stored.add_node(
        run, 1, "long", at_work(300, host="h1", message="m", current=1, total=2.5)
    )
    stored.add_node(run, 2, "unstarted", Detail(state=NodeState.RUNNING))
    found = read().running
    assert [node.node_id for node in found] == ["long", "short"]
    assert (found[0].host, found[0].message) == ("h1", "m")
    assert (found[0].current, found[0].total) == (1, 2.5)
    assert found[1].stage == 1


def test_the_stages_are_those_of_the_stage_row():
    _, run = make()
    stages = Stages(V1)
    index = stages.index("parse")
    for _ in range(3):
        stages.add(index, 0, retained=True)
    stages.move(index, NodeState.PENDING, NodeState.RUNNING, 100)
    stages.started(index, 100)
    stages.move(index, NodeState.RUNNING, NodeState.SUCCEEDED, 400)
    stages.ended(index, 400, 100)
    stored.add_stages(run, stages.encode())
    (found,) = read().stages
    assert (found.index, found.label, found.first_start_ms) == (0, "parse", 100)
    assert found.counts == NodeCounts(pending=2, succeeded=1)
    assert found.longest_ms == 300


def test_a_damaged_stage_row_leaves_the_rest():
    _, run = make()
    stored.add_stages(run, b"{}")
    stored.add_node(run, 0, "n", failed())
    found = read()
    assert found.stages == ()
    assert len(found.failures) == 1


def test_another_run_of_the_execution_is_not_mixed_in():
    row, run = make()
    stored.add_node(run, 0, "first run's", failed())
    row.attempt_number, row.execution_generation, row.run_id = 2, 2, uuid.UUID(int=8)
    row.save()
    stored.report(row, made={"counts": COUNTS})
    assert read().failures == ()


def test_detail_that_is_gone_is_not_looked_for():
    gone = Availability(
        availability=DetailAvailability.EXPIRED, complete=False, reasons=()
    )
    _, run = make(detail=gone)
    stored.add_node(run, 0, "n", failed())
    assert read().failures == ()


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        (
            "builtins.RuntimeError",
            "Traceback (most recent call last):\n  File x\nRuntimeError: gone\n",
            "RuntimeError: gone",
        ),
        (
            "app.errors.Bad",
            "Traceback\napp.errors.Bad: one\ntwo\n",
            "app.errors.Bad: one",
        ),
        ("KeyError", "only this", "KeyError: only this"),
        ("OSError", "", "OSError"),
        ("", "", ""),
    ],
)
def test_an_ended_attempt_tells_the_line_of_its_error(kind, text, line):
    row = stored.make_row(state="FAILED")
    stored.add_attempt(row, kind, text)
    assert read().error == line


@pytest.mark.parametrize("further", [-1, 0, 1])
def test_only_the_end_of_a_long_traceback_is_read(further):
    row = stored.make_row(state="FAILED")
    end = "\nValueError: no"
    padding = "x" * (live.ERROR_CHARACTERS - len(end) + further)
    stored.add_attempt(row, "ValueError", padding + end)
    assert read().error == "ValueError: no"


def test_an_attempt_that_goes_on_has_no_error():
    row = stored.make_row()
    stored.add_attempt(row, "RuntimeError", "RuntimeError: earlier")
    assert read().error == ""


def test_the_statements_do_not_depend_on_the_nodes():
    _, run = make()
    numbers = []
    for ordinal in range(20):
        stored.add_node(run, ordinal, f"n{ordinal}", failed())
        if ordinal in (0, 19):
            with CaptureQueriesContext(connection) as queries:
                read()
            numbers.append(len(queries))
    assert numbers[0] == numbers[1] <= 8


def test_all_statements_see_one_snapshot():
    stored.make_row()
    with context.snapshot():
        before = live.reader.read_trusted(pictures.PUBLIC_ID)
        elsewhere = threading.Thread(target=_rename)
        elsewhere.start()
        elsewhere.join()
        after = live.reader.read_trusted(pictures.PUBLIC_ID)
    assert before.execution.queue_name == after.execution.queue_name == "default"
    assert read().reading.execution.queue_name == "other"


def _rename():
    from django_ray.models.executions import RayTaskExecution

    try:
        RayTaskExecution.objects.update(queue_name="other")
    finally:
        connection.close()


def test_a_snapshot_is_the_outermost_transaction():
    with transaction.atomic(), pytest.raises(RuntimeError):
        live.read(pictures.PUBLIC_ID)


def test_a_database_that_does_not_answer_is_unavailable_and_then_answers_again():
    stored.make_row()
    stored.break_connection()
    with pytest.raises(StorageUnavailable):
        read()
    assert read().reading.execution.queue_name == "default"
