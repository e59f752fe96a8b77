import msgspec
import pytest

from django_ray.errors import IntegrityFault, LimitExceeded
from django_ray.identity import MAXIMUM_63
from django_ray.protocol import canonical, records
from django_ray.protocol.frames import MAXIMUM_MILLISECONDS, MAXIMUM_ORDINAL
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability, NodeState
from tests.recording import replay

FULL = records.Detail(
    attempt=2,
    current=3,
    ended_ms=1_700_000_002_000,
    error=records.Fault(kind="ValueError", text="no such column é"),
    host="10.0.0.7",
    invocation=0,
    message="parsing",
    metrics={"bytes": 812, "ok": True, "rate": 0.5, "unit": "s"},
    preview=msgspec.Raw(b'{"rows":3}'),
    reported_ms=1_700_000_001_000,
    sequence=4,
    started_ms=1_700_000_000_500,
    state=NodeState.FAILED,
    submitted_ms=1_700_000_000_000,
    total=10.5,
    try_=2,
)


def test_a_recorded_detail_is_replayed_byte_for_byte():
    recorded = replay("detail.json", records.encode(FULL))
    assert records.decode_detail(recorded) == FULL


def test_a_recorded_fresh_detail_holds_no_more_than_it_knows():
    recorded = replay("detail_fresh.json", records.encode(records.Detail()))
    assert recorded == b"{}"
    assert records.decode_detail(recorded) == records.Detail()


def test_recorded_events_are_replayed_byte_for_byte():
    events = (
        records.EventItem(
            at_ms=1_700_000_000_000, kind="retry", ordinal=3, text="again"
        ),
        records.EventItem(at_ms=1_700_000_000_100, kind="rebuilt"),
    )
    recorded = replay("events.json", canonical.encode(events))
    assert records.decode_events(recorded) == events


def test_topology_items_are_arrays():
    node = records.NodeItem(ordinal=1, id="1.a", label="a", stage="s", rank=2)
    assert records.encode(node) == b'[1,"1.a","a","s",2]'
    assert records.encode(records.EdgeItem(target=1, source=0)) == b"[1,0]"


@pytest.mark.parametrize(
    "kind",
    [records.Detail, records.Fault, records.Omitted, records.EventItem],
)
def test_every_stored_struct_declares_its_fields_in_canonical_order(kind):
    names = list(kind.__struct_encode_fields__)
    assert names == sorted(names)


def test_the_largest_base_of_a_detail_is_within_the_reserve_of_its_node():
    base = records.Detail(
        attempt=MAXIMUM_ORDINAL,
        ended_ms=MAXIMUM_MILLISECONDS,
        host="h" * V1.host,
        invocation=0,
        started_ms=MAXIMUM_MILLISECONDS,
        state=NodeState.SUCCEEDED,
        submitted_ms=MAXIMUM_MILLISECONDS,
        try_=MAXIMUM_ORDINAL,
    )
    assert len(records.encode(base)) <= V1.node_reserve


def test_a_record_is_refused_one_byte_above_its_limit():
    def sized(size):
        bare = len(canonical.encode(records.Detail(message="")))
        return records.Detail(message="m" * (size - bare))

    for size in (V1.record - 1, V1.record):
        assert len(records.encode(sized(size))) == size
    with pytest.raises(LimitExceeded) as caught:
        records.encode(sized(V1.record + 1))
    assert (caught.value.boundary, caught.value.actual) == ("record", V1.record + 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"state":"WAITING"}',
        b'{"other":1}',
        b'{"try":"1"}',
        b'{"try":true}',
        b'{"message":1}',
        b'{"error":{"kind":1}}',
        b'{"error":{"omitted":"x","more":1}}',
        b'{"metrics":{"a":null}}',
        b'{"attempt":null}',
        b"\xff",
    ],
)
def test_bytes_that_are_no_detail_are_corrupt(data):
    with pytest.raises(IntegrityFault) as caught:
        records.decode_detail(data)
    assert caught.value.availability == DetailAvailability.CORRUPT


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[{"at_ms":1}]'])
def test_bytes_that_are_no_events_are_corrupt(data):
    with pytest.raises(IntegrityFault) as caught:
        records.decode_events(data)
    assert caught.value.availability == DetailAvailability.CORRUPT


def test_every_omission_is_a_marker_in_the_place_of_its_value():
    detail = records.Detail(
        error=records.Fault(omitted="detail_size_limit"),
        message=records.Omitted(omitted="detail_size_limit"),
        metrics={"omitted": "detail_size_limit"},
        preview=msgspec.Raw(b'{"omitted":"detail_size_limit"}'),
    )
    marker = b'{"omitted":"detail_size_limit"}'
    stored = records.encode(detail)
    assert stored == (
        b'{"error":%b,"message":%b,"metrics":%b,"preview":%b}' % ((marker,) * 4)
    )
    assert records.decode_detail(stored) == detail


def test_a_preview_is_stored_as_it_came():
    detail = records.Detail(preview=msgspec.Raw(b'{"rows":3}'))
    assert records.encode(detail) == b'{"preview":{"rows":3}}'
    assert records.encode(records.decode_detail(records.encode(detail))) == (
        records.encode(detail)
    )


def test_the_largest_numbers_survive():
    detail = records.Detail(current=MAXIMUM_63, total=1e308, sequence=MAXIMUM_63)
    assert records.decode_detail(records.encode(detail)) == detail
