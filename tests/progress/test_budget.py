import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from django_ray.identity import MAXIMUM_63
from django_ray.progress.budget import Budget
from django_ray.protocol import canonical
from django_ray.protocol.frames import MAXIMUM_MILLISECONDS, MAXIMUM_ORDINAL
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Detail, Fault, Omitted, decode_detail
from django_ray.protocol.vocabulary import NodeState, TruncationReason
from tests.progress.making import limits

ROOM = 2**40
BASE = Detail(state=NodeState.RUNNING, started_ms=1_785_403_200_000)

LARGEST = Detail(
    attempt=MAXIMUM_ORDINAL,
    ended_ms=MAXIMUM_MILLISECONDS,
    host="h" * V1.host,
    invocation=MAXIMUM_63,
    started_ms=MAXIMUM_MILLISECONDS,
    state=NodeState.SUBMITTED,
    submitted_ms=MAXIMUM_MILLISECONDS,
    try_=MAXIMUM_ORDINAL,
)
"""A base record with each value as long as it may be."""

FULL = msgspec.structs.replace(
    LARGEST,
    current=1.2345678901234567e-300,
    error=Fault(kind="k" * 100, text="e" * 900),
    message="m" * 2_000,
    metrics={f"key-{number}": "v" * 200 for number in range(15)},
    preview=msgspec.Raw(b'["%b","%b"]' % (b"p" * 250, b"p" * 245)),
    reported_ms=MAXIMUM_MILLISECONDS,
    sequence=MAXIMUM_63,
    total=1.2345678901234567e300,
)


def opened(nodes=1, room=ROOM, **changes):
    budget = Budget(limits(**changes))
    budget.begin(nodes, room)
    return budget


def message(size):
    """Return a record of exactly `size` bytes."""
    spare = size - len(canonical.encode(msgspec.structs.replace(BASE, message="")))
    return msgspec.structs.replace(BASE, message="m" * spare)


def test_the_largest_base_record_is_within_its_reserve():
    assert len(canonical.encode(LARGEST)) <= V1.node_reserve


def test_what_fits_is_kept_as_it_is():
    budget = opened()

    assert budget.fit(0, FULL) == canonical.encode(FULL)
    assert budget.reasons == frozenset()
    assert budget.used == len(canonical.encode(FULL))


@pytest.mark.parametrize(("more", "kept"), [(-1, True), (0, True), (1, False)])
def test_optional_values_share_what_the_reserves_leave(more, kept):
    budget = opened(nodes=3, detail_encoded=3 * 256 + 500)

    record = budget.fit(0, message(256 + 500 + more))

    found = decode_detail(record).message
    assert (found != Omitted(omitted="detail_size_limit")) is kept
    expected = set() if kept else {TruncationReason.detail_size_limit}
    assert budget.reasons == expected


@pytest.mark.parametrize("cap", ["detail_encoded", "detail_decoded"])
def test_both_caps_on_detail_bind(cap):
    budget = opened(**{cap: 700})

    budget.fit(0, message(701))

    assert budget.reasons == {TruncationReason.detail_size_limit}


def test_the_runs_cap_binds_where_it_leaves_less():
    budget = opened(room=700)

    record = budget.fit(0, message(701))

    assert decode_detail(record).message == Omitted(omitted="run_size_limit")
    assert budget.reasons == {TruncationReason.run_size_limit}


@pytest.mark.parametrize(("more", "kept"), [(-1, True), (0, True), (1, False)])
def test_a_record_past_its_own_limit_loses_values(more, kept):
    budget = opened(record=1_000)

    budget.fit(0, message(1_000 + more))

    reason = {TruncationReason.record_size_limit}
    assert budget.reasons == (set() if kept else reason)


def test_values_are_given_up_one_by_one_the_error_last():
    whole = len(canonical.encode(FULL))
    found = []
    for cap in (whole, whole - 1, whole - 600, whole - 4_500, 1_200, 300):
        record = decode_detail(opened(detail_encoded=cap).fit(0, FULL))
        found.append(
            [
                name
                for name in ("error", "message", "metrics", "preview")
                if getattr(record, name) == getattr(FULL, name)
            ]
        )

    assert found == [
        ["error", "message", "metrics", "preview"],
        ["error", "message", "metrics"],
        ["error", "message"],
        ["error"],
        [],
        [],
    ]


def test_an_omitted_value_says_so_in_its_place():
    record = opened(detail_encoded=600).fit(0, FULL)

    values = msgspec.json.decode(record)
    for name in ("error", "message", "metrics", "preview"):
        assert values[name] == {"omitted": "detail_size_limit"}


def test_a_base_record_is_never_refused():
    budget = opened(detail_encoded=256)

    assert budget.fit(0, LARGEST) == canonical.encode(LARGEST)
    assert budget.reasons == frozenset()


def test_at_the_least_a_record_keeps_its_base():
    budget = opened(detail_encoded=256)

    record = budget.fit(0, FULL)

    assert record == canonical.encode(LARGEST)
    assert budget.reasons == {TruncationReason.detail_size_limit}


def test_a_host_of_escapes_gives_way_to_the_state():
    escaped = msgspec.structs.replace(LARGEST, host='"' * V1.host)

    found = decode_detail(opened(detail_encoded=256).fit(0, escaped))

    assert found == msgspec.structs.replace(LARGEST, host=UNSET)


def test_a_smaller_record_gives_its_room_back():
    budget = opened(nodes=2, detail_encoded=512 + 400)
    budget.fit(0, message(600))
    budget.fit(1, message(600))
    assert budget.reasons == {TruncationReason.detail_size_limit}

    budget.fit(0, BASE)
    budget.fit(1, message(600))

    assert budget.reasons == frozenset()
    assert budget.used == 256 + 600


def test_what_was_not_committed_never_counted():
    budget = opened(nodes=2, detail_encoded=512 + 400)
    budget.fit(0, message(500))
    budget.commit()
    budget.begin(3, ROOM)
    budget.fit(0, BASE)
    budget.fit(1, message(900))
    budget.fit(2, FULL)

    budget.begin(2, ROOM)

    assert budget.used == 500 + 256
    assert budget.reasons == frozenset()
    budget.fit(1, message(412))
    assert budget.reasons == frozenset()
    budget.fit(1, message(413))
    assert budget.reasons == {TruncationReason.detail_size_limit}


def test_a_new_nodes_reserve_is_taken_from_the_latest_values():
    budget = opened(nodes=3, detail_encoded=3 * 256 + 700)
    details = [message(456), message(606), message(406)]
    for ordinal, detail in enumerate(details):
        budget.fit(ordinal, detail)
    budget.commit()
    assert budget.used == 3 * 256 + 700

    budget.begin(4, ROOM)
    shrunk = {each: budget.shrink(each, details[each]) for each in budget.evict()}

    assert sorted(shrunk) == [1, 2]
    assert all(len(record) <= 256 for record in shrunk.values())
    assert budget.used == 4 * 256 + 200
    assert budget.reasons == {TruncationReason.detail_size_limit}


def test_nothing_is_shrunk_while_the_reserves_hold():
    budget = opened(nodes=3, detail_encoded=4 * 256 + 700)
    budget.fit(0, message(956))
    budget.commit()

    budget.begin(4, ROOM)

    assert list(budget.evict()) == []


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(90, 900)))))
def test_many_rows_fit_as_they_would_one_by_one(publications):
    changes = {"detail_encoded": 5 * 256 + 500}
    together, apart = opened(nodes=5, **changes), opened(nodes=5, **changes)
    for rows in publications:
        details = {ordinal: message(size) for ordinal, size in rows}
        expected = [apart.fit(each, detail) for each, detail in details.items()]

        assert together.fit_all(list(details), list(details.values())) == expected
        assert (together.used, together.reasons) == (apart.used, apart.reasons)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["fit", "commit", "fail", "grow"]),
            st.integers(0, 5),
            st.integers(90, 1_500),
        ),
        max_size=40,
    )
)
def test_the_bytes_charged_bound_the_bytes_stored(steps):
    budget = opened(nodes=1, detail_encoded=6 * 256 + 800)
    stored, current, details, nodes = {}, {}, {}, 1
    for step, ordinal, size in steps:
        if step == "fit" and ordinal < nodes:
            details[ordinal] = message(size)
            current[ordinal] = budget.fit(ordinal, details[ordinal])
        elif step == "commit":
            budget.commit()
            stored = dict(current)
        elif step == "fail" or (step == "grow" and nodes < 6):
            if step == "fail":
                current = dict(stored)
            else:
                budget.commit()
                stored = dict(current)
                nodes += 1
            budget.begin(nodes, ROOM)
            for each in budget.evict():
                current[each] = budget.shrink(each, details[each])

        total = sum(max(256, len(record)) for record in current.values())
        assert total + 256 * (nodes - len(current)) == budget.used
        assert budget.used <= 6 * 256 + 800
        omitted = any(b"omitted" in record for record in current.values())
        assert omitted <= bool(budget.reasons)
