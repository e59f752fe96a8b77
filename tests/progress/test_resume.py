"""Every part goes on from what is stored of it as if it had never stopped."""

import pytest
from msgspec import Raw

from django_ray.progress import bequest
from django_ray.progress.bequest import Bequest
from django_ray.progress.budget import Budget
from django_ray.progress.growth import Declared
from django_ray.progress.pages import check_pages
from django_ray.progress.ranks import Ranks
from django_ray.progress.recent import FAILED, MINUTE_MS, Endings, Events, Hosts
from django_ray.progress.resync import Resync
from django_ray.progress.rollup import Stages
from django_ray.progress.series import Series
from django_ray.progress.stages import OTHER_INDEX, decode
from django_ray.progress.standing import Standing
from django_ray.progress.topology import Topology
from django_ray.protocol import canonical, records
from django_ray.protocol.frames import NEWS, RESENT, States
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, EventItem, Fault, Omitted
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    NodeState,
    TruncationReason,
)
from tests.progress.making import START, Run, item, limits, node, state

LIMIT = TruncationReason.detail_size_limit


def grown(topology, first, after):
    nodes = [item(ordinal) for ordinal in range(first, after)]
    edges = [(ordinal, 1, (ordinal - 1, 1)) for ordinal in range(max(first, 1), after)]
    topology.extend(nodes, edges)


@pytest.mark.parametrize("nodes", [1, 7, 8, 9, 16, 30])
@pytest.mark.parametrize("more", [0, 1, 9])
def test_a_topology_goes_on_with_every_closed_page(nodes, more):
    given = limits(page_items=8)
    lived, died = Topology(given), Topology(given)
    grown(lived, 0, nodes)
    stored = lived.candidate(1)
    check_pages(stored.manifest, stored.pages)

    died.resume(stored.pages, {})
    lived.promoted(stored.manifest)
    for topology in (lived, died):
        grown(topology, nodes, nodes + more)

    assert died.candidate(2) == lived.candidate(2)
    assert died.detail_room == lived.detail_room


@pytest.mark.parametrize("kind", ["nodes", "edges"])
def test_a_topology_that_had_ended_takes_no_more(kind):
    lived, died = (Topology(limits(page_items=8)) for _ in range(2))
    grown(lived, 0, 5)
    stored = lived.candidate(1)

    died.resume(stored.pages, {kind: LIMIT})
    grown(died, 5, 9)

    counts = (died.node_count, died.edge_count)
    assert counts == ((5, 4) if kind == "nodes" else (9, 4))
    assert died.reasons == {LIMIT}


def test_ranks_go_on_from_what_pages_state():
    lived, died = Ranks(), Ranks()
    for ordinal in range(700):
        lived.add((ordinal - 1, 1) if ordinal % 3 else ())
    for ordinal in range(700):
        died.append(lived[ordinal])
    for runs in ((0, 700), (3, 1), (255, 300), (699, 1, 700, 5)):
        assert died.after(runs) == lived.after(runs)


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        (Detail(), None),
        (Detail(message="m" * 300), None),
        (Detail(message=Omitted(omitted=LIMIT)), LIMIT),
        (Detail(error=Fault(omitted=LIMIT)), LIMIT),
        (Detail(metrics={"omitted": str(LIMIT)}), LIMIT),
        (Detail(metrics={"omitted": 1}), None),
        (Detail(preview=Raw(canonical.encode(Omitted(omitted=LIMIT)))), LIMIT),
        (Detail(preview=Raw(b'{"omitted":1}')), None),
        (Detail(message=Omitted(omitted="unknown")), None),
    ],
)
def test_a_budget_knows_what_stored_rows_take_and_omit(detail, reason):
    size = len(records.encode(detail))
    budget = Budget(V1)

    budget.resume([size, 10], [detail, Detail()])

    assert budget.used == max(size, V1.node_reserve) + V1.node_reserve
    assert budget.reasons == ({reason} if reason else set())
    budget.begin(2, V1.run_encoded)
    assert budget.fit(0, detail) == records.encode(detail)
    assert budget.reasons == ({reason} if reason else set())
    budget.fit(0, Detail(message="found again"))
    assert budget.reasons == set()


def test_events_go_on_and_a_repeated_one_is_no_second():
    stored = [EventItem(START + n, FAILED if n % 2 else "other", n) for n in range(4)]
    events = Events(limits(events=4))
    events.resume(stored)
    for event in stored:
        events.add(event)
    assert records.decode_events(events.encode()) == tuple(stored)

    events.add(EventItem(START + 9, FAILED, 9))
    assert [each.ordinal for each in records.decode_events(events.encode())] == [
        *(1, 2, 3, 9)
    ]


def test_endings_go_on_by_minute():
    lived, died = Endings(), Endings()
    for minute in (0, 0, 3, 9):
        lived.add(START + minute * MINUTE_MS, START + 9 * MINUTE_MS)
    died.resume(START + 9 * MINUTE_MS, lived.until(START + 9 * MINUTE_MS))
    for endings in (lived, died):
        endings.add(START + 11 * MINUTE_MS, START + 11 * MINUTE_MS)
    at = START + 11 * MINUTE_MS
    assert died.until(at) == lived.until(at)


def test_hosts_are_known_again_by_their_keys():
    hosts = Hosts(V1.producers)
    hosts.resume([bequest.key("a"), bequest.key("b")], 2)
    assert len(hosts) == 2
    assert [hosts.add(name) for name in ("a", "c", "a", "b")] == [
        *(False, True, False, False)
    ]
    assert len(hosts) == 3
    assert len(hosts.keys) == 3


def test_a_count_of_more_hosts_than_are_told_apart_never_falls():
    hosts = Hosts(V1.producers)
    for number in range(V1.bequest_hosts + 10):
        hosts.add(f"host-{number}")
    assert len(hosts.keys) == V1.bequest_hosts

    again = Hosts(V1.producers)
    again.resume(hosts.keys, len(hosts))
    again.add("host-1")
    assert len(again) == V1.bequest_hosts + 10


def test_a_series_goes_on_at_the_level_that_lasted():
    lived, died = Series(8), Series(8)
    lived.observe(START, 3)
    lived.observe(START + 2_000, 5)
    died.resume(lived.value(), 5)
    for series in (lived, died):
        series.observe(START + 5_000, 1)
    assert died.value() == lived.value()


def test_declarations_are_told_again_in_a_bounded_number():
    lived, died = Declared(), Declared()
    for call in range(1, 5_001):
        lived.add(call, 2)

    calls = list(lived.calls())
    for call, number in calls:
        died.add(call, number)

    assert len(calls) <= 4_097
    assert calls[0] == (0, 2 * (5_000 - 4_096))
    assert died.total == lived.total == 10_000
    for declared in (lived, died):
        declared.add(5_000, 7)
        declared.add(5_001, 1)
    assert died.total == lived.total == 10_006


LABELS = ("a", "b" * 128, "c" * 129, "d" * 500)


def rolled(stages, labels):
    for label in labels:
        index = stages.index(label)
        stages.add(index, 2, retained=True)
        stages.link(0, index, 3)
    return stages


def test_stages_keep_their_indexes_also_where_their_labels_were_cut():
    lived, died = Stages(V1), Stages(V1)
    rolled(lived, LABELS)
    died.resume(decode(lived.encode()), lived.keys, {})

    assert [died.index(label) for label in reversed(LABELS)] == [3, 2, 1, 0]
    assert died.index("new") == lived.index("new") == 4
    assert died.keys == lived.keys
    assert rolled(died, LABELS).encode() == rolled(lived, LABELS).encode()


def test_stages_past_the_named_ones_share_one_after_a_death_too():
    lived, died = Stages(V1), Stages(V1)
    rolled(lived, [f"s{n}" for n in range(70)])
    died.resume(decode(lived.encode()), lived.keys, {})

    assert died.index("s62") == 62
    assert died.index("s63") == died.index("never seen") == OTHER_INDEX
    assert decode(died.encode()).folded == 7


def test_edges_that_a_row_left_out_come_from_the_topology():
    lived, died = (Stages(limits(stage_edges=1)) for _ in range(2))
    rolled(lived, LABELS)
    died.resume(decode(lived.encode()), lived.keys, {(0, 1): 1, (0, 2): 1, (0, 3): 1})

    row = decode(died.encode())
    assert (row.edges_omitted, row.edges[0].edges) == (3, 3)


def test_a_recount_sets_the_states_and_tells_the_level():
    stages = Stages(V1)
    rolled(stages, ("a", "b"))
    stages.recount({0: [0, 0, 4, 0, 0, 0, 0]}, START)

    row = decode(stages.encode())
    assert [stage.counts for stage in row.stages] == [
        (0, 0, 4, 0, 0, 0, 0),
        (0,) * 7,
    ]
    assert row.running.peak == 4
    stages.move(0, NodeState.RUNNING, NodeState.SUCCEEDED, START + 1_000)
    assert decode(stages.encode()).running.buckets == (4, 4)
    stages.move(0, NodeState.RUNNING, NodeState.SUCCEEDED, START + 2_000)
    assert decode(stages.encode()).running.buckets == (4, 4, 3)


def left(registered, running=()):
    return Bequest(
        applied=1,
        edges_ended=None,
        hosts=(),
        nodes_ended=None,
        producer="0" * 32,
        reasons=(),
        registered=registered,
        running=running,
        schema=1,
        stages=(),
    )


def resumed(bequest, *told):
    """Return a run that goes on from what was left, with three nodes submitted."""
    run = Run()
    run.model.resume(Standing(bequest=bequest))
    run.apply(States(0, b"\1\1\1", bytes(3)), *told, RESENT)
    return run


@pytest.mark.parametrize("first", [0, 1])
def test_counted_nodes_that_do_not_come_again_are_omitted_and_the_run_goes_on(first):
    run = resumed(left(3), *map(node, range(first)), NEWS, state(1, "SUCCEEDED"))
    run.apply(node(3), state(3, "RUNNING"))
    delta = run.take()

    counts = delta.counts
    assert (counts.submitted, counts.running, counts.succeeded) == (2, 1, 1)
    assert delta.reasons == {TruncationReason.topology_size_limit}
    assert len(delta.nodes) == first


def test_a_new_node_ends_the_waiting_for_those_before_it():
    delta = resumed(left(3), NEWS, node(3), state(3, "RUNNING")).take()

    assert (delta.counts.submitted, delta.counts.running) == (3, 1)
    assert delta.nodes == []


def test_counted_nodes_that_come_late_are_retained():
    delta = resumed(left(3), NEWS, *map(node, range(4)), state(3, "RUNNING")).take()

    assert (delta.counts.submitted, delta.counts.running) == (3, 1)
    assert len(delta.nodes) == 4
    assert delta.reasons == set()


@pytest.mark.parametrize(("try_", "running"), [(1, 1), (2, 0), (32, 0)])
def test_a_running_node_is_of_a_try_that_the_coordinator_knows(try_, running):
    run = resumed(left(3, ((2, try_),)), NEWS)
    assert run.take().counts.running == running

    run.apply(state(2, "SUCCEEDED"))
    assert run.take().counts.succeeded == 1


@pytest.mark.parametrize("ordinal", [-1, 3, 2**31 - 1])
def test_a_node_that_ran_and_that_nobody_has_is_left_out(ordinal):
    run = Run()
    fault, ran = DetailAvailability.MISSING, ((ordinal, 1), (1, 1))
    run.model.resume(Standing(fault=fault, running=ran))
    run.apply(States(0, b"\1\1\1", bytes(3)), NEWS, RESENT)

    counts = run.take().counts
    assert (counts.submitted, counts.running) == (2, 1)


@pytest.mark.parametrize(
    ("firsts", "taken"), [((0, 2, 4), 6), ((0, 4), 2), ((0, 2, 0), 2), ((2,), 0)]
)
def test_arrays_are_put_together_from_the_first_on(firsts, taken):
    resync = Resync()
    for first in firsts:
        resync.put(States(first, b"\1\2", b"\3\4"))
    assert len(resync) == len(resync.stages) == taken
    assert resync.repeats is (0 in firsts)
    resync.close()
    assert (len(resync), resync.repeats) == (0, False)
