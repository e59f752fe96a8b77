import uuid

import msgspec
import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ReportingPolicy,
)
from django_ray.readers import summary as reader
from tests.app import pictures, stored

pytestmark = pytest.mark.django_db


def read():
    return reader.read_trusted(pictures.PUBLIC_ID)


def drop_check():
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE django_ray_execution"
            " DROP CONSTRAINT django_ray_execution_summary_size"
        )


def test_a_reading_holds_the_row_and_its_summary():
    row = stored.make_row()
    written = stored.report(row)
    stored.add_lease(row)
    found = read()
    assert found.summary == written
    assert found.availability is DetailAvailability.AVAILABLE
    assert found.execution.pk == row.pk
    assert found.execution.state is ExecutionState.RUNNING
    assert found.execution.policy is ReportingPolicy.full
    assert found.execution.lease_expires_at > found.read_at


def test_what_is_not_there_is_none():
    assert reader.read_trusted(uuid.uuid4()) is None


def test_a_viewer_without_the_right_reads_none():
    stored.make_row()
    assert reader.read(pictures.PUBLIC_ID, AnonymousUser()) is None


def test_a_viewer_with_the_right_reads_what_an_operator_reads():
    stored.report(stored.make_row())
    root = User.objects.create_superuser("root")
    assert reader.read(pictures.PUBLIC_ID, root).summary == read().summary


def test_a_reading_is_one_statement_that_selects_no_legacy_data():
    stored.report(stored.make_row(progress_data="{}"))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        read()
    assert len(queries) == 1
    statement = queries[0]["sql"].lower()
    asked = "e.progress_data is not null"
    assert "progress_data" not in statement.replace(asked, "")
    assert "octet_length" in statement


@pytest.mark.parametrize("options", [{}, {"policy": "unheard of"}, {"policy": None}])
def test_an_execution_without_run_lease_and_known_policy_is_read(options):
    stored.make_row(state="QUEUED", options=options, run_id=None)
    found = read()
    assert found.execution.policy is None
    assert found.execution.run_id is None
    assert found.execution.lease_expires_at is None


def test_before_the_first_report_the_detail_is_not_reported():
    stored.make_row()
    assert read().availability is DetailAvailability.NOT_REPORTED


def test_under_the_policy_disabled_the_detail_is_disabled():
    stored.make_row(options={"policy": "disabled"})
    assert read().availability is DetailAvailability.DISABLED


def test_the_summary_of_an_earlier_run_is_not_the_current_ones():
    row = stored.make_row()
    stored.report(row)
    claim_again(row)
    found = read()
    assert found.summary is None
    assert found.availability is DetailAvailability.NOT_REPORTED


def claim_again(row):
    row.attempt_number += 1
    row.execution_generation += 1
    row.run_id = uuid.UUID(int=9)
    row.save()


@pytest.mark.parametrize(
    "changes",
    [
        {"task_execution_pk": 1_000_000},
        {"attempt_number": 2},
        {"execution_generation": 2},
        {"run_id": str(uuid.UUID(int=9))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_summary_that_no_run_of_the_execution_can_have_made_is_corrupt(changes):
    row = stored.make_row()
    run = stored.report(row).run
    stored.report(row, run=msgspec.structs.replace(run, **changes))
    found = read()
    assert found.summary is None
    assert found.availability is DetailAvailability.CORRUPT


@pytest.mark.parametrize("size", [V1.summary - 1, V1.summary, V1.summary + 1])
def test_bytes_that_are_no_summary_are_corrupt_at_any_size(size):
    drop_check()
    stored.make_row(progress_summary=b"x" * size)
    found = read()
    assert found.summary is None
    assert found.availability is DetailAvailability.CORRUPT


def test_an_oversized_summary_never_leaves_the_database():
    drop_check()
    row = stored.make_row()
    written = stored.report(row)
    padded = bytes(row.progress_summary) + b" " * V1.summary
    row.progress_summary = padded
    row.save()
    assert written.revision
    assert read().availability is DetailAvailability.CORRUPT
