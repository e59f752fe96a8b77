import datetime as dt
import uuid

import pytest

from django_ray.errors import InvalidCursor, ReadError
from django_ray.models.executions import RayTaskExecution
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability, ExecutionState
from django_ray.readers.runs import LOOKED_AT, RunsQuery
from django_ray.readers.services import runs
from tests.app import pictures, published, stored

pytestmark = pytest.mark.django_db(transaction=True)


def make(count, **changes):
    """Store executions, the first one newest; three share each time."""
    return RayTaskExecution.objects.bulk_create(
        RayTaskExecution(
            **{
                "public_id": uuid.uuid4(),
                "task_path": "science.tasks.rnaseq",
                "backend": "default",
                "queue_name": "default",
                "state": "QUEUED",
                "enqueued_at": pictures.NOW - dt.timedelta(microseconds=n // 3),
                **changes,
            }
        )
        for n in range(count)
    )


def every(viewer, **asked):
    def read(query):
        return runs(viewer, query)

    found, pages = published.every(read, RunsQuery, **asked)
    return [row.execution.id for row in found], pages


def ids(rows):
    ordered = sorted(rows, key=lambda row: (row.enqueued_at, row.pk), reverse=True)
    return [row.public_id for row in ordered]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 256])
def test_every_execution_is_listed_once_newest_first(root, limit):
    rows = make(10)
    found, pages = every(root, limit=limit)
    assert found == ids(rows)
    assert pages == -(-10 // limit)


def test_newer_executions_do_not_move_the_older_ones(root):
    rows = make(6)
    first = runs(root, RunsQuery(limit=3))
    make(5, enqueued_at=pictures.NOW + dt.timedelta(seconds=1))
    second = runs(root, RunsQuery(limit=3, cursor=first.next_cursor))
    assert [row.execution.id for row in (*first.items, *second.items)] == ids(rows)


def test_a_row_tells_how_far_its_run_is(root):
    row = stored.make_row()
    stored.report(row)
    make(1)
    untold, told = runs(root, RunsQuery()).items
    assert (told.percent, told.revision, told.route) == (
        61,
        412,
        f"runs/{row.public_id}/",
    )
    assert told.node_counts == pictures.COUNTS
    assert untold.percent is None
    assert untold.detail.availability is DetailAvailability.NOT_REPORTED


def test_filters_hold_together(root):
    wanted = make(
        2, state="FAILED", queue_name="mine", task_path="science.tasks.montage"
    )
    make(2, state="FAILED", queue_name="mine")
    make(2, state="FAILED", task_path="science.tasks.montage")
    make(2, queue_name="mine", task_path="science.tasks.montage")
    failed = (ExecutionState.FAILED, ExecutionState.RUNNING)
    found, _ = every(root, state=failed, queue="mine", prefix="mont")
    assert found == ids(wanted)


@pytest.mark.parametrize("prefix", ["%", "science", "tasks", "ontage", "."])
def test_a_prefix_is_of_the_tasks_own_name(root, prefix):
    make(1, task_path="science.tasks.montage")
    assert runs(root, RunsQuery(prefix=prefix)).items == ()


def test_a_search_text_with_control_characters_is_refused(root):
    for query in (RunsQuery(prefix="a\x00"), RunsQuery(queue="a\x00")):
        with pytest.raises(ReadError):
            runs(root, query)


def test_nobody_sees_nothing(root):
    make(3)
    page = runs(published.nobody(), RunsQuery())
    assert (page.items, page.next_cursor) == ((), None)


@pytest.mark.parametrize("others", [0, 1, LOOKED_AT - 1, LOOKED_AT, LOOKED_AT + 1, 600])
def test_one_sees_all_of_ones_own_among_any_number_of_others(settings, others):
    settings.DJANGO_RAY = {"ACCESS_POLICY": "tests.app.policies.of_queue_mine"}
    newest = make(1, queue_name="mine", enqueued_at=pictures.NOW + dt.timedelta(1))
    make(others)
    oldest = make(2, queue_name="mine", enqueued_at=pictures.NOW - dt.timedelta(1))
    found, pages = every(published.nobody(), limit=2)
    assert found == ids(newest + oldest)
    assert pages <= 2 + others // LOOKED_AT + 1


def test_a_cursor_names_no_execution(settings):
    settings.DJANGO_RAY = {"ACCESS_POLICY": "tests.app.policies.of_queue_mine"}
    make(300)
    cursor = runs(published.nobody(), RunsQuery()).next_cursor
    payload = published.helpers.msgspec.json.decode(
        stored_b64(cursor.rpartition(":")[0])
    )
    micros = int(pictures.NOW.timestamp()) * 10**6 - (LOOKED_AT - 1) // 3
    assert payload[-2] == [micros, 1]
    assert payload[2] == str(uuid.UUID(int=0))


def stored_b64(text):
    from django.core.signing import b64_decode

    return b64_decode(text.encode())


def test_a_cursor_is_bound_to_viewer_filters_and_limit(root):
    make(5)
    cursor = runs(root, RunsQuery(limit=2)).next_cursor
    other = published.User.objects.create_superuser("other")
    for viewer, asked in (
        (other, {"limit": 2}),
        (root, {"limit": 3}),
        (root, {"limit": 2, "queue": "default"}),
        (root, {"limit": 2, "state": (ExecutionState.QUEUED,)}),
    ):
        with pytest.raises(InvalidCursor):
            runs(viewer, RunsQuery(cursor=cursor, **asked))


def test_a_page_of_large_rows_stays_within_its_bytes(root):
    rows = make(256, task_path="あ" * 512, queue_name="あ" * 64)
    page = runs(root, RunsQuery(limit=256))
    assert len(canonical.encode(page)) <= V1.response_encoded
    assert 0 < page.returned < 256
    found, _ = every(root, limit=256)
    assert found == ids(rows)
