import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.errors import GraphRefused
from django_ray.progress.graph import Graph
from django_ray.protocol import frames
from django_ray.protocol.limits import V1, Limits


@pytest.fixture
def graph():
    return Graph(V1)


def add(graph, count, start=0):
    for place in range(start, start + count):
        graph.register(f"n{place}", "label", "stage", ())


def test_nodes_get_dense_ordinals_in_order_of_registration(graph):
    ordinals = [graph.register(f"n{place}", "l", "s", ())[0] for place in range(5)]
    assert ordinals == [0, 1, 2, 3, 4]
    assert len(graph) == 5


def test_a_record_tells_of_the_node(graph):
    graph.register("a", "l", "s", ())
    assert graph.register("b", "app.b", "bs", [0]) == (
        1,
        frames.Node(ordinal=1, id="b", label="app.b", stage="bs", dependencies=(0, 1)),
    )


def test_an_identical_node_is_not_registered_again(graph):
    add(graph, 3)
    first = graph.register("x", "l", "s", [0, 2])
    assert graph.register("x", "l", "s", [2, 0, 0]) == (first[0], None)
    assert len(graph) == 4


@pytest.mark.parametrize(
    "other",
    [
        ("other", "s", [0]),
        ("l", "other", [0]),
        ("l", "s", [1]),
        ("l", "s", []),
        ("l", "s", [0, 1]),
        ("ls", "", [0]),
        ("", "ls", [0]),
    ],
)
def test_a_different_node_under_the_same_id_is_refused(graph, other):
    add(graph, 2)
    graph.register("x", "l", "s", [0])
    with pytest.raises(GraphRefused) as caught:
        graph.register("x", *other)
    assert caught.value.reason == "another node stands under the same id"
    assert len(graph) == 3


@pytest.mark.parametrize(
    "node_id", ["n" * 255, "n" * 256, "é" * 128, "日本", "a b", "."]
)
def test_an_id_within_its_bound_is_registered(graph, node_id):
    assert graph.register(node_id, "", "", ())[1].id == node_id


@pytest.mark.parametrize(
    ("node_id", "reason"),
    [
        ("n" * 257, "node_id is 257 bytes; the limit is 256"),
        ("é" * 129, "node_id is 258 bytes; the limit is 256"),
        ("é" * 300, "node_id is 600 bytes; the limit is 256"),
        ("", "a node id is empty"),
        (None, "a node id is not text"),
        (b"n", "a node id is not text"),
        ("hunter2\x00", "node_id holds control characters or unpaired surrogates"),
        ("hunter2\ud800", "node_id holds control characters or unpaired surrogates"),
        ("\x1b[31mhunter2", "node_id holds control characters or unpaired surrogates"),
        ("hunter2\n", "node_id holds control characters or unpaired surrogates"),
    ],
)
def test_a_malformed_id_is_refused_without_its_value(graph, node_id, reason):
    with pytest.raises(GraphRefused) as caught:
        graph.register(node_id, "l", "s", ())
    assert caught.value.reason == reason
    assert "hunter2" not in str(caught.value)
    assert len(graph) == 0


@pytest.mark.parametrize("dependencies", [[3], [-1], [0, 3], range(4), range(2, 9)])
def test_an_unknown_dependency_is_refused(graph, dependencies):
    add(graph, 3)
    with pytest.raises(GraphRefused) as caught:
        graph.register("x", "l", "s", dependencies)
    assert caught.value.reason == "a dependency is not registered"
    assert len(graph) == 3


@pytest.mark.parametrize("dependencies", [["0"], [0.0], [None], [True, 2]])
def test_a_dependency_that_is_no_ordinal_is_refused(graph, dependencies):
    add(graph, 3)
    with pytest.raises(GraphRefused):
        graph.register("x", "l", "s", dependencies)


def test_a_refused_node_can_be_registered_rightly_afterwards(graph):
    add(graph, 1)
    with pytest.raises(GraphRefused):
        graph.register("x", "l", "s", [5])
    assert graph.register("x", "l", "s", [0])[0] == 1


def test_labels_are_made_to_fit(graph):
    record = graph.register("x", "a\nb" + "é" * 300, "s" * 600, ())[1]
    assert record.label.startswith("a\ufffdb")
    assert record.label.endswith("…")
    assert len(record.label.encode()) <= 512
    assert len(record.stage.encode()) == 512


@pytest.mark.parametrize(
    ("dependencies", "runs"),
    [
        ((), ()),
        (range(0), ()),
        ([4], (4, 1)),
        (range(10), (0, 10)),
        (range(3, 7), (3, 4)),
        (range(0, 9, 3), (0, 1, 3, 1, 6, 1)),
        ([9, 0, 1, 5, 1, 4], (0, 2, 4, 2, 9, 1)),
        ((ordinal for ordinal in (2, 3)), (2, 2)),
        ({7, 8, 9}, (7, 3)),
    ],
)
def test_dependencies_are_told_as_ascending_runs(graph, dependencies, runs):
    add(graph, 10)
    record = graph.register("x", "l", "s", dependencies)[1]
    assert (record.dependencies, record.further) == (runs, 0)


@pytest.mark.parametrize(
    ("runs", "told", "further"), [(1, 1, 0), (2, 2, 0), (3, 2, 1), (5, 2, 3)]
)
def test_runs_past_the_limit_are_counted_only(runs, told, further):
    graph = Graph(Limits(dependency_runs=2))
    add(graph, 10)
    record = graph.register("x", "l", "s", range(0, 2 * runs, 2))[1]
    assert len(record.dependencies) == 2 * told
    assert record.further == further


@given(st.lists(st.sets(st.integers(0, 30), max_size=6), max_size=25))
def test_every_record_passes_the_wire(wanted):
    graph = Graph(V1)
    records = []
    for place, dependencies in enumerate(wanted):
        known = [ordinal for ordinal in dependencies if ordinal < place]
        records.append(graph.register(f"n{place}", "l", "s", known)[1])
        runs = records[-1].dependencies
        expanded = [
            ordinal
            for first, count in zip(runs[::2], runs[1::2], strict=True)
            for ordinal in range(first, first + count)
        ]
        assert expanded == sorted(known)
    frame = frames.Frame(
        format=frames.FORMAT,
        run_id="0" * 36,
        generation=1,
        producer=b"p" * 16,
        kind=frames.ProducerKind.coordinator,
        number=1,
        writer_epoch=0,
        records=tuple(records),
    )
    assert frames.decode(frames.encode(frame)) == frame


def test_the_same_registrations_give_the_same_records():
    def build():
        graph = Graph(V1)
        return [
            graph.register(f"n{place}", "l", "s", {place // 2, place // 3} - {place})[1]
            for place in range(50)
        ]

    assert build() == build()


def test_a_join_of_all_costs_little_more_than_one_of_two():
    graph = Graph(V1)
    add(graph, 20_000)
    started = time.thread_time()
    for place in range(50):
        graph.register(f"two{place}", "l", "s", [0, 19_999])
    two = time.thread_time() - started
    started = time.thread_time()
    for place in range(50):
        graph.register(f"all{place}", "l", "s", range(20_000))
    whole = time.thread_time() - started
    assert whole <= 60 * two + 0.005
