import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.progress.counters import MAXIMUM_TRY, Change, Counters, byte
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import CODES, NODE_STATES, RANKS, NodeState

PENDING, SUBMITTED, RUNNING, SUCCEEDED, FAILED, CANCELLED, SKIPPED = NODE_STATES


def filled(count, stage=0):
    counters = Counters()
    for _ in range(count):
        counters.add(stage)
    return counters


def test_a_new_node_is_pending_in_its_first_try():
    counters = Counters()
    assert [counters.add(5), counters.add(63)] == [0, 1]
    assert (counters.state(1), counters.try_(1), counters.stage(1)) == (PENDING, 1, 63)
    assert counters.counts() == NodeCounts(pending=2)
    assert len(counters) == 2


def test_ranks_are_the_contract_s():
    assert RANKS == {
        PENDING: 0,
        SUBMITTED: 1,
        RUNNING: 2,
        SUCCEEDED: 3,
        FAILED: 3,
        CANCELLED: 3,
        SKIPPED: 3,
    }


@pytest.mark.parametrize("before", NODE_STATES)
@pytest.mark.parametrize("after", NODE_STATES)
def test_put_sets_any_state_and_tells_the_one_before(before, after):
    counters = filled(3, stage=9)
    counters.put(1, before, 1)
    assert counters.put(1, after, 2) is before
    assert (counters.state(1), counters.try_(1), counters.stage(1)) == (after, 2, 9)
    assert counters.counts().of(after) == (3 if after is PENDING else 1)
    assert counters.count(after) == counters.counts().of(after)
    assert counters.counts().total == 3


@pytest.mark.parametrize("before", NODE_STATES)
@pytest.mark.parametrize("after", NODE_STATES)
def test_an_omitted_node_advances_by_rank_within_a_try(before, after):
    counters = filled(1)
    counters.put(0, before, 3)
    advanced = counters.advance(0, after, 3)
    assert advanced == (before if RANKS[after] > RANKS[before] else None)
    assert counters.state(0) is (after if advanced is not None else before)


@pytest.mark.parametrize("before", NODE_STATES)
@pytest.mark.parametrize("after", NODE_STATES)
def test_a_later_try_reopens_and_an_older_one_is_stale(before, after):
    counters = filled(1)
    counters.put(0, before, 3)
    assert counters.advance(0, after, 2) is None
    assert counters.advance(0, after, 4) is before
    assert (counters.state(0), counters.try_(0)) == (after, 4)


def test_a_32nd_retry_of_an_omitted_node_is_refused():
    counters = filled(1)
    assert counters.advance(0, RUNNING, 31) is PENDING
    assert counters.advance(0, RUNNING, 32) is RUNNING
    assert counters.advance(0, RUNNING, 33) is None
    assert (counters.state(0), counters.try_(0)) == (RUNNING, MAXIMUM_TRY)


def test_the_try_of_a_retained_node_saturates():
    counters = filled(1)
    for try_, told in ((31, 31), (32, 32), (33, 32), (2**31 - 1, 32)):
        counters.put(0, RUNNING, try_)
        assert (counters.state(0), counters.try_(0)) == (RUNNING, told)


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ((), []),
        ((2, 1), [(1, 1)]),
        ((0, 6), [(0, 2), (1, 3), (63, 1)]),
        ((0, 1, 5, 1), [(0, 1), (63, 1)]),
        ((1, 2, 4, 99), [(0, 1), (1, 1), (1, 1), (63, 1)]),
        ((6, 3), []),
    ],
)
def test_the_nodes_of_runs_are_counted_by_stage(runs, found):
    counters = Counters()
    for stage in (0, 0, 1, 1, 1, 63):
        counters.add(stage)
    assert list(counters.stages_of(runs)) == found


def test_chunks_hold_both_arrays_by_ordinal():
    counters = filled(5, stage=1)
    counters.put(3, FAILED, 2)
    chunks = list(counters.chunks(2))
    assert [(chunk.first, len(chunk.states)) for chunk in chunks] == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]
    assert b"".join(chunk.stages for chunk in chunks) == b"\x01" * 5
    assert b"".join(chunk.states for chunk in chunks) == bytes([0, 0, 0, 4 | 8, 0])
    assert list(Counters().chunks(2)) == []


def all_states(counters):
    return b"".join(chunk.states for chunk in counters.chunks(7))


def various(number):
    counters = filled(number, stage=2)
    for ordinal in range(number):
        counters.put(ordinal, NODE_STATES[ordinal % 7], 1 + ordinal % 40)
    return counters


def test_an_array_fills_in_what_is_not_known():
    counters, other = various(100), filled(100, stage=2)
    changes = list(other.merge(all_states(counters)))
    assert other.counts() == counters.counts()
    assert list(other.chunks(1_000)) == list(counters.chunks(1_000))
    assert changes[3] == Change(4, PENDING, FAILED)
    assert [each.ordinal for each in changes if each.ordinal < 10] == [
        *range(1, 7),
        *range(7, 10),
    ]


def test_nodes_are_counted_with_what_their_bytes_say():
    counters, other = various(100), filled(3, stage=1)
    other.extend(all_states(counters), b"\x02" * 100)
    assert len(other) == 103
    assert other.count(PENDING) == counters.count(PENDING) + 3
    assert other.count(FAILED) == counters.count(FAILED)
    assert (other.state(7), other.try_(7), other.stage(7)) == (FAILED, 5, 2)


@pytest.mark.parametrize("try_", [1, 2, 32, 33])
def test_a_node_s_byte_says_its_state_and_try(try_):
    counters = Counters()
    counters.extend(bytes([byte(FAILED, try_)]), b"\0")
    assert (counters.state(0), counters.try_(0)) == (FAILED, min(try_, MAXIMUM_TRY))


def test_the_nodes_of_each_stage_are_counted_by_state():
    counters = Counters()
    for stage, state in ((0, RUNNING), (0, FAILED), (5, RUNNING), (5, RUNNING)):
        counters.put(counters.add(stage), state, 9)
    assert counters.by_stage() == {0: [0, 0, 1, 0, 1, 0, 0], 5: [0, 0, 2, 0, 0, 0, 0]}


def test_merging_again_changes_nothing():
    counters = filled(10)
    counters.put(4, RUNNING, 2)
    other = filled(10)
    for _ in range(2):
        changes = list(other.merge(all_states(counters)))
    assert changes == []
    assert other.counts() == counters.counts()


def test_merging_never_moves_a_node_back():
    counters = filled(3)
    counters.put(0, SUCCEEDED, 1)
    counters.put(1, RUNNING, 2)
    states = bytes([CODES[RUNNING], CODES[SUCCEEDED], CODES[SUBMITTED]])
    assert list(counters.merge(states)) == [Change(2, PENDING, SUBMITTED)]
    assert counters.state(0) is SUCCEEDED
    assert (counters.state(1), counters.try_(1)) == (RUNNING, 2)


def test_an_array_tells_of_known_nodes_alone():
    counters = filled(3)
    assert len(list(counters.merge(b"\x03" * 5))) == 3
    assert len(counters) == 3


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(0, 9),
            st.sampled_from(NODE_STATES),
            st.integers(1, 40),
        )
    )
)
def test_the_counts_are_always_those_of_the_states(steps):
    counters = filled(10)
    naive = dict.fromkeys(range(10), (PENDING, 1))
    for judged, ordinal, state, try_ in steps:
        if judged:
            counters.put(ordinal, state, try_)
            naive[ordinal] = (state, min(try_, 32))
            continue
        before, known = naive[ordinal]
        newer = try_ <= 32 and (try_, RANKS[state]) > (known, RANKS[before])
        assert counters.advance(ordinal, state, try_) == (before if newer else None)
        if newer:
            naive[ordinal] = (state, try_)
    for ordinal, (state, try_) in naive.items():
        assert (counters.state(ordinal), counters.try_(ordinal)) == (state, try_)
    for state in NodeState:
        expected = sum(found is state for found, _ in naive.values())
        assert counters.counts().of(state) == expected
