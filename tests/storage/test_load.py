"""Begin: the run row, and the epoch that refuses every earlier writer."""

from dataclasses import replace

import pytest

from django_ray.errors import IntegrityFault, StorageUnavailable
from django_ray.progress.delta import Fenced, Revisions
from django_ray.storage.load import Begun, begin
from tests.storage import helpers
from tests.storage.helpers import Book, await_blocked, hook, picture


def test_the_first_writer_makes_the_run_row(conn, admin):
    identity = helpers.execution(conn)
    begun = begin(conn, identity, 3)
    stored = admin.execute(
        "SELECT id, execution_id, attempt_number, execution_generation, run_id::text, "
        "writer_epoch, retention_days FROM django_ray_run"
    ).fetchone()
    assert begun == Begun(
        run_pk=stored[0], writer_epoch=1, revisions=Revisions(), rows=0, bytes=0,
        manifest_id=None,
    )  # fmt: skip
    assert stored[1:] == (
        identity.task_execution_pk, 2, 3, identity.run_id, 1, 3
    )  # fmt: skip


def test_a_later_writer_continues_from_the_row(conn, admin):
    book = Book.loaded(conn, 4)
    book.commit(conn, book.publication({1: "RUNNING"}))
    begun = begin(conn, book.identity, 3)
    rows, size = admin.execute(
        "SELECT count(*), sum(octet_length(record)) FROM django_ray_node_detail"
    ).fetchone()
    assert begun == Begun(
        run_pk=book.begun.run_pk, writer_epoch=2, revisions=book.base, rows=rows,
        bytes=size, manifest_id=book.manifest_id,
    )  # fmt: skip


def test_a_later_writer_keeps_the_retention_of_the_first(conn, admin):
    identity = helpers.execution(conn)
    begin(conn, identity, 3)
    begin(conn, identity, 30)
    assert admin.execute("SELECT retention_days FROM django_ray_run").fetchone() == (3,)


@pytest.mark.parametrize(
    "field", ["task_execution_pk", "attempt_number", "execution_generation"]
)
def test_begin_compares_each_number_of_the_identity(conn, admin, field):
    identity = helpers.execution(conn)
    stale = replace(identity, **{field: getattr(identity, field) + 1_000})
    assert begin(conn, stale, 7) == Fenced("task")
    assert picture(admin)["run"] == []


def test_begin_compares_the_run_id(conn, admin):
    identity, other = helpers.execution(conn), helpers.execution(conn)
    assert begin(conn, replace(identity, run_id=other.run_id), 7) == Fenced("task")
    assert picture(admin)["run"] == []


@pytest.mark.parametrize(
    "state",
    [
        *("QUEUED", "CLAIMED", "RETRY_WAIT", "RECONCILE", "SUCCEEDED"),
        *("FAILED", "CANCELLED", "TIMED_OUT", "LOST"),
    ],
)
def test_begin_of_a_run_that_is_not_running_is_fenced(conn, admin, state):
    identity = helpers.execution(conn, state)
    assert begin(conn, identity, 7) == Fenced("task")
    assert picture(admin)["run"] == []


@pytest.mark.parametrize(
    ("days", "fits"), [(-1, False), (0, True), (30, True), (31, False)]
)
def test_retention_is_0_to_30_days(conn, admin, days, fits):
    identity = helpers.execution(conn)
    if fits:
        assert isinstance(begin(conn, identity, days), Begun)
    else:
        with pytest.raises(IntegrityFault):
            begin(conn, identity, days)


def test_a_run_row_of_the_same_attempt_under_another_id_is_refused(
    conn, admin, unaudited
):
    identity = helpers.execution(conn)
    begin(conn, identity, 7)
    unaudited.append("the run has another id")
    admin.execute("UPDATE django_ray_run SET run_id = gen_random_uuid()")
    before = picture(admin)
    with pytest.raises(IntegrityFault):
        begin(conn, identity, 7)
    assert picture(admin) == before


@pytest.mark.parametrize("at", [0, 1, 2])
def test_begin_killed_between_statements_leaves_nothing(conn, connect, admin, kill, at):
    identity = helpers.execution(conn)
    dying, before = hook(connect(), at, kill), picture(admin)
    with pytest.raises(StorageUnavailable):
        begin(dying, identity, 7)
    assert picture(admin) == before


def test_two_writers_that_begin_at_once_get_two_epochs(conn, connect, admin, aside):
    identity, second = helpers.execution(conn), connect()
    epochs = []

    def race(_):
        waiting.append(aside(begin, second, identity, 7))
        await_blocked(admin, second)

    waiting = []
    epochs.append(begin(hook(conn, 2, race), identity, 7).writer_epoch)
    epochs.append(waiting[0].result().writer_epoch)
    assert epochs == [1, 2]
