"""The limit tables of contract 2: by its name, what keeps each limit, and what reads it.

A probe is given a size and claims that the real function takes a value of that size whole.
It is asked one below the limit, at it and one above. `written` are what stands before
persistence, `read` are readers of bytes planted in PostgreSQL. A probe of a `small` profile
is given the distance to that profile's limit instead: those caps do not bind under V1.
"""

import msgspec
from django.core.signing import Signer, b64_encode

from actors.link import HEADER
from django_ray import conf
from django_ray.errors import (
    ConfigurationError,
    GraphRefused,
    IntegrityFault,
    InvalidCursor,
    LimitExceeded,
    ProtocolError,
)
from django_ray.progress import bequest
from django_ray.progress import stages as row_codec
from django_ray.progress.bequest import Bequest
from django_ray.progress.budget import Budget
from django_ray.progress.durations import bounds
from django_ray.progress.graph import Graph
from django_ray.progress.ledger import Ledger
from django_ray.progress.recent import Events, Hosts
from django_ray.progress.rollup import Stages
from django_ray.progress.series import FIRST_WIDTH_MS, Series
from django_ray.progress.stages import Stage, StageEdge, StageRow
from django_ray.progress.topology import Topology
from django_ray.protocol import canonical, frames, records, summary, values
from django_ray.protocol.frames import Failure, ProducerKind, Status
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, EventItem, Fault
from django_ray.protocol.vocabulary import ReportingPolicy
from django_ray.readers import cursor, page
from tests.actors.test_producer import Bench, report
from tests.limits import planted
from tests.progress.making import START, Run, item, limits, node, progress, state
from tests.protocol.test_frames import make as frame

WRITTEN, READ = {}, {}
SMALL = set()


def written(*names, small=False):
    """Note a probe of what stands before persistence."""

    def note(probe):
        for name in names:
            WRITTEN.setdefault(name, []).append(probe)
            if small:
                SMALL.add(probe)
        return probe

    return note


def read(*names):
    """Note a probe of a reader."""

    def note(probe):
        for name in names:
            READ.setdefault(name, []).append(probe)
        return probe

    return note


def takes(function, *arguments):
    """Claim that a value is not refused for its size."""
    try:
        function(*arguments)
    except (LimitExceeded, ProtocolError, ConfigurationError, GraphRefused):
        return False
    return True


def sends(record):
    """Claim that a frame with this record passes the wire."""
    return takes(frames.decode, frames.encode(frame(record)))


def padded(data, size):
    """Return JSON bytes of exactly `size`, by white space at the end."""
    assert len(data) <= size
    return data.ljust(size)


# The task row, and the copy of its summary


@written("summary")
def encoded_summary(size):
    bare = len(canonical.encode(planted.SUMMARY(plan_fingerprint="")))
    return takes(summary.encode, planted.SUMMARY(plan_fingerprint="f" * (size - bare)))


@read("summary")
def stored_summary(size):
    # The identity is filled in when the row is there, so the size is met then.
    data = planted.summary_bytes()
    row = planted.execution()
    own = data.replace(b"{pk}", str(row.pk).encode()).replace(b"{run_id}", b"r" * 36)
    return planted.reads_summary(data + b" " * (size - len(own)))


@written("session_compact")
def encoded_session(size):
    session = msgspec.Raw(b'"' + b"s" * (size - 2) + b'"')
    return takes(summary.encode, planted.SUMMARY(session=session))


@read("session_compact")
def stored_session(size):
    session = msgspec.Raw(b'"' + b"s" * (size - 2) + b'"')
    return planted.reads_summary(planted.summary_bytes(session=session))


@written("retention_days")
def settings_retention(days):
    return takes(conf.parse, {"RETENTION_DAYS": days})


@read("retention_days")
def stored_retention(days):
    return planted.reads_summary(planted.summary_bytes(retention_days=days))


# Topology


def topology(profile, nodes=0, edges=(), **fields):
    made = Topology(profile)
    made.extend([item(n, **fields) for n in range(nodes)], list(edges))
    return made


@written("page_items")
def nodes_of_a_page(number):
    return len(topology(V1, number).candidate(1).pages) == 1


@read("page_items")
def stored_items(number):
    pairs = [(target, 0) for target in range(1, number + 1)]
    return planted.reads_page(canonical.encode(pairs), "edges", number)


def nodes_of(size):
    """Return 240 nodes whose page has exactly so many bytes."""
    made = [item(n, label="l" * 512, stage="s" * 512) for n in range(240)]
    more, rest = divmod(size - len(canonical.encode(made)), 239)
    longer = [more] * 239 + [rest]
    return [
        msgspec.structs.replace(each, id=each.id + "i" * extra)
        for each, extra in zip(made, longer, strict=True)
    ]


@written("page_encoded")
def bytes_of_a_page(size):
    made = Topology(V1)
    made.extend(nodes_of(size), [])
    return len(made.candidate(1).pages) == 1


@written("page_decoded", small=True)
def decoded_bytes_of_a_page(past):
    whole = topology(V1, 20).candidate(1).manifest.decoded_bytes
    return len(topology(limits(page_decoded=whole - past), 20).candidate(1).pages) == 1


@read("page_encoded")
def stored_body(size):
    return planted.reads_page(canonical.encode(nodes_of(size)), "nodes", 240)


@read("page_decoded")
def inflated_body(size):
    body = b"[[1,0]" + b" " * (size - 7) + b"]"
    return planted.reads_page(body, "edges", 1, "zlib")


@written("retained_nodes")
def kept_nodes(number):
    made = topology(V1, number)
    return made.node_count == number and not made.reasons


@read("retained_nodes")
def stored_nodes(number):
    return planted.reads_manifest(node_count=number)


@written("retained_edges")
def kept_edges(number):
    joined = [(target, 24_000, (0, 24_000)) for target in range(24_000, 24_004)]
    rest = number - 4 * 24_000
    made = topology(V1, 24_005, [*joined, (24_004, rest, (0, rest))])
    return made.edge_count == number and not made.reasons


@read("retained_edges")
def stored_edges(number):
    return planted.reads_manifest(edge_count=number)


@written("topology_encoded", "topology_decoded", small=True)
def topology_bytes(past):
    whole = topology(V1, 3).candidate(1).manifest.decoded_bytes
    found = {
        topology(limits(**{name: whole - past}), 3).node_count == 3
        for name in ("topology_encoded", "topology_decoded")
    }
    (kept,) = found
    return kept


@read("topology_encoded")
def stored_topology(size):
    return planted.reads_manifest(encoded_bytes=size)


@read("topology_decoded")
def stored_topology_decoded(size):
    return planted.reads_manifest(decoded_bytes=size)


@written("run_encoded", "run_decoded", small=True)
def run_bytes(past):
    # A run's cap counts what else it may hold: stage row, events, session, what a
    # collector leaves, two pages.
    small = {"stage_row": 2_000, "session_snapshot": 0, "events": 0, "bequest": 0}
    pages = {"page_encoded": 400, "page_decoded": 400}
    whole = topology(V1, 3).candidate(1).manifest.decoded_bytes
    room = 2_000 + 2 * 400 + whole + 3 * V1.node_reserve
    found = {
        topology(limits(**small, **pages, **{name: room - past}), 3).node_count == 3
        for name in ("run_encoded", "run_decoded")
    }
    (kept,) = found
    return kept


@written("node_reserve", small=True)
def reserved_bytes(past):
    return (
        topology(limits(detail_encoded=3 * V1.node_reserve - past), 3).node_count == 3
    )


@written("node_id")
def registered_id(size):
    graph = Graph(V1)
    return takes(graph.register, "é" * (size // 2) + "n" * (size % 2), "l", "s", ())


@written("node_id")
def sent_id(size):
    return sends(node(0, id="n" * size))


@read("node_id")
def stored_id(size):
    return planted.reads_nodes(item(0, id="é" * (size // 2) + "n" * (size % 2)))


@read("node_id")
def id_of_a_row(size):
    return planted.reads_record(b"{}", "é" * (size // 2) + "n" * (size % 2))


@written("label")
def registered_label(size):
    record = Graph(V1).register("n", "l" * size, "s" * size, ())[1]
    return (len(record.label), len(record.stage)) == (size, size)


@written("label")
def sent_label(size):
    return sends(node(0, label="l" * size)) and sends(node(0, stage="s" * size))


@read("label")
def stored_label(size):
    wide = "é" * (size // 2) + "l" * (size % 2)
    found = {planted.reads_nodes(item(0, **{f: wide})) for f in ("label", "stage")}
    (kept,) = found
    return kept


@written("dependency_runs")
def told_runs(number):
    graph = Graph(V1)
    for ordinal in range(2 * number):
        graph.register(str(ordinal), "l", "s", ())
    return not graph.register("x", "l", "s", range(0, 2 * number, 2))[1].further


@written("dependency_runs")
def sent_runs(number):
    runs = [part for first in range(0, 2 * number, 2) for part in (first, 1)]
    return sends(node(2 * number, *runs))


# Node detail

PENDING = Detail()


def message_of(size):
    """Return a detail whose record has so many bytes."""
    bare = len(canonical.encode(msgspec.structs.replace(PENDING, message="")))
    return msgspec.structs.replace(PENDING, message="m" * (size - bare))


@written("record")
def encoded_record(size):
    return takes(records.encode, message_of(size))


@written("record", small=True)
def fitted_record(past):
    budget = Budget(limits(record=1_000 - past))
    budget.begin(1, 2**40)
    budget.fit(0, message_of(1_000))
    return not budget.reasons


@read("record")
def stored_record(size):
    return planted.reads_record(padded(b'{"message":"m"}', size))


@written("detail_encoded", "detail_decoded", small=True)
def detail_bytes(past):
    found = set()
    for name in ("detail_encoded", "detail_decoded"):
        budget = Budget(limits(**{name: 3 * V1.node_reserve + 500 - past}))
        budget.begin(3, 2**40)
        budget.fit(1, message_of(V1.node_reserve + 500))
        found.add(not budget.reasons)
    (kept,) = found
    return kept


@read("detail_encoded")
def stored_detail(size):
    return planted.reads_manifest(detail_bytes=size)


@written("message")
def sent_message(size):
    return sends(progress(0, message="é" * (size // 2) + "m" * (size % 2)))


@read("message")
def stored_message(size):
    wide = "é" * (size // 2) + "m" * (size % 2)
    return planted.reads_record(canonical.encode(Detail(message=wide)))


def metrics(**changes):
    return Detail(metrics=changes)


def keyed(number):
    return {f"k{place}": 1 for place in range(number)}


def sized_metrics(size):
    found = {f"k{place:02}": "v" * 250 for place in range(15)}
    spare = size - len(canonical.encode({**found, "last": ""}))
    return {**found, "last": "v" * spare}


METRICS = {
    "metrics_keys": keyed,
    "metrics_encoded": sized_metrics,
    "metric_key": lambda size: {"k" * size: 1},
    "metric_string": lambda size: {"k": "é" * (size // 2) + "v" * (size % 2)},
}


def _of_metrics(name, make):
    def reported(size):
        return takes(values.metrics, make(size))

    def sent(size):
        return sends(progress(0, metrics=make(size)))

    def stored(size):
        return planted.reads_record(canonical.encode(Detail(metrics=make(size))))

    written(name)(reported)
    written(name)(sent)
    read(name)(stored)


for _name, _make in METRICS.items():
    _of_metrics(_name, _make)


@written("error")
def sent_error(size):
    error = Failure("E" * 100, "é" * ((size - 100) // 2) + "e" * (size % 2))
    return sends(state(0, "FAILED", error=error))


@read("error")
def stored_error(size):
    fault = Fault(kind="E" * 100, text="é" * ((size - 100) // 2) + "e" * (size % 2))
    return planted.reads_record(canonical.encode(Detail(error=fault)))


@written("error_kind")
def sent_kind(size):
    return sends(
        state(0, "FAILED", error=Failure("é" * (size // 2) + "E" * (size % 2), ""))
    )


@read("error_kind")
def stored_kind(size):
    fault = Fault(kind="é" * (size // 2) + "E" * (size % 2), text="")
    return planted.reads_record(canonical.encode(Detail(error=fault)))


@written("host")
def sent_host(size):
    return sends(state(0, "RUNNING", host="é" * (size // 2) + "h" * (size % 2)))


@read("host")
def stored_host(size):
    host = "é" * (size // 2) + "h" * (size % 2)
    return planted.reads_record(canonical.encode(Detail(host=host)))


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@written("nesting")
def sent_nesting(levels):
    return sends(frames.Session(canonical.encode(nested(levels))))


@read("nesting")
def stored_nesting(levels):
    session = msgspec.Raw(canonical.encode(nested(levels)))
    return planted.reads_summary(planted.summary_bytes(session=session))


def of_items(number):
    """Return a preview of so many values, all containers and texts counted."""
    return [[1] * 14, [1] * (number - 17)]


def of_bytes(size):
    return ["s" * 250, "s" * (size - 257)]


PREVIEWS = {
    "preview_nesting": nested,
    "preview_items": of_items,
    "preview_list_items": lambda number: [1] * number,
    "preview_entries": lambda number: keyed(number),
    "preview_key": lambda size: {"k" * size: 1},
    "preview_string": lambda size: "é" * (size // 2) + "s" * (size % 2),
    "preview_encoded": of_bytes,
}


def _of_preview(name, make):
    def sent(size):
        return sends(frames.Preview(0, 0, 1, canonical.encode(make(size))))

    def stored(size):
        preview = msgspec.Raw(canonical.encode(make(size)))
        return planted.reads_record(canonical.encode(Detail(preview=preview)))

    written(name)(sent)
    read(name)(stored)


for _name, _make in PREVIEWS.items():
    _of_preview(_name, _make)


# What the run holds beside them


def event(size):
    """Return an event whose record has so many bytes."""
    bare = len(canonical.encode(EventItem(START, "note", None, "-"))) - 1
    return EventItem(START, "note", None, "x" * (size - bare))


@written("events")
def kept_events(number):
    events = Events(V1)
    for place in range(number):
        events.add(EventItem(START, "note", place))
    return len(records.decode_events(events.encode())) == number


@read("events")
def stored_events(number):
    return planted.reads_events(canonical.encode([EventItem(START, "note")] * number))


@written("event_encoded")
def whole_event(size):
    events = Events(V1)
    events.add(event(size))
    return records.decode_events(events.encode()) == (event(size),)


@read("event_encoded")
def stored_event(size):
    return planted.reads_events(canonical.encode([event(size)]))


@written("session_snapshot")
def sent_snapshot(size):
    return sends(frames.Session(b'"' + b"s" * (size - 2) + b'"'))


@read("session_snapshot")
def stored_snapshot(size):
    return planted.reads_session(b'"' + b"s" * (size - 2) + b'"')


@written("bequest_hosts")
def hosts_left(number):
    hosts = Hosts(V1.producers)
    for each in range(number):
        hosts.add(f"host-{each}")
    return len(hosts.keys) == number


@written("bequest_running")
def running_left(number):
    run = Run(policy=ReportingPolicy.summary)
    run.apply(*(node(each) for each in range(number)))
    run.apply(*(state(each, "RUNNING") for each in range(number)))
    return len(run.take().bequest.running) == number


def left(**changes):
    fields = {
        "applied": 0,
        "edges_ended": None,
        "hosts": (),
        "nodes_ended": None,
        "producer": "",
        "reasons": (),
        "registered": 0,
        "running": (),
        "schema": 1,
        "stages": (),
    }
    data = bequest.encode(Bequest(**{**fields, **changes}))
    try:
        return bequest.decode(data) is not None
    except IntegrityFault:
        return False


@read("bequest_hosts")
def stored_hosts(number):
    return left(hosts=(bequest.key("a"),) * number)


@read("bequest_running")
def stored_running(number):
    return left(running=((1, 1),) * number)


def stage_row(**changes):
    fields = {
        "edges": (),
        "edges_omitted": 0,
        "failure": None,
        "folded": 0,
        "running": None,
        "schema": 1,
        "stages": (),
    }
    return canonical.encode(StageRow(**{**fields, **changes}))


def stage(index=0, label="s", durations=()):
    zeros = (0, 0, 0, 0, 0, 0, 0)
    return Stage(index, label, 0, 0, zeros, None, None, None, None, None, durations)


@written("stages")
def named_stages(number):
    # The last of them is `other`.
    made = Stages(V1)
    for place in range(number - 1):
        made.add(made.index(f"s{place}"), 0, retained=True)
    return not row_codec.decode(made.encode()).folded


@read("stages")
def stored_stages(number):
    made = tuple(stage(min(place, 63)) for place in range(number))
    return planted.reads_stages(stage_row(stages=made))


@written("stage_row", small=True)
def whole_stage_row(past):
    def row(size):
        made = Stages(limits(stage_row=size))
        made.link(made.index("a"), made.index("b"), 1)
        return made.encode()

    whole = row(10_000)
    return row(len(whole) - past) == whole


@read("stage_row")
def stored_stage_row(size):
    return planted.reads_stages(padded(stage_row(), size))


@written("stage_label")
def whole_stage_label(size):
    made = Stages(V1)
    made.add(made.index("s" * size), 0, retained=True)
    return row_codec.decode(made.encode()).stages[0].label == "s" * size


@read("stage_label")
def stored_stage_label(size):
    label = "é" * (size // 2) + "s" * (size % 2)
    return planted.reads_stages(stage_row(stages=(stage(label=label),)))


@written("stage_edges")
def kept_stage_edges(number):
    made = Stages(V1)
    for place in range(number):
        made.link(place // 64, place % 64, 1)
    return not row_codec.decode(made.encode()).edges_omitted


@read("stage_edges")
def stored_stage_edges(number):
    return planted.reads_stages(stage_row(edges=(StageEdge(0, 1, 1),) * number))


@written("stage_buckets")
def own_bucket(number):
    # The duration that would have the bucket of this number, were there so many.
    made = Stages(V1)
    made.add(made.index("s"), 0, retained=True)
    made.ended(0, START + bounds(number + 1)[number - 2], START)
    return len(row_codec.decode(made.encode()).stages[0].durations) == number


@read("stage_buckets")
def stored_buckets(number):
    return planted.reads_stages(stage_row(stages=(stage(durations=(1,) * number),)))


@written("series_buckets")
def whole_series(number):
    series = Series(V1.series_buckets)
    for place in range(number):
        series.observe(START + place * FIRST_WIDTH_MS, place)
    return series.value().width_ms == FIRST_WIDTH_MS


@read("series_buckets")
def stored_series(number):
    running = {"buckets": [1] * number, "from_ms": 0, "peak": 1, "width_ms": 1}
    return planted.reads_stages(stage_row(running=running))


@written("first_failure")
def whole_failure(size):
    made = Stages(V1)
    made.failed(0, "n", Failure("E", "t" * size))
    return row_codec.decode(made.encode()).failure.text == "t" * size


@read("first_failure")
def stored_failure(size):
    text = "é" * (size // 2) + "t" * (size % 2)
    failure = row_codec.FirstFailure(kind="E", node_id="n", ordinal=0, text=text)
    return planted.reads_stages(stage_row(failure=failure))


# The live boundary


@written("frame")
def whole_frame(size):
    def message(half, rest):
        arrays = [frames.States(0, bytes(n), bytes(n)) for n in (V1.frame_cut, half)]
        return frames.encode(frame(*arrays, frames.Event(START, "note", 0, "x" * rest)))

    missing = size - len(message(20_000, 100))
    data = message(20_000 + missing // 2, 100 + missing % 2)
    assert len(data) == size
    return takes(frames.decode, data)


@written("frame_records")
def records_of_a_frame(number):
    message = frame(*[progress(0, n + 1) for n in range(number)])
    return takes(frames.decode, frames.encode(message))


@written("producers")
def admitted_producers(number):
    ledger = Ledger(V1)
    first = msgspec.structs.replace(frame(), number=1, writer_epoch=0)
    found = [
        ledger.judge(msgspec.structs.replace(first, producer=n.to_bytes(16)), 1, 0)
        for n in range(number)
    ]
    return set(found) == {Status.OK}


def in_flight(kind, number):
    """Claim that a producer ever has so many frames in flight, with enough to say."""
    bench = Bench(kind)
    bench.handle.mute = True
    for ordinal in range(500):
        bench.producer.progress(report(ordinal, message="x" * 200))
    bench.turn(20, 1_000)
    return bench.handle.most >= number


@written("coordinator_window")
def coordinator_frames(number):
    return in_flight(ProducerKind.coordinator, number)


@written("worker_window")
def worker_frames(number):
    return in_flight(ProducerKind.worker, number)


def one_frame(kind, size):
    """Claim that records of a frame of this size travel in one."""
    whole, short = (
        len(frames.encode(report(1, message="m" * length))) for length in (1_500, 300)
    )
    number, left = divmod(size - HEADER - short, whole)
    bench = Bench(kind)
    for ordinal in range(number):
        bench.producer.progress(report(ordinal, message="m" * 1_500))
    bench.producer.progress(report(number, message="m" * (300 + left)))
    bench.turn(4, 1_000)
    return len(bench.frames()) == 1


@written("frame_cut")
def coordinator_cut(size):
    return one_frame(ProducerKind.coordinator, size)


@written("worker_frame")
def worker_cut(size):
    return one_frame(ProducerKind.worker, size)


@written("response_items")
def a_page(items):
    return page.capped(items) == items


@written("response_encoded")
def an_answer(size):
    room = size - page.ENVELOPE
    # Each item is sent with its quotes and a comma.
    found = [((0,), "x" * 997)] * (room // 1_000 - 1)
    found.append(((0,), "x" * (room - 1_000 * len(found) - 3)))
    return len(page.fit(found, len(found))) == len(found)


@written("cursor")
def a_cursor(size):
    said = cursor.Cursor(
        schema=cursor.SCHEMA,
        binding="0" * 64,
        run_id="",
        revision=1,
        topology_version=1,
        detail_revision=1,
        query="0" * 64,
        after=(0,),
        returned=1,
    )
    # A parser of JSON minds no spaces, so a sound cursor can have almost any size: where
    # base64 has none of this one, the next is taken.
    data = canonical.encode(said).ljust((size - 44) * 3 // 4)
    signed = Signer(salt=cursor.SALT).sign(b64_encode(data).decode())
    if len(signed) < size:
        signed = Signer(salt=cursor.SALT).sign(b64_encode(data + b" ").decode())
    try:
        return cursor.parse(signed, said.query) == said
    except InvalidCursor:
        return False
