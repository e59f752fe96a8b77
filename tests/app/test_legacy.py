"""Snapshots of schemas 1 and 2: aggregates within bounds, whatever the bytes are."""

import dataclasses
import json
import tracemalloc
import uuid

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from django_ray.errors import IntegrityFault
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import legacy, public
from django_ray.readers import summary as reader
from django_ray.readers.legacy import PART
from django_ray.readers.picture import Legacy, Oversized
from django_ray.readers.public import LegacyBody, SummaryQuery
from django_ray.web import api
from django_ray.web.endpoints import ENDPOINTS
from tests import recording
from tests.app import pictures, stored

pytestmark = pytest.mark.django_db

EXECUTION = pictures.make_reading(summary=None).execution


def identity(**changes):
    return {
        "schema_version": 1,
        "run_id": str(EXECUTION.run_id),
        "task_execution_pk": EXECUTION.pk,
        "attempt_number": EXECUTION.attempt_number,
        "execution_generation": EXECUTION.execution_generation,
        **changes,
    }


def node(number, dependencies=()):
    return {
        "node_id": f"square[{number}]",
        "kind": "task",
        "label": "square",
        "callable_path": "science.tasks.square",
        "dependencies": list(dependencies),
        "state": "SUCCEEDED" if number < 3 else "RUNNING",
        "progress": {"current": 3, "total": 10, "percent": 30},
        "execution": {"worker": "10.0.0.7", "pid": 4711},
    }


def snapshot(schema=2, **changes):
    """Return a snapshot as the older writers composed it."""
    body = {
        "schema_version": schema,
        "workflow_id": "rnaseq",
        "revision": 17,
        "state": "RUNNING",
        "progress_percent": 60.5,
        "updated_at": 1780000000.25,
        "total_nodes": 5,
        "completed_nodes": 3,
        "failed_nodes": 0,
        "running_nodes": 1,
        "pending_nodes": 1,
        "graph": {
            "nodes": [node(number, ["square[0]"][:number]) for number in range(5)],
            "edges": [
                {"source": "square[0]", "target": f"square[{number}]"}
                for number in range(1, 5)
            ],
        },
        "recent_events": [{"at": 1779999999.5, "kind": "NODE", "text": "secret"}],
    }
    if schema == 2:
        body["run_identity"] = identity()
    return {**body, **changes}


def bytes_of(**changes):
    return json.dumps(snapshot(**changes)).encode()


def decode(data, *, superseded=False):
    return legacy.decode(data, EXECUTION, superseded=superseded)


FOUND = {
    "state": "RUNNING",
    "revision": 17,
    "percent": 60,
    "observed_at_ms": 1_780_000_000_250,
    "nodes": 5,
    "succeeded": 3,
    "failed": 0,
    "running": 1,
    "pending": 1,
    "edges": 4,
}


@pytest.mark.parametrize("schema", [1, 2])
def test_a_recorded_snapshot_gives_its_recorded_aggregates(schema):
    data = recording.replay(f"legacy_{schema}.json", bytes_of(schema=schema))
    found = decode(data)
    assert found == Legacy(schema=schema, **FOUND)
    body = canonical.encode(
        public.body(
            dataclasses.replace(pictures.make_reading(summary=None), legacy=found)
        )
    )
    recording.replay(f"legacy_{schema}_body.json", body)


def test_a_snapshot_without_a_schema_is_of_the_first():
    body = snapshot(schema=1)
    del body["schema_version"]
    assert decode(json.dumps(body).encode()).schema == 1


@pytest.mark.parametrize("schema", [0, 3, -1, "2", True, None, 1.5, [1], 10**30])
def test_any_other_schema_is_corrupt(schema):
    with pytest.raises(IntegrityFault):
        decode(bytes_of(schema_version=schema))


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": str(uuid.UUID(int=5))},
        {"run_id": str(EXECUTION.run_id).upper().replace("1", "2")},
        {"task_execution_pk": EXECUTION.pk + 1},
        {"attempt_number": EXECUTION.attempt_number + 1},
        {"execution_generation": EXECUTION.execution_generation + 1},
    ],
)
@pytest.mark.parametrize("schema", [1, 2])
def test_the_snapshot_of_another_run_is_none(change, schema):
    assert decode(bytes_of(schema=schema, run_identity=identity(**change))) is None


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        [],
        "x",
        identity(schema_version=2),
        identity(run_id=None),
        identity(attempt_number=True),
        identity(attempt_number="1"),
        identity(padding="x" * 1_024),
    ],
)
def test_an_identity_that_is_none_is_corrupt_in_schema_2(said):
    with pytest.raises(IntegrityFault) as caught:
        decode(bytes_of(run_identity=said))
    assert caught.value.availability == "CORRUPT"


def test_schema_2_needs_an_identity():
    body = snapshot()
    del body["run_identity"]
    with pytest.raises(IntegrityFault):
        decode(json.dumps(body).encode())


def test_after_a_publication_only_an_identity_proves_a_snapshot_newer():
    assert decode(bytes_of(schema=1), superseded=True) is None
    assert decode(bytes_of(schema=2), superseded=True) is not None


COUNTS = {
    "total_nodes": "nodes",
    "completed_nodes": "succeeded",
    "failed_nodes": "failed",
    "running_nodes": "running",
    "pending_nodes": "pending",
    "revision": "revision",
}


@pytest.mark.parametrize("field", COUNTS)
@pytest.mark.parametrize(
    ("value", "read"),
    [
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (2**63, 0),
        (10**60, 0),
        (10**70, 0),
        (-1, 0),
        (True, 0),
        ("7", 0),
        (None, 0),
        (1.5, 0),
        ([7], 0),
        ({"a": 7}, 0),
    ],
)
def test_a_count_is_not_negative_or_it_is_0(field, value, read):
    found = decode(bytes_of(**{field: value}))
    assert getattr(found, COUNTS[field]) == read


@pytest.mark.parametrize(
    ("value", "read"),
    [(0, 0), (100, 100), (99.9, 99), (100.1, 0), (-1, 0), ("50", 0), (1e400, 0)],
)
def test_percent_is_within_its_bounds_or_it_is_0(value, read):
    data = bytes_of(progress_percent=value).replace(b"Infinity", b"1e400")
    assert decode(data).percent == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("PENDING", "PENDING"),
        ("SUCCEEDED", "SUCCEEDED"),
        ("FAILED", "FAILED"),
        ("CANCELLED", "RUNNING"),
        ("\ud800", "RUNNING"),
        ("\x1b[2J", "RUNNING"),
        (None, "RUNNING"),
        (7, "RUNNING"),
        ("x" * 1_000, "RUNNING"),
    ],
)
def test_a_state_no_older_writer_knew_reads_running(value, read):
    data = bytes_of()
    if value == "\ud800":
        # msgspec refuses half a pair wherever it stands.
        with pytest.raises(IntegrityFault):
            decode(data.replace(b'"RUNNING", "progress_p', b'"\\ud800", "progress_p'))
        return
    assert decode(bytes_of(state=value)).state == read


@pytest.mark.parametrize(
    ("value", "read"),
    [(0, 0), (1.5, 1_500), (-1, None), (253_402_300_800, None), ("x", None)],
)
def test_a_time_is_a_time_or_unknown(value, read):
    assert decode(bytes_of(updated_at=value)).observed_at_ms == read


@pytest.mark.parametrize(
    ("graph", "read"),
    [
        ({"edges": []}, 0),
        ({"edges": [{}]}, 1),
        ({"edges": [{"source": {"edges": [{}, {}]}}]}, 1),
        ({"edges": [1]}, None),
        ({"edges": {}}, None),
        ({"edges": None}, None),
        ({}, None),
        ([], None),
        (None, None),
        ("x", None),
    ],
)
def test_edges_are_counted_where_there_is_a_list_of_them(graph, read):
    assert decode(bytes_of(graph=graph)).edges == read


@pytest.mark.parametrize(
    "name", ["a", "}", "},{", '"},{"', "\\", "}, ", "x" * 70, "ü€😀"]
)
@pytest.mark.parametrize("indent", [None, pytest.param(1, marks=pytest.mark.deep)])
def test_edges_past_one_part_are_counted_exactly(name, indent):
    edges = [{"source": f"{name}{n}", "target": name} for n in range(40_000)]
    body = snapshot(graph={"edges": edges})
    data = json.dumps(body, indent=indent, ensure_ascii=False).encode()
    assert len(data) > PART
    assert decode(data).edges == 40_000


def test_edges_that_cannot_be_cut_are_unknown():
    long = {"source": "x" * (PART + 1), "target": "y"}
    assert decode(bytes_of(graph={"edges": [long, long]})).edges is None


DEEP = 100_000
HOSTILE = {
    "not json": b"not json",
    "empty": b"",
    "a list": b"[1]",
    "a number": b"1",
    "null": b"null",
    "two values": b"{}{}",
    "cut": bytes_of()[:-1],
    "NaN": bytes_of().replace(b"17", b"NaN"),
    "deep": b'{"x":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep open": b'{"x":' + b"[" * DEEP,
    "deep objects": b'{"x":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "half a pair": b'{"workflow_id":"\\ud800","schema_version":1}',
    "control": b'{"workflow_id":"\x00"}',
    "escape": b'{"workflow_id":"\\q"}',
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_bytes_are_corrupt_and_nothing_else(case):
    with pytest.raises(IntegrityFault) as caught:
        decode(HOSTILE[case])
    assert caught.value.availability == "CORRUPT"


def test_deep_edges_are_unknown():
    # Within the limit where it is passed over, past it where it is built.
    depth = 400
    deep = b"[" * depth + b"]" * depth
    data = b'{"schema_version":1,"graph":{"edges":[' + deep + b"]}}"
    assert decode(data).edges is None


def test_of_a_key_said_twice_the_last_stands():
    data = bytes_of(schema=1)[:-1] + b', "total_nodes": 9, "run_identity": {}}'
    with pytest.raises(IntegrityFault):
        decode(data)
    assert decode(bytes_of(schema=1)[:-1] + b', "total_nodes": 9}').nodes == 9


@pytest.mark.parametrize(
    ("item", "edges"),
    [
        (b'{"source":"a","target":"b"}', True),
        (b"[]", False),
        pytest.param(b"{}", True, marks=pytest.mark.deep),
        pytest.param(b"0", False, marks=pytest.mark.deep),
        pytest.param(b'{"a":{"b":1}}', True, marks=pytest.mark.deep),
    ],
)
def test_memory_is_a_part_whatever_the_graph_holds(item, edges):
    number = 4 * PART // (len(item) + 1)
    items = (item + b",") * (number - 1) + item
    data = b'{"graph":{"nodes":[%b],"edges":[%b]}}' % (items, items)
    del items
    tracemalloc.start()
    try:
        found = decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.edges == (number if edges else None)
    assert peak < 16 * PART


@pytest.mark.deep
@pytest.mark.parametrize("item", [b'{"source":"a","target":"b"}', b"{}", b'"x"', b"["])
def test_a_snapshot_at_the_cap_costs_its_own_size_and_a_part(item):
    room = V1.legacy_snapshot - 40
    data = b'{"graph":{"edges":[' + (item + b",") * (room // (len(item) + 1)) + b"{}]}}"
    tracemalloc.start()
    try:
        decode(data)
    except IntegrityFault:
        assert item == b"["
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 16 * PART


# Through the readers.


@pytest.fixture
def row():
    # A key that is no count of anything: it must not be shown.
    made = stored.make_row(pk=987_654_321)
    made.progress_data = json.dumps(
        snapshot(run_identity=identity(task_execution_pk=made.pk))
    )
    made.save(update_fields=["progress_data"])
    return made


def read():
    root = User.objects.create_superuser(str(uuid.uuid4()))
    return reader.read(pictures.PUBLIC_ID, root)


def test_a_row_without_summary_is_read_from_its_snapshot(row):
    found = read()
    assert found.legacy == Legacy(schema=2, **FOUND)
    assert found.summary is None
    assert found.availability is DetailAvailability.NOT_REPORTED


@pytest.mark.parametrize("legacy", [False, True])
def test_a_snapshot_is_read_only_where_it_is_asked_for(row, legacy):
    root = User.objects.create_superuser("root")
    with CaptureQueriesContext(connection) as asked:
        body = public.summary(row.public_id, root, SummaryQuery(legacy=legacy))
    assert isinstance(body, LegacyBody) is legacy
    assert body.detail.availability is DetailAvailability.NOT_REPORTED
    assert any("convert_to" in one["sql"] for one in asked) is legacy


def test_the_body_shows_aggregates_of_their_schema_and_nothing_else(row):
    body = json.loads(canonical.encode(public.body(read())))
    assert set(body) == {
        *("detail", "diagnostic", "discovered_edges", "discovered_nodes"),
        *("execution", "node_counts", "observed_at_ms", "percent", "policy"),
        *("revision", "schema", "state"),
    }
    assert (body["schema"], body["percent"]) == (2, 60)
    said = json.dumps(body)
    for word in ("square", "secret", "rnaseq[", "10.0.0.7", str(row.pk) + ","):
        assert word not in said.replace(str(pictures.PUBLIC_ID), "")


def test_the_first_publication_supersedes_the_snapshot(row):
    written = stored.report(row)
    with CaptureQueriesContext(connection) as queries:
        found = reader.read_trusted(pictures.PUBLIC_ID)
    assert (found.summary, found.legacy) == (written, None)
    assert len(queries) == 1
    assert read().legacy is None


def test_what_polls_never_reads_a_snapshot(row):
    with CaptureQueriesContext(connection) as queries:
        found = reader.read_trusted(pictures.PUBLIC_ID)
    assert found.legacy is None
    assert found.availability is DetailAvailability.NOT_REPORTED
    assert len(queries) == 1


def test_a_corrupt_summary_is_never_hidden_by_a_snapshot(row):
    row.progress_summary = b"{"
    row.save(update_fields=["progress_summary"])
    found = read()
    assert found.availability is DetailAvailability.CORRUPT
    assert found.legacy is None


def retried(row, schema):
    """Let the row be at its second run, with a snapshot that names it if it can."""
    run = {"run_id": uuid.UUID(int=9), "attempt_number": 2, "execution_generation": 2}
    named = {**run, "run_id": str(run["run_id"]), "task_execution_pk": row.pk}
    body = snapshot(schema=schema)
    if schema == 2:
        body["run_identity"] = identity(**named)
    type(row).objects.update(
        **run, progress_data=json.dumps(body), progress_summary=None
    )


def leave_attempt(row):
    """Keep the first attempt and its summary, as its end does."""
    stored.report(row)
    row.attempts.create(
        attempt_number=1,
        execution_generation=1,
        run_id=row.run_id,
        worker="worker-1",
        state="FAILED",
        claimed_at=row.started_at,
        terminal_summary=row.progress_summary,
        error_class="",
        error_text="",
    )


def leave_run(row):
    """Keep the first run, without its attempt's summary."""
    stored.report(row)
    stored.make_run(row)


@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize("leave", [leave_attempt, leave_run])
def test_what_an_earlier_run_left_hides_a_snapshot_that_names_no_run(
    row, schema, leave
):
    leave(row)
    retried(row, schema)
    assert (read().legacy is None) is (schema == 1)


def test_an_attempt_of_an_older_writer_hides_no_snapshot(row):
    leave_attempt(row)
    row.attempts.update(terminal_summary=None)
    retried(row, 1)
    assert read().legacy is not None


def test_an_execution_that_waits_for_its_next_run_has_no_snapshot(row):
    body = json.dumps(snapshot(schema=1))
    type(row).objects.update(run_id=None, progress_data=body)
    assert read().legacy is None


def test_a_snapshot_that_does_not_parse_is_corrupt(row):
    type(row).objects.update(progress_data="{")
    found = read()
    assert found.availability is DetailAvailability.CORRUPT
    assert found.legacy is None


def test_a_run_whose_policy_is_disabled_reads_no_snapshot(row):
    type(row).objects.update(options={"policy": "disabled"})
    assert read().availability is DetailAvailability.DISABLED


def pad(row, size):
    """Store a snapshot of exactly so many bytes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_ray_execution SET progress_data ="
            " rpad(progress_data, %s - octet_length(progress_data)"
            " + length(progress_data))",
            [size],
        )


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_snapshot_past_its_cap_never_leaves_the_database(row, over):
    size = V1.legacy_snapshot + over
    pad(row, size)
    found = read()
    if over <= 0:
        assert found.legacy == Legacy(schema=2, **FOUND)
        return
    assert found.legacy == Oversized(size=size)
    body = json.loads(canonical.encode(public.body(found)))
    assert body["diagnostic"] == "legacy_snapshot_oversized"
    assert (body["schema"], body["node_counts"], body["percent"]) == (None, None, None)


def test_the_etag_changes_with_the_figures(row):
    root = User.objects.create_superuser("root")

    def ask(**headers):
        request = RequestFactory().get("/?legacy=true", headers=headers)
        request.user = root
        summary = next(one for one in ENDPOINTS if one.name == "summary")
        return api.view(summary)(request, pictures.PUBLIC_ID)

    first = ask()
    assert first.status_code == 200
    assert ask(if_none_match=first["ETag"]).status_code == 304
    row.progress_data = row.progress_data.replace('"completed_nodes": 3', '"x": 3')
    row.save(update_fields=["progress_data"])
    second = ask(if_none_match=first["ETag"])
    assert second.status_code == 200
    assert json.loads(second.content)["node_counts"]["SUCCEEDED"] == 0
