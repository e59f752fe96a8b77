import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.protocol import frames
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from tests.recording import replay

RUN = "6f1c3b0e-7a52-4c1d-9f52-0d8a4b1e2c33"
NODE = frames.Node(ordinal=9, id="1.a#9", label="app.a", stage="app.a")
STATE = frames.State(
    ordinal=3, invocation=0, try_=1, state=NodeState.RUNNING, at_ms=1_700_000_000_000
)
PROGRESS = frames.Progress(
    target=3, invocation=0, try_=1, sequence=1, at_ms=1_700_000_000_000
)
EVENT = frames.Event(at_ms=1, kind="retry", ordinal=3, text="again")


def make(*records):
    return frames.Frame(
        format=frames.FORMAT,
        run_id=RUN,
        generation=7,
        producer=b"coordinator-0001",
        kind=frames.ProducerKind.coordinator,
        number=41,
        writer_epoch=2,
        records=records,
    )


def coordinator_frame():
    return make(
        frames.Declare(call=1, number=3),
        frames.Node(ordinal=0, id="1.load#1", label="app.load", stage="app.load"),
        frames.Node(
            ordinal=1,
            id="1.sum[é]",
            label="app.sum",
            stage="sums",
            dependencies=(0, 1),
            further=0,
        ),
        frames.Task(ordinal=1, task_id=bytes(range(24))),
        frames.State(
            ordinal=0,
            invocation=0,
            try_=2,
            state=NodeState.FAILED,
            at_ms=1_700_000_001_500,
            started_ms=1_700_000_000_250,
            host="10.0.0.7",
            ray_attempt=1,
            error=frames.Failure(kind="ValueError", text="no such column"),
        ),
        frames.States(first=0, states=bytes([12, 0]), stages=bytes([0, 1])),
        frames.Preview(ordinal=0, invocation=0, try_=2, value=b'{"rows":3}'),
        frames.Event(at_ms=1_700_000_001_500, kind="retry", ordinal=0, text="again"),
        frames.Session(snapshot=b'{"state":"READY"}'),
        frames.End(
            outcome="FAILED",
            at_ms=1_700_000_002_000,
            error=frames.Failure(kind="ValueError", text="no such column"),
        ),
    )


def worker_frame():
    return replace(
        make(
            frames.Progress(
                target=1,
                invocation=0,
                try_=1,
                sequence=4,
                at_ms=1_700_000_000_900,
                current=3,
                total=10.5,
                message="parsing",
                metrics={"bytes": 812, "ok": True, "rate": 0.5, "unit": "s"},
                host="10.0.0.8",
            ),
            frames.Progress(
                target=bytes(range(24)),
                invocation=2,
                try_=1,
                sequence=1,
                at_ms=1_700_000_000_950,
            ),
        ),
        kind=frames.ProducerKind.worker,
        producer=b"worker-000000001",
        writer_epoch=0,
        number=1,
    )


SENT = [coordinator_frame(), worker_frame()]


@pytest.mark.parametrize("build", [coordinator_frame, worker_frame])
def test_a_recorded_frame_is_replayed_byte_for_byte(build):
    frame = build()
    recorded = replay(f"{build.__name__}.msgpack", frames.encode(frame))
    assert frames.decode(recorded) == frame


def test_a_recorded_acknowledgement_is_replayed_byte_for_byte():
    answer = frames.Acknowledgement(
        format=frames.FORMAT,
        status=frames.Status.OK,
        writer_epoch=2,
        applied=41,
        committed=38,
        interval_ms=500,
        reason="",
        unknown=(bytes(range(24)),),
    )
    recorded = replay("acknowledgement.msgpack", frames.encode(answer))
    assert frames.decode_acknowledgement(recorded) == answer


def refusal(*records):
    with pytest.raises(ProtocolError) as caught:
        frames.decode(frames.encode(make(*records)))
    return caught.value


def test_a_frame_without_records_is_a_frame():
    assert frames.decode(frames.encode(make())).records == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x00",
        b"\x90",
        b"\x91" * 2_000,
        frames.encode(make())[:-1],
        frames.encode(make()) + b"\x00",
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 16, "worker", 1, 0, [], 1]),
        msgspec.msgpack.encode([2, RUN, 7, b"p" * 16, "worker", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, True, b"p" * 16, "worker", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, 0, b"p" * 16, "worker", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, 2**63, b"p" * 16, "worker", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 15, "worker", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 17, "worker", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 16, "reader", 1, 0, []]),
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 16, "worker", 0, 0, []]),
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 16, "worker", 1, 0, [["what", 1]]]),
        msgspec.msgpack.encode([1, RUN, 7, b"p" * 16, "worker", 1, 0, [["task", 1]]]),
    ],
)
def test_bytes_that_are_no_frame_are_refused(data):
    with pytest.raises(ProtocolError) as caught:
        frames.decode(data)
    assert caught.value.reason == "malformed_frame"


def test_a_frame_over_its_bytes_is_refused_unread():
    for size in (V1.frame - 1, V1.frame):
        with pytest.raises(ProtocolError) as caught:
            frames.decode(b"\xc1" * size)
        assert caught.value.reason == "malformed_frame"
    with pytest.raises(LimitExceeded) as over:
        frames.decode(b"\xc1" * (V1.frame + 1))
    assert over.value.boundary == "frame"


@pytest.mark.parametrize("count", [1_023, 1_024])
def test_up_to_1024_records_are_accepted(count):
    frame = make(*[frames.Declare(call=0, number=0)] * count)
    assert len(frames.decode(frames.encode(frame)).records) == count


def test_more_records_are_refused():
    assert refusal(*[frames.Declare(call=0, number=0)] * 1_025).reason == (
        "malformed_frame"
    )


FAILURE = frames.Failure(kind="E", text="t")


@pytest.mark.parametrize(
    "record",
    [
        replace(NODE, id="n" * 256),
        replace(NODE, id="é" * 128),
        replace(NODE, label="l" * 512, stage="s" * 512),
        replace(NODE, label="", stage=""),
        replace(STATE, host="h" * 64),
        replace(STATE, at_ms=frames.MAXIMUM_MILLISECONDS),
        replace(STATE, error=frames.Failure(kind="E" * 128, text="t" * 1_920)),
        replace(STATE, error=frames.Failure(kind="E", text="a\nb\t" + "é" * 1_021)),
        replace(PROGRESS, message="m" * 2_048),
        replace(PROGRESS, message="a\nb\tc"),
        replace(PROGRESS, metrics={f"k{place}": 1 for place in range(32)}),
        replace(PROGRESS, current=0, total=0),
        replace(PROGRESS, host="h" * 64, target=b"t" * 64),
        replace(EVENT, text="t" * 1_024, kind="k" * 64),
        replace(EVENT, ordinal=None, text=""),
        frames.States(first=0, states=b"", stages=b""),
        frames.States(first=0, states=b"\x06\xfe" * 49_152, stages=b"\x3f" * 98_304),
        frames.Preview(ordinal=0, invocation=0, try_=1, value=b'"' + b"v" * 256 + b'"'),
    ],
)
def test_a_record_at_its_bounds_is_accepted(record):
    assert frames.decode(frames.encode(make(record))).records == (record,)


@pytest.mark.parametrize(
    ("record", "boundary"),
    [
        (replace(NODE, id="é" * 129), "node_id"),
        (replace(NODE, label="é" * 257), "label"),
        (replace(NODE, stage="é" * 257), "label"),
        (replace(STATE, host="é" * 33), "host"),
        (
            replace(STATE, error=frames.Failure(kind="E" * 128, text="t" * 1_921)),
            "error",
        ),
        (replace(STATE, error=frames.Failure(kind="é" * 65, text="t")), "error"),
        (replace(PROGRESS, message="é" * 1_025), "message"),
        (replace(PROGRESS, host="é" * 33), "host"),
        (replace(PROGRESS, metrics={"k" * 65: 1}), "metric_key"),
        (replace(EVENT, text="é" * 513), "event"),
        (replace(EVENT, kind="é" * 33), "event"),
        (
            frames.End(
                outcome="FAILED",
                at_ms=1,
                error=frames.Failure(kind="E", text="t" * 2_048),
            ),
            "error",
        ),
        (
            frames.Preview(
                ordinal=0, invocation=0, try_=1, value=b'"' + b"v" * 257 + b'"'
            ),
            "preview_string",
        ),
    ],
)
def test_a_record_over_a_bound_of_bytes_is_refused(record, boundary):
    caught = refusal(record)
    assert isinstance(caught, LimitExceeded)
    assert caught.boundary == boundary


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (replace(NODE, id=""), "malformed_frame"),
        (replace(NODE, id="n" * 257), "malformed_frame"),
        (replace(NODE, ordinal=-1), "malformed_frame"),
        (replace(NODE, ordinal=2**31), "malformed_frame"),
        (replace(NODE, id="a\x00"), "unsafe_text"),
        (replace(NODE, id="a\nb"), "unsafe_text"),
        (replace(NODE, label="\x1b[2J"), "unsafe_text"),
        (replace(NODE, stage="a\tb"), "unsafe_text"),
        (replace(STATE, host="a\nb"), "unsafe_text"),
        (replace(STATE, error=replace(FAILURE, kind="a\nb")), "unsafe_text"),
        (replace(STATE, error=replace(FAILURE, text="\x9b2J")), "unsafe_text"),
        (replace(STATE, try_=0), "malformed_frame"),
        (replace(STATE, at_ms=frames.MAXIMUM_MILLISECONDS + 1), "malformed_frame"),
        (replace(STATE, at_ms=-1), "malformed_frame"),
        (replace(STATE, invocation=2**63), "malformed_frame"),
        (replace(PROGRESS, sequence=0), "malformed_frame"),
        (replace(PROGRESS, message="a\rb"), "unsafe_text"),
        (replace(PROGRESS, current=math.nan), "progress_not_finite"),
        (replace(PROGRESS, total=math.inf), "progress_not_finite"),
        (replace(PROGRESS, current=-1), "progress_negative"),
        (replace(PROGRESS, current=2, total=1), "progress_past_total"),
        (replace(PROGRESS, current=2**64 - 1), "progress_too_large"),
        (replace(PROGRESS, metrics={"k": math.nan}), "metrics_not_finite"),
        (replace(PROGRESS, metrics={"a": 2**64 - 1}), "metrics_integer_too_large"),
        (
            replace(PROGRESS, metrics={f"k{place}": 1 for place in range(33)}),
            "malformed_frame",
        ),
        (replace(PROGRESS, target=b"t" * 65), "malformed_frame"),
        (replace(PROGRESS, target=b""), "malformed_frame"),
        (replace(EVENT, kind="a\nb"), "unsafe_text"),
        (replace(EVENT, text="\x00"), "unsafe_text"),
        (frames.States(first=0, states=b"\x00", stages=b""), "unpaired_states"),
        (frames.States(first=0, states=b"\x07", stages=b"\x00"), "unknown_state"),
        (frames.States(first=0, states=b"\xff", stages=b"\x00"), "unknown_state"),
        (frames.States(first=0, states=b"\x00", stages=b"\x40"), "unknown_stage"),
        (
            frames.States(first=0, states=b"", stages=b"\x00" * 98_305),
            "malformed_frame",
        ),
        (frames.Preview(ordinal=0, invocation=0, try_=1, value=b"{"), "malformed_json"),
        (frames.Session(snapshot=b"nope"), "malformed_json"),
        (frames.Session(snapshot=b'{ "a": 1}'), "json_not_canonical"),
        (frames.Session(snapshot=b"1" * 16_385), "malformed_frame"),
    ],
)
def test_a_malformed_record_is_refused_by_name(record, reason):
    assert refusal(record).reason == reason


def test_every_state_code_with_every_try_is_known():
    states = bytes(code | before << 3 for code in range(7) for before in range(32))
    record = frames.States(first=5, states=states, stages=bytes(len(states)))
    assert frames.decode(frames.encode(make(record))).records == (record,)
    assert len(NODE_STATES) == 7


@pytest.mark.parametrize("runs", [(), (0, 9), (0, 1, 2, 1), (8, 1), (0, 4, 4, 5)])
def test_dependencies_below_the_node_in_order_are_accepted(runs):
    record = replace(NODE, dependencies=runs)
    assert frames.decode(frames.encode(make(record))).records == (record,)


@pytest.mark.parametrize(
    "runs", [(0,), (9, 1), (0, 10), (0, 0), (2, 1, 1, 1), (0, 2, 1, 1), (0, 1, 2)]
)
def test_dependencies_beyond_the_node_or_out_of_order_are_refused(runs):
    assert refusal(replace(NODE, dependencies=runs)).reason == "malformed_dependencies"


def test_as_many_runs_as_the_limit_are_accepted_and_no_more():
    full = tuple(part for run in range(8_192) for part in (2 * run, 1))
    record = replace(NODE, ordinal=20_000, dependencies=full)
    assert frames.decode(frames.encode(make(record))).records == (record,)
    assert len(frames.encode(record)) < V1.frame_cut
    more = replace(record, dependencies=(*full, 16_384, 1))
    assert refusal(more).reason == "malformed_frame"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1, "MAYBE", 0, 0, 0, 50]),
        msgspec.msgpack.encode([1, "OK", 0, 0, -1, 50]),
        msgspec.msgpack.encode([1, "OK", 0, 0, 0, 3_600_001]),
        msgspec.msgpack.encode([2, "OK", 0, 0, 0, 50]),
        msgspec.msgpack.encode([1, "OK", 0, 0, 0, 50, "r" * 65]),
        msgspec.msgpack.encode([1, "OK", 0, 0, 0, 50, "", [], 1]),
    ],
)
def test_bytes_that_are_no_acknowledgement_are_refused(data):
    with pytest.raises(ProtocolError) as caught:
        frames.decode_acknowledgement(data)
    assert caught.value.reason == "malformed_acknowledgement"


def test_a_short_acknowledgement_takes_the_defaults():
    answer = frames.decode_acknowledgement(
        msgspec.msgpack.encode([1, "FENCED", 3, 0, 0, 50])
    )
    assert answer.status is frames.Status.FENCED
    assert (answer.reason, answer.unknown) == ("", ())


@given(st.data())
def test_damaged_bytes_are_a_frame_or_refused_and_nothing_else(data):
    sent = bytearray(frames.encode(data.draw(st.sampled_from(SENT))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(sent) - 1))
        sent[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3)
        )
    try:
        frame = frames.decode(bytes(sent))
    except ProtocolError:
        return
    assert frames.decode(frames.encode(frame)) == frame


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_without_another_error(data):
    with pytest.raises(ProtocolError):
        frames.decode(data)
    with pytest.raises(ProtocolError):
        frames.decode_acknowledgement(b"\xc1" + data)


def test_a_refused_frame_leaves_no_text_of_its_sender_in_the_error():
    caught = refusal(replace(NODE, id="hunter2\x00"))
    assert "hunter2" not in str(caught)


@pytest.mark.parametrize(
    "record",
    [
        NODE,
        frames.Declare(call=1, number=3),
        frames.Task(ordinal=0, task_id=b"t"),
        frames.States(first=0, states=b"\0", stages=b"\0"),
        frames.End(outcome="FAILED", at_ms=1),
        *(replace(STATE, state=state) for state in NODE_STATES if state != "RUNNING"),
    ],
    ids=lambda record: f"{type(record).__name__}-{getattr(record, 'state', '')}",
)
def test_a_worker_tells_neither_graph_nor_ends(record):
    frame = replace(make(record), kind=frames.ProducerKind.worker)

    with pytest.raises(ProtocolError) as refused:
        frames.decode(frames.encode(frame))

    assert refused.value.reason == "foreign_record"


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("kind", frames.ProducerKind)
def test_the_frame_of_a_worker_has_a_smaller_bound_than_the_others(kind, over):
    def build(length):
        messages = [*["m" * 2_040] * 7, "m" * length]
        records = [replace(PROGRESS, message=message) for message in messages]
        return frames.encode(replace(make(*records), kind=kind))

    data = build(1_000 + V1.worker_frame + over - len(build(1_000)))
    assert len(data) == V1.worker_frame + over

    if kind == "worker" and over > 0:
        with pytest.raises(LimitExceeded) as refused:
            frames.decode(data)
        assert refused.value.boundary == "worker_frame"
    else:
        assert frames.encode(frames.decode(data)) == data


@pytest.mark.parametrize(
    "record", [STATE, PROGRESS, EVENT], ids=lambda r: type(r).__name__
)
def test_a_worker_tells_what_runs_and_how_far_it_is(record):
    frame = replace(make(record), kind=frames.ProducerKind.worker)

    assert frames.decode(frames.encode(frame)) == frame
