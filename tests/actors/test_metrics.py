"""What metrics say: closed labels, differences, gauges that end, and nothing that raises."""

import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.chronicle import Chronicle
from actors.measures import BY_NAME, METRICS, OTHER, REASONS, Kind
from actors.metrics import RayMeter, make
from actors.telling import (
    FATES,
    PRODUCED,
    CollectorTeller,
    OwnerTeller,
    ProducerTeller,
    Rounds,
)
from django_ray.lifecycle.vocabulary import ActionKind, CallbackKind, CommandKind
from django_ray.progress.model import TALLIES
from django_ray.protocol import frames
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from tests.actors.rig import Rig, frame, node, state
from tests.actors.test_owner import Stand
from tests.fakes import RUN_ID, START_MS, FakeMeter

END = frames.End("SUCCEEDED", START_MS)
PROTOCOL = Path(frames.__file__).read_text()


@pytest.fixture
def meter():
    return FakeMeter()


class Told:
    """A run in one process whose collector tells a meter."""

    def __init__(self, meter):
        self.meter = meter
        self.rig = Rig()
        self.teller = CollectorTeller(self.rig.collector, meter, self.rig.clock)

    def tell(self, leaving=False):
        self.teller.tell(self.rig.publisher, leaving=leaving)

    def gauge(self, name, value=""):
        return self.meter.gauges[f"django_ray_{name}", value]

    def count(self, name, value=""):
        return self.meter.counters[f"django_ray_{name}_total", value]


@pytest.fixture
def told(meter):
    return Told(meter)


def test_every_name_is_prometheus_s_and_only_counters_end_in_total():
    assert len(BY_NAME) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"django_ray_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.counter)
        assert metric.help.endswith(".")
        assert bool(metric.label) == bool(metric.values)
        assert len(set(metric.values)) == len(metric.values)


def test_no_label_is_of_a_run_or_a_node():
    assert {metric.label for metric in METRICS} == {
        *("", "state", "fate", "reason", "status", "outcome")
    }


def test_every_tally_of_the_model_has_a_fate_in_the_table():
    assert set(FATES) == set(TALLIES)


def test_every_reason_a_frame_does_not_parse_for_is_in_the_table():
    raised = set(re.findall(r'ProtocolError\("(\w+)"\)', PROTOCOL))
    raised -= {"malformed_acknowledgement"}

    assert raised
    assert raised <= set(REASONS)


@given(
    name=st.sampled_from([metric.name for metric in METRICS]),
    value=st.one_of(st.text(), st.sampled_from([RUN_ID, *TALLIES, *NODE_STATES])),
)
def test_whatever_is_told_the_labels_stay_within_the_table(name, value):
    labels = []
    meter = RayMeter(lambda _metric: lambda _number, told: labels.append(told))

    meter.add(name, 1, value)
    meter.set(name, 1, value)

    metric = BY_NAME[name]
    if metric.label:
        assert {*map(str, metric.values), OTHER} >= {
            each[metric.label] for each in labels
        }
        assert all(set(each) == {metric.label} for each in labels)
    else:
        assert labels == [{}, {}]


def test_an_unknown_value_is_other():
    assert BY_NAME["django_ray_rejects_total"].closed(RUN_ID) == OTHER


@given(st.dictionaries(st.one_of(st.text(), st.sampled_from(TALLIES)), st.integers(0)))
def test_unknown_tallies_are_told_as_other(tallies):
    meter = FakeMeter()
    told = Told(meter)
    told.rig.publisher.tallies.update(tallies)

    told.tell()

    known = BY_NAME["django_ray_publications_total"].values
    counted = [told.count("publications", value) for value in (*known, OTHER)]
    assert sum(counted) == sum(tallies.values())


def test_a_run_s_nodes_frames_and_updates_are_told(told):
    for ordinal in range(3):
        told.rig.producer.node(node(ordinal))
        told.rig.producer.state(state(ordinal, NodeState.RUNNING))
    assert told.rig.settle()

    told.tell()

    assert told.gauge("collectors") == 1
    assert told.gauge("producers") == 1
    assert told.gauge("nodes", "RUNNING") == 3
    assert told.gauge("nodes", "FAILED") == 0
    assert told.gauge("lag_seconds") == 0
    assert told.count("updates", "applied") == 6
    assert told.count("frames", "applied") == len(told.rig.handle.sizes)
    assert told.count("frame_bytes") > 0
    assert told.count("publications", "published") == len(told.rig.store.publications)
    assert told.count("restarts") == 0


def test_counters_are_told_by_what_they_have_grown(told):
    told.rig.producer.node(node(0))
    assert told.rig.settle()
    told.tell()
    once = dict(told.meter.counters)
    told.tell()
    assert told.meter.counters == once

    told.rig.producer.node(node(1))
    assert told.rig.settle()
    told.tell()

    assert told.count("updates", "applied") == 2


def test_a_refused_frame_is_told_with_its_reason(told):
    told.rig.collector.ingest(b"", START_MS)
    told.rig.collector.ingest(frame(1, generation=9), START_MS)

    told.tell()

    assert told.count("frames", "refused") == 2
    assert told.count("frames", "applied") == 0
    assert told.count("rejects", "malformed_frame") == 1
    assert told.count("rejects", "foreign_generation") == 1


def test_what_waits_for_storage_is_a_lag_that_grows(told):
    told.rig.producer.node(node(0))
    assert told.rig.settle()
    told.rig.store.away = True
    told.rig.producer.node(node(1))
    told.rig.turn(40, 100)

    told.tell()

    assert 3 <= told.gauge("lag_seconds") <= 4
    assert told.count("publications", "unavailable") > 0
    told.rig.store.away = False
    assert told.rig.settle()
    told.tell()
    assert told.gauge("lag_seconds") == 0


def test_a_fenced_collector_is_told_once(told):
    told.rig.store.fenced = True
    told.rig.producer.node(node(0))
    told.rig.turn(5)

    told.tell()
    told.tell()

    assert told.count("publications", "fenced") == 1
    assert told.count("rejects", "task") > 0


def test_a_collector_that_goes_on_with_another_s_run_is_a_restart(told):
    told.rig.store.writer_epoch = 1
    told.rig.producer.node(node(0))
    told.rig.turn(3)

    told.tell()

    assert told.count("restarts") == 1


def test_a_collector_that_leaves_sets_its_gauges_to_nothing(told):
    told.rig.producer.node(node(0))
    assert told.rig.settle()
    told.tell()

    told.tell(leaving=True)

    assert set(told.meter.gauges.values()) == {0}


def test_a_publication_s_time_rows_and_bytes_are_told(meter):
    rig = Rig(
        after_commit=lambda publication: teller.committed(publication),
        observe=lambda step: teller.passed(step),
    )
    teller = CollectorTeller(rig.collector, meter, rig.clock)
    rig.producer.node(node(0))
    assert rig.settle()

    assert meter.counters["django_ray_published_rows_total", ""] == 1
    stored = sum(len(each.summary) for each in rig.store.publications)
    assert meter.counters["django_ray_published_bytes_total", ""] > stored
    assert len(meter.observed) == len(rig.store.publications)
    assert all(name == "django_ray_publication_seconds" for name, _ in meter.observed)


def test_a_producer_tells_what_it_merged_and_left_out(meter):
    rig = Rig(tell=ProducerTeller(meter).tell)
    rig.producer.node(node(0))
    rig.producer.state(state(0))
    rig.producer.state(state(0, NodeState.RUNNING))
    rig.producer.state(state(0))
    rig.producer.node(frames.Node(1, object(), "n", "stage", ()))
    rig.turn()

    updates = "django_ray_updates_total"
    assert [meter.counters[updates, fate] for fate in PRODUCED] == [1, 1, 1]


def test_a_producer_with_nothing_counted_loads_no_metrics():
    told = []
    rig = Rig(tell=told.append)
    rig.producer.node(node(0))
    assert rig.settle()

    assert told == []


def test_a_full_window_with_something_to_send_is_counted(meter):
    rig = Rig(tell=ProducerTeller(meter).tell)
    rig.handle.mute = True
    for ordinal in range(40):
        rig.producer.node(node(ordinal))
        rig.clock.advance(100)
        rig.producer.step(rig.clock())

    assert meter.counters["django_ray_window_refusals_total", ""] > 0


@pytest.fixture
def owner(meter):
    chronicle = Chronicle((), lambda: None)
    stand = Stand(news=chronicle)
    teller = OwnerTeller(chronicle.tallies, meter)
    yield stand, teller
    stand.owner.close()


def test_an_owner_tells_its_sessions_invocations_and_reuses(owner, meter):
    stand, teller = owner
    stand.owner.prepare()
    for _ in range(3):
        stand.invoke()
    teller.tell(leaving=False)

    assert meter.gauges["django_ray_owners", ""] == 1
    assert meter.counters["django_ray_sessions_total", "READY"] == 1
    assert meter.counters["django_ray_invocations_total", "SUCCEEDED"] == 3
    assert meter.counters["django_ray_graph_reuses_total", ""] == 2

    stand.owner.close()
    teller.tell(leaving=True)

    assert meter.gauges["django_ray_owners", ""] == 0
    assert meter.counters["django_ray_sessions_total", "TORN_DOWN"] == 1


def test_a_graph_that_was_built_again_is_not_used_again(owner, meter):
    stand, teller = owner
    stand.owner.prepare()
    stand.invoke()
    stand.engine.says[ActionKind.CHECK_HEALTH] = CallbackKind.UNHEALTHY
    stand.invoke()
    stand.invoke()
    teller.tell(leaving=False)

    assert meter.counters["django_ray_sessions_total", "READY"] == 2
    assert meter.counters["django_ray_invocations_total", "SUCCEEDED"] == 3
    assert meter.counters["django_ray_graph_reuses_total", ""] == 1


def test_a_session_that_drained_an_invocation_is_still_one_session(owner, meter):
    stand, teller = owner
    stand.owner.prepare()
    stand.engine.says[ActionKind.CONSUME_OUTPUT] = CallbackKind.APPLICATION_ERROR
    stand.invoke()
    stand.engine.says.clear()
    stand.invoke()
    teller.tell(leaving=False)

    assert meter.counters["django_ray_sessions_total", "READY"] == 1
    assert meter.counters["django_ray_invocations_total", "APPLICATION_ERROR"] == 1
    assert meter.counters["django_ray_graph_reuses_total", ""] == 1


def test_a_cancelled_invocation_is_told_by_its_outcome(owner, meter):
    stand, teller = owner
    stand.owner.prepare()
    stand.engine.during[ActionKind.ADMIT] = lambda: stand.control(
        CommandKind.CANCELLATION_REQUESTED
    )
    stand.invoke()
    teller.tell(leaving=False)

    outcome = "CANCELLED_PRE_SUBMISSION"
    assert meter.counters["django_ray_invocations_total", outcome] == 1
    assert meter.counters["django_ray_graph_reuses_total", ""] == 0


@pytest.mark.parametrize("where", ["making", "telling"])
def test_what_a_metric_raises_is_logged_once_and_left(where, caplog):
    def broken(*_given):
        raise RuntimeError

    meter = RayMeter(broken if where == "making" else lambda _metric: broken)

    for _ in range(3):
        meter.add("django_ray_restarts_total", 1)
        meter.set("django_ray_collectors", 1)
        meter.observe("django_ray_publication_seconds", 1.0)

    assert [record.message for record in caplog.records] == [
        "A metric could not be told."
    ]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_ray_takes_every_metric_of_the_table(metric, caplog):
    meter = RayMeter(make)

    tell = {Kind.counter: meter.add, Kind.gauge: meter.set}.get(metric.kind)
    for value in (*metric.values, OTHER):
        if tell is None:
            meter.observe(metric.name, 0.5)
        else:
            tell(metric.name, 1, value)

    assert caplog.records == []


def test_rounds_tell_at_once_and_for_the_last_time_once():
    said, began = [], threading.Event()

    def tell(leaving):
        said.append(leaving)
        began.set()

    rounds = Rounds(tell)
    rounds.start()
    assert began.wait(5)
    rounds.stop()
    rounds.stop()

    assert said == [False, True]


def test_an_actor_leaves_whatever_telling_raises(caplog):
    began = threading.Event()

    def tell(leaving):
        began.set()
        raise RuntimeError

    rounds = Rounds(tell)
    rounds.start()
    assert began.wait(5)
    rounds.stop()

    assert [record.message for record in caplog.records] == [
        "Metrics could not be told."
    ]
