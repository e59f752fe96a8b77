import json
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.errors import IntegrityFault, LimitExceeded
from django_ray.identity import MAXIMUM_63
from django_ray.progress import stages as stage_row
from django_ray.progress.durations import bounds, quantiles
from django_ray.progress.rollup import Stages
from django_ray.progress.stages import OTHER_INDEX
from django_ray.protocol import canonical
from django_ray.protocol.frames import MAXIMUM_MILLISECONDS, Failure
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.vocabulary import NODE_STATES, DetailAvailability, NodeState
from tests.recording import replay

PENDING, SUBMITTED, RUNNING, SUCCEEDED, FAILED, CANCELLED, SKIPPED = NODE_STATES
START = 1_700_000_000_000


@pytest.fixture
def stages():
    return Stages(V1)


def row(stages):
    return stage_row.decode(stages.encode())


def small(limits=V1):
    """Return two stages of a few nodes with everything a row can hold."""
    stages = Stages(limits)
    for label, rank in (("app.load", 0), ("app.load", 0), ("sums é", 1)):
        stages.add(stages.index(label), rank, retained=True)
    stages.link(0, 1, 2)
    stages.move(0, PENDING, RUNNING, START)
    stages.started(0, START)
    stages.move(0, RUNNING, SUCCEEDED, START + 1_500)
    stages.ended(0, START + 1_500, START)
    stages.move(0, PENDING, FAILED, START + 2_000)
    stages.ended(0, START + 2_000, None)
    stages.failed(1, "1.load#2", Failure(kind="ValueError", text="no such column"))
    stages.move(1, PENDING, SKIPPED, START + 2_000)
    return stages


def test_a_recorded_stage_row_is_replayed_byte_for_byte():
    recorded = replay("stages.json", small().encode())
    decoded = stage_row.decode(recorded)
    assert canonical.encode(decoded) == recorded
    load, sums = decoded.stages
    assert (load.label, load.kept, load.counts) == (
        "app.load",
        2,
        (0, 0, 0, 1, 1, 0, 0),
    )
    assert (sums.rank, sums.counts) == (1, (0, 0, 0, 0, 0, 0, 1))
    assert decoded.edges == (stage_row.StageEdge(source=0, target=1, edges=2),)
    assert decoded.failure.node_id == "1.load#2"


def test_every_struct_declares_its_fields_in_canonical_order():
    for kind in (stage_row.StageRow, stage_row.FirstFailure, stage_row.Running):
        names = list(kind.__struct_encode_fields__)
        assert names == sorted(names)


def test_an_empty_row_is_a_row(stages):
    empty = row(stages)
    assert (empty.stages, empty.edges, empty.failure, empty.running) == (
        (),
        (),
        None,
        None,
    )


def test_stages_are_numbered_in_order_of_first_node(stages):
    assert [stages.index(label) for label in ("b", "a", "b", "c", "a")] == [
        0,
        1,
        0,
        2,
        1,
    ]


def test_63_stages_are_named_and_the_rest_is_other(stages):
    assert [stages.index(f"s{place}") for place in range(63)] == list(range(63))
    assert stages.index("s63") == OTHER_INDEX
    assert stages.index("s64") == OTHER_INDEX
    assert stages.index("s63") == OTHER_INDEX
    assert stages.index("s62") == 62
    for place in (2, 62, OTHER_INDEX):
        stages.add(place, 4, retained=False)
    found = row(stages)
    assert [stage.label for stage in found.stages] == ["s2", "s62", "other"]
    assert found.folded == 2


def test_a_stage_the_user_calls_other_is_another(stages):
    stages.add(stages.index("other"), 0, retained=True)
    stages.add(OTHER_INDEX, 3, retained=True)
    assert [(stage.index, stage.label) for stage in row(stages).stages] == [
        (0, "other"),
        (63, "other"),
    ]


def test_how_many_share_other_is_counted_up_to_a_bound():
    stages = Stages(Limits(stages=2, retained_nodes=3))
    for place in range(10):
        stages.index(f"s{place}")
    assert row(stages).folded == 3


def test_the_rank_of_a_stage_is_the_least_of_its_nodes(stages):
    for rank in (5, 3, 7):
        stages.add(0, rank, retained=False)
    assert row(stages).stages[0].rank == 3


def test_retained_nodes_are_counted_apart(stages):
    for retained in (True, True, False):
        stages.add(0, 0, retained=retained)
    assert row(stages).stages[0].kept == 2
    assert row(stages).stages[0].counts[0] == 3


@pytest.mark.parametrize("before", NODE_STATES)
@pytest.mark.parametrize("after", NODE_STATES)
def test_a_move_takes_one_and_gives_one(stages, before, after):
    stages.add(0, 0, retained=True)
    stages.move(0, PENDING, before, START)
    stages.move(0, before, after, START + 1)
    expected = [0] * 7
    expected[NODE_STATES.index(after)] = 1
    assert list(row(stages).stages[0].counts) == expected


def test_a_node_that_was_not_counted_yet_is_counted_by_its_move(stages):
    stages.move(0, None, RUNNING, START)
    assert row(stages).stages[0].counts == (0, 0, 1, 0, 0, 0, 0)


def test_the_first_start_and_the_last_end_are_kept(stages):
    for at_ms in (START + 5, START + 1, START + 9):
        stages.started(0, at_ms)
        stages.ended(0, at_ms + 100, at_ms)
    stage = row(stages).stages[0]
    assert (stage.started_ms, stage.ended_ms) == (START + 1, START + 109)


def test_an_end_without_a_start_has_no_duration(stages):
    stages.ended(0, START, None)
    stage = row(stages).stages[0]
    assert stage.ended_ms == START
    assert (stage.p50_ms, stage.p95_ms, stage.longest_ms, stage.durations) == (
        *(None, None, None),
        (),
    )


def test_an_end_before_its_start_lasted_nothing(stages):
    stages.ended(0, START, START + 50)
    assert row(stages).stages[0].longest_ms == 0


@pytest.mark.parametrize(
    ("duration", "bucket"),
    [
        (0, 0),
        (3, 0),
        (4, 1),
        (5, 1),
        (6, 2),
        (bounds(48)[-1] - 1, 46),
        (bounds(48)[-1], 47),
        (MAXIMUM_MILLISECONDS - START, 47),
    ],
)
def test_a_duration_is_counted_in_its_bucket(stages, duration, bucket):
    stages.ended(0, START + duration, START)
    stage = row(stages).stages[0]
    assert len(stage.durations) == bucket + 1
    assert stage.durations[bucket] == sum(stage.durations) == 1
    assert stage.longest_ms == duration


@pytest.mark.parametrize("share", [0.5, 0.95])
@pytest.mark.parametrize("spread", ["even", "skewed", "same"])
def test_a_quantile_is_near_the_true_one(stages, share, spread):
    choose = random.Random(7)
    durations = sorted(
        {
            "even": lambda: choose.uniform(100, 10_000),
            "skewed": lambda: choose.lognormvariate(7, 1.5),
            "same": lambda: 5_000,
        }[spread]()
        for _ in range(2_000)
    )
    for duration in durations:
        stages.ended(0, START + round(duration), START)
    stage = row(stages).stages[0]
    found = stage.p50_ms if share == 0.5 else stage.p95_ms
    true = durations[int(share * len(durations))]
    assert 0.8 <= found / true <= 1.25
    assert [found] == quantiles(stage.durations, [share], stage.longest_ms)


def test_a_quantile_never_passes_the_longest(stages):
    stages.ended(0, START + 5_000, START)
    stage = row(stages).stages[0]
    assert stage.p50_ms <= stage.p95_ms <= 5_000


def test_stage_edges_are_added_up_heaviest_first(stages):
    for source, target, edges in ((0, 1, 2), (1, 2, 9), (0, 1, 3), (2, 2, 5)):
        stages.link(source, target, edges)
    assert [(edge.source, edge.target, edge.edges) for edge in row(stages).edges] == [
        (1, 2, 9),
        (0, 1, 5),
        (2, 2, 5),
    ]


@pytest.mark.parametrize(
    ("edges", "omitted"), [(255, 0), (256, 0), (257, 1), (4_096, 3_840)]
)
def test_the_256_heaviest_edges_are_kept(stages, edges, omitted):
    pairs = [(source, target) for source in range(64) for target in range(64)][:edges]
    for weight, (source, target) in enumerate(pairs, 1):
        stages.link(source, target, weight)
    found = row(stages)
    assert (len(found.edges), found.edges_omitted) == (edges - omitted, omitted)
    assert [edge.edges for edge in found.edges] == list(range(edges, omitted, -1))


def test_the_failure_applied_first_is_kept(stages):
    stages.failed(7, "a", Failure(kind="E", text="first"))
    stages.failed(3, "b", Failure(kind="E", text="second"))
    assert row(stages).failure == stage_row.FirstFailure(
        kind="E", node_id="a", ordinal=7, text="first"
    )


@pytest.mark.parametrize("size", [255, 256, 257, 1_900])
def test_the_text_of_the_first_failure_is_cut_to_256_bytes(stages, size):
    stages.failed(7, "a", Failure(kind="E", text="t" * size))
    text = row(stages).failure.text
    assert len(text.encode()) == min(size, 256)
    assert text.endswith("bytes]") is (size > 256)


def test_a_failure_without_an_error_is_kept_too(stages):
    stages.failed(7, "a", None)
    assert row(stages).failure.text == ""


def test_nodes_running_at_once_are_told_over_all_stages(stages):
    for place in range(3):
        stages.move(place, None, RUNNING, START + place)
    stages.move(0, RUNNING, RUNNING, START + 4)
    stages.move(1, RUNNING, SUCCEEDED, START + 2_000)
    running = row(stages).running
    assert (running.from_ms, running.peak, running.buckets) == (START, 3, (3, 3, 3))


@pytest.mark.parametrize("size", [127, 128, 129, 512])
def test_a_label_is_cut_to_128_bytes_with_a_marker(stages, size):
    stages.add(stages.index("s" * size), 0, retained=True)
    label = row(stages).stages[0].label
    assert len(label.encode()) <= 128
    assert label.endswith("…") is (size > 128)


def test_stages_with_equal_beginnings_stay_apart(stages):
    for tail in "ab":
        stages.add(stages.index("s" * 200 + tail), 0, retained=True)
    assert len(row(stages).stages) == 2


def heaviest(limits):
    """Return the largest rollup the limits allow, in every part."""
    stages = Stages(limits)
    for place in range(limits.stages + 5):
        index = stages.index(f"{place:03}" + '"' * 509)
        stages.add(index, 2**31 - 1, retained=True)
        for bucket in (0, *bounds(limits.stage_buckets)):
            for _ in range(11):
                stages.ended(index, START + bucket, START)
        stages.started(index, START)
    for source in range(64):
        for target in range(64):
            stages.link(source, target, 2**31 - 1 - source)
    for step in range(2_000):
        stages.move(0, None, RUNNING, START + step * 60_000)
    stages.failed(2**31 - 1, '"' * 256, Failure(kind='"' * 128, text='"' * 1_900))
    return stages


def test_the_heaviest_row_is_within_64_kib_and_whole_in_its_counts():
    data = heaviest(V1).encode()
    assert len(data) <= V1.stage_row
    found = stage_row.decode(data)
    assert len(found.stages) == 64
    assert all(sum(stage.counts) for stage in found.stages)


@pytest.mark.parametrize("limit", [60, 48, 40, 32, 24, 16])
def test_what_does_not_fit_gives_way_and_says_so(limit):
    limits = Limits(stage_row=limit * 1_024)
    data = heaviest(limits).encode()
    assert len(data) <= limits.stage_row
    found = stage_row.decode(data)
    assert len(found.stages) == 64
    assert len(found.edges) + found.edges_omitted == 4_096
    assert all(stage.p95_ms is not None for stage in found.stages)


def test_the_row_at_its_limit_gives_nothing_away():
    whole = small().encode()

    def under(limit):
        return small(Limits(stage_row=limit)).encode()

    assert under(len(whole) + 1) == under(len(whole)) == whole
    less = stage_row.decode(under(len(whole) - 1))
    assert (less.edges, less.edges_omitted) == ((), 1)


def test_a_limit_that_cannot_hold_the_stages_is_an_error():
    with pytest.raises(LimitExceeded) as caught:
        heaviest(Limits(stage_row=4_096)).encode()
    assert caught.value.boundary == "stage_row"


def test_encoding_changes_nothing(stages):
    for label in "abc":
        stages.add(stages.index(label), 0, retained=True)
    assert stages.encode() == stages.encode()


def test_the_row_does_not_depend_on_the_order_of_the_edges():
    links = [(source, target, 1) for source in range(20) for target in range(20)]
    rows = set()
    for seed in range(3):
        random.Random(seed).shuffle(links)
        stages = Stages(V1)
        for link in links:
            stages.link(*link)
        rows.add(stages.encode())
    assert len(rows) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"\xff",
        small().encode()[:-1],
        small().encode().replace(b'"schema":1', b'"schema":2'),
        small().encode().replace(b'"folded":0', b'"folded":-1'),
        small().encode().replace(b'"folded":0', b'"folded":0,"more":1'),
        small().encode().replace(b"[0,1,2]", b"[0,64,2]"),
        msgspec.json.encode([1]),
    ],
)
def test_bytes_that_are_no_row_are_corrupt(data):
    with pytest.raises(IntegrityFault) as caught:
        stage_row.decode(data)
    assert caught.value.availability == DetailAvailability.CORRUPT


def with_number(place, number):
    """Return a row with one of its numbers replaced."""
    told = json.loads(small().encode())
    *path, last = place
    at = told
    for step in path:
        at = at[step]
    at[last] = number
    return json.dumps(told).encode()


NUMBERS = {
    "edge": ("edges", 0, 2),
    "edges omitted": ("edges_omitted",),
    "failed node": ("failure", "ordinal"),
    "folded": ("folded",),
    "rank": ("stages", 0, 2),
    "kept": ("stages", 0, 3),
    "count": ("stages", 0, 4, 0),
    "median": ("stages", 0, 7),
    "longest": ("stages", 0, 9),
    "durations": ("stages", 0, 10, 0),
    "bucket": ("running", "buckets", 0),
    "peak": ("running", "peak"),
    "width": ("running", "width_ms"),
}
TIMES = {
    "started": ("stages", 0, 5),
    "ended": ("stages", 0, 6),
    "from": ("running", "from_ms"),
}
BOUNDS = [(place, MAXIMUM_63) for place in NUMBERS.values()] + [
    (place, MAXIMUM_MILLISECONDS) for place in TIMES.values()
]


@pytest.mark.parametrize(("place", "bound"), BOUNDS, ids=[*NUMBERS, *TIMES])
def test_a_stored_number_is_within_its_bound(place, bound):
    stage_row.decode(with_number(place, bound))
    for number in (bound + 1, -1, 10**30):
        with pytest.raises(IntegrityFault) as caught:
            stage_row.decode(with_number(place, number))
        assert caught.value.availability == DetailAvailability.CORRUPT


def test_counts_stay_exact_through_any_sequence_of_moves(stages):
    choose = random.Random(3)
    nodes = []
    for _ in range(300):
        stage = stages.index(f"s{choose.randrange(100)}")
        stages.add(stage, 0, retained=False)
        nodes.append([stage, PENDING])
    for step in range(3_000):
        node = choose.choice(nodes)
        after = choose.choice(NODE_STATES)
        stages.move(node[0], node[1], after, START + step)
        node[1] = after
    found = {stage.index: stage.counts for stage in row(stages).stages}
    for index, counts in found.items():
        for code, state in enumerate(NODE_STATES):
            assert counts[code] == nodes.count([index, state])
    assert sum(map(sum, found.values())) == 300
    assert sum(counts[2] for counts in found.values()) == sum(
        state is NodeState.RUNNING for _, state in nodes
    )


@given(st.data())
def test_a_row_is_the_same_however_often_it_was_encoded_before(data):
    limits = data.draw(st.sampled_from([V1, Limits(stage_row=2_000)]))
    once, often = Stages(limits), Stages(limits)
    index, count = st.integers(0, 3), st.integers(0, 10**6)
    steps = {
        "index": st.tuples(st.sampled_from(["a", "b", "c" * 200])),
        "link": st.tuples(index, index, count),
        "move": st.tuples(index, st.none(), st.sampled_from(NODE_STATES), count),
        "started": st.tuples(index, count),
        "ended": st.tuples(index, count, count),
    }
    for name in data.draw(st.lists(st.sampled_from(sorted(steps)), max_size=30)):
        arguments = data.draw(steps[name])
        for stages in (once, often):
            getattr(stages, name)(*arguments)
        often.encode()
    assert often.encode() == once.encode()
