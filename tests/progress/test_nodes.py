import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from django_ray.progress.nodes import Nodes, Verdict
from django_ray.protocol.frames import Failure, Progress, State
from django_ray.protocol.records import Detail, Fault
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from tests.progress.making import START, preview, progress, state

ENDS = ("SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED")


def nodes(number=1):
    made = Nodes()
    for _ in range(number):
        made.register()
    return made


def test_a_registered_node_is_pending_in_its_first_try():
    assert nodes()[0] == Detail(state=NodeState.PENDING, try_=1)


def test_a_node_keeps_the_times_of_its_way():
    kept = nodes()
    for each in (
        state(0, "SUBMITTED", START + 1),
        state(0, "RUNNING", START + 9, started_ms=START + 5, host="a"),
        state(0, "SUCCEEDED", START + 20, ray_attempt=2),
    ):
        assert kept.apply_state(each) is Verdict.applied

    assert kept[0] == Detail(
        attempt=2,
        ended_ms=START + 20,
        host="a",
        started_ms=START + 5,
        state=NodeState.SUCCEEDED,
        submitted_ms=START + 1,
    )
    assert kept.started_ms(0) == START + 5


def test_a_node_that_is_running_started_when_it_was_said():
    kept = nodes()

    kept.apply_state(state(0, "RUNNING", START + 9))

    assert kept.started_ms(0) == START + 9


def test_a_later_word_on_the_start_replaces_the_guess():
    kept = nodes()
    kept.apply_state(state(0, "RUNNING", START + 9))

    kept.apply_state(state(0, "SUCCEEDED", START + 20, started_ms=START + 3))

    assert kept.started_ms(0) == START + 3


def test_a_node_that_never_started_has_no_start():
    kept = nodes()

    kept.apply_state(state(0, "SKIPPED", START))

    assert kept.started_ms(0) is None
    assert kept[0].ended_ms == START


@pytest.mark.parametrize("first", NODE_STATES)
@pytest.mark.parametrize("second", NODE_STATES)
def test_a_state_applies_only_if_its_rank_is_higher(first, second):
    kept = nodes()
    kept.apply_state(state(0, first, try_=2))
    ranks = {name: min(code, 3) for code, name in enumerate(NODE_STATES)}

    verdict = kept.apply_state(state(0, second, try_=2))

    if ranks[second] > ranks[first]:
        assert (verdict, kept[0].state) == (Verdict.applied, second)
    else:
        equal = ranks[second] == ranks[first]
        assert verdict is (Verdict.duplicate if equal else Verdict.stale)
        assert kept[0].state is first


@pytest.mark.parametrize("end", ENDS)
def test_an_end_reopens_only_by_a_later_try_or_invocation(end):
    kept = nodes()
    kept.apply_state(state(0, end, try_=3, invocation=2))

    assert kept.apply_state(state(0, "RUNNING", try_=3, invocation=2)) == "stale"
    assert kept.apply_state(state(0, "RUNNING", try_=9, invocation=1)) == "stale"
    assert kept.apply_state(state(0, "RUNNING", try_=4, invocation=2)) == "applied"
    assert kept.apply_state(state(0, "PENDING", try_=1, invocation=3)) == "applied"
    assert (kept[0].invocation, kept[0].try_) == (3, 1)


def test_a_later_try_starts_afresh():
    kept = nodes()
    failure = Failure("ValueError", "no")
    kept.apply_state(state(0, "RUNNING", host="a", ray_attempt=1))
    kept.apply_progress(0, progress(0, 4, current=3, total=9, message="m"))
    kept.apply_state(state(0, "FAILED", error=failure))
    assert kept[0].error == Fault(kind="ValueError", text="no")

    kept.apply_state(state(0, "SUBMITTED", START + 5, try_=2))

    expected = Detail(state=NodeState.SUBMITTED, submitted_ms=START + 5, try_=2)
    assert kept[0] == expected


@pytest.mark.parametrize(
    ("sequence", "verdict"), [(4, "stale"), (5, "duplicate"), (6, "applied")]
)
def test_progress_is_ordered_by_its_sequence(sequence, verdict):
    kept = nodes()
    kept.apply_progress(0, progress(0, 5, message="five"))

    assert kept.apply_progress(0, progress(0, sequence, message="new")) == verdict
    assert kept[0].message == ("new" if verdict == "applied" else "five")


def test_progress_never_moves_a_state():
    kept = nodes()
    kept.apply_state(state(0, "SUCCEEDED", START))

    verdict = kept.apply_progress(0, progress(0, 1, at_ms=START + 9, current=1))

    assert verdict is Verdict.applied
    assert kept[0].state is NodeState.SUCCEEDED
    assert (kept[0].ended_ms, kept[0].reported_ms) == (START, START + 9)


def test_progress_of_an_earlier_try_is_stale():
    kept = nodes()
    kept.apply_state(state(0, "RUNNING", try_=2))

    assert kept.apply_progress(0, progress(0, 9, try_=1)) is Verdict.stale


def test_progress_of_a_try_not_yet_told_waits_for_it():
    kept = nodes()
    kept.apply_state(state(0, "RUNNING"))

    assert kept.apply_progress(0, progress(0, 2, try_=2, message="b")) == "applied"
    assert kept.apply_progress(0, progress(0, 2, try_=2, message="b")) == "duplicate"
    assert kept.apply_progress(0, progress(0, 1, try_=2, message="a")) == "stale"
    assert kept[0].message is UNSET
    kept.apply_state(state(0, "RUNNING", try_=2))

    assert (kept[0].message, kept[0].sequence) == ("b", 2)


def test_progress_of_a_try_that_never_came_is_dropped():
    kept = nodes()
    kept.apply_progress(0, progress(0, 2, try_=2, message="b"))

    kept.apply_state(state(0, "RUNNING", try_=3))

    assert kept[0].message is UNSET


@pytest.mark.parametrize("first", ["preview", "state"])
def test_a_preview_before_or_after_the_end_is_kept_with_it(first):
    kept = nodes()
    tell = [
        lambda: kept.apply_preview(preview(0)),
        lambda: kept.apply_state(state(0, "SUCCEEDED")),
    ]

    verdicts = [each() for each in (tell if first == "preview" else tell[::-1])]

    assert verdicts == ["applied", "applied"]
    assert kept[0].state is NodeState.SUCCEEDED
    assert kept[0].preview == Raw(b'{"rows":3}')


def test_of_one_try_the_first_preview_stays():
    kept = nodes()
    kept.apply_preview(preview(0, b"1"))
    kept.release(1)
    kept.take()

    assert kept.apply_preview(preview(0, b"1")) is Verdict.duplicate
    assert kept.apply_preview(preview(0, b"2")) is Verdict.duplicate
    assert kept[0].preview == Raw(b"1")
    assert kept.take() == ([], [])


def test_a_preview_is_a_change_of_its_row():
    kept = nodes(2)
    kept.release(2)
    kept.take()

    kept.apply_preview(preview(1, b"1"))

    assert kept.take() == ([1], [Detail(preview=Raw(b"1"))])


@pytest.mark.parametrize("resent", [False, True])
def test_previews_are_ordered_by_invocation_and_try(resent):
    kept = nodes()
    kept.apply_state(state(0, "RUNNING", try_=2))

    assert kept.apply_preview(preview(0, b"1", try_=1)) == "stale"
    assert kept.apply_preview(preview(0, b"3", try_=3)) == "applied"
    assert kept.apply_preview(preview(0, b"4", try_=3)) == "duplicate"
    assert kept.apply_preview(preview(0, b"2", try_=2)) == "applied"
    assert kept[0].preview == Raw(b"2")

    if resent:
        kept.set_state(0, NodeState.RUNNING, 3)
    else:
        kept.apply_state(state(0, "RUNNING", try_=3))
    assert kept[0].preview == Raw(b"3")

    kept.apply_state(state(0, "RUNNING", try_=1, invocation=1))
    assert kept[0].preview is UNSET
    assert kept.apply_preview(preview(0, b"5", try_=9)) == "stale"


def test_a_preview_ahead_of_a_newer_one_is_stale_and_a_skipped_try_drops_it():
    kept = nodes()
    kept.apply_preview(preview(0, b"3", try_=3))

    assert kept.apply_preview(preview(0, b"2", try_=2)) == "stale"
    kept.apply_state(state(0, "RUNNING", try_=4))

    assert kept[0].preview is UNSET


def test_a_report_leaves_what_it_does_not_say():
    kept = nodes()
    kept.apply_progress(0, progress(0, 1, current=1, total=4, metrics={"a": 1}))

    kept.apply_progress(0, progress(0, 2, message="m", host="h"))

    found = kept[0]
    assert (found.current, found.total, found.metrics) == (1, 4, {"a": 1})
    assert (found.message, found.host) == ("m", "h")


@pytest.mark.parametrize(
    ("said", "current", "total"),
    [({"current": 7}, 7, UNSET), ({"total": 2}, UNSET, 2), ({"current": 4}, 4, 4)],
)
def test_two_reports_never_add_up_to_more_than_all(said, current, total):
    kept = nodes()
    kept.apply_progress(0, progress(0, 1, current=3, total=4))

    kept.apply_progress(0, progress(0, 2, **said))

    assert (kept[0].current, kept[0].total) == (current, total)


def test_a_resent_state_applies_without_times():
    kept = nodes()
    kept.apply_state(state(0, "RUNNING", START, host="a"))

    assert kept.set_state(0, NodeState.RUNNING, 1) is Verdict.duplicate
    assert kept.set_state(0, NodeState.PENDING, 1) is Verdict.stale
    assert kept.set_state(0, NodeState.FAILED, 1) is Verdict.applied
    assert (kept[0].state, kept[0].host) == (NodeState.FAILED, "a")
    assert kept.set_state(0, NodeState.SUBMITTED, 2) is Verdict.applied
    assert kept[0] == Detail(state=NodeState.SUBMITTED, try_=2)


def test_only_released_nodes_are_handed_out_by_ordinal():
    kept = nodes(4)
    for ordinal in (3, 1, 0):
        kept.apply_state(state(ordinal, "RUNNING"))

    assert not kept.dirty
    kept.release(2)

    assert kept.take()[0] == [0, 1]
    assert kept.take() == ([], [])


def test_only_what_changed_is_handed_out():
    kept = nodes(100)
    kept.release(100)
    kept.take()

    kept.apply_state(state(41, "RUNNING"))
    kept.apply_state(state(7, "RUNNING"))
    kept.apply_state(state(7, "PENDING"))

    assert kept.dirty
    ordinals, details = kept.take()
    assert ordinals == [7, 41]
    assert details == [kept[7], kept[41]]


def test_what_is_restored_is_handed_out_again_as_it_is_now():
    kept = nodes(3)
    kept.release(3)
    ordinals, _ = kept.take()
    kept.apply_state(state(1, "RUNNING"))

    kept.restore(ordinals)

    assert kept.take() == ([0, 1, 2], [kept[0], kept[1], kept[2]])


def test_withheld_nodes_wait_for_their_next_release():
    kept = nodes(3)
    kept.release(3)

    kept.withhold(1)
    kept.apply_state(state(2, "RUNNING"))

    assert (kept.released, kept.take()[0]) == (1, [0])
    kept.release(3)
    assert kept.take()[0] == [1, 2]


amounts = st.sampled_from([None, 0, 1, 5, 9])


@st.composite
def reports(draw):
    """Draw a report of one node, of any try and sequence, saying any part of it."""
    current, total = draw(amounts), draw(amounts)
    if current is not None and total is not None and current > total:
        current, total = total, current
    return progress(
        0,
        draw(st.integers(1, 12)),
        try_=draw(st.integers(1, 2)),
        at_ms=START + draw(st.integers(0, 99)),
        current=current,
        total=total,
        message=draw(st.sampled_from([None, "short", "m" * 300])),
        metrics=draw(st.sampled_from([None, {"rows": 1}])),
        host=draw(st.sampled_from([None, "a", "b"])),
    )


moves = st.builds(
    state,
    st.just(0),
    st.sampled_from(["SUBMITTED", "RUNNING", "SUCCEEDED"]),
    try_=st.integers(1, 2),
)


@given(st.lists(reports() | moves | st.builds(preview, st.just(0)), max_size=12))
def test_a_node_that_is_asked_late_says_what_one_asked_each_time_says(told):
    asked, late = nodes(), nodes()
    for record in told:
        verdicts = []
        for kept in (asked, late):
            if isinstance(record, Progress):
                verdicts.append(kept.apply_progress(0, record))
            elif isinstance(record, State):
                verdicts.append(kept.apply_state(record))
            else:
                verdicts.append(kept.apply_preview(record))
        assert verdicts[0] is verdicts[1]
        assert asked[0]

    assert late[0] == asked[0]
