import pytest

from django_ray.progress.early import EARLY, Early
from tests.progress.making import START, preview, progress, state


@pytest.mark.parametrize(
    ("number", "tally"),
    [(EARLY - 1, "early"), (EARLY, "early"), (EARLY + 1, "unknown_node")],
)
def test_so_many_nodes_are_remembered_and_no_more(number, tally):
    early = Early()

    tallies = [early.keep_state(state(each, "RUNNING")) for each in range(number)]

    assert tallies[-1] == tally
    assert len(early) == min(number, EARLY)


def test_a_full_map_still_takes_what_is_later_of_its_nodes():
    early = Early()
    for each in range(EARLY):
        early.keep_state(state(each, "SUBMITTED"))

    assert early.keep_state(state(3, "RUNNING")) == "early"
    assert early.keep_report(3, progress(3)) == "early"
    assert early.keep_preview(preview(3)) == "early"
    assert early.keep_report(EARLY, progress(EARLY)) == "unknown_node"
    assert early.keep_preview(preview(EARLY)) == "unknown_node"
    assert early.pop(3) == (state(3, "RUNNING"), progress(3), preview(3))


def test_the_latest_of_each_kind_is_kept_whatever_the_order():
    early = Early()
    for name, try_ in (("RUNNING", 1), ("SUBMITTED", 2), ("SUCCEEDED", 1)):
        early.keep_state(state(1, name, try_=try_))
    for sequence in (2, 3, 1):
        early.keep_report(1, progress(1, sequence))
    for try_ in (2, 3, 1):
        early.keep_preview(preview(1, b"%d" % try_, try_=try_))

    latest = preview(1, b"3", try_=3)
    assert early.pop(1) == (state(1, "SUBMITTED", try_=2), progress(1, 3), latest)


def test_of_equals_the_first_stays():
    early = Early()
    early.keep_state(state(1, "RUNNING", START))
    early.keep_state(state(1, "RUNNING", START + 1))
    early.keep_preview(preview(1, b"1"))
    early.keep_preview(preview(1, b"2"))

    assert early.pop(1) == (state(1, "RUNNING", START), None, preview(1, b"1"))


def test_what_is_handed_out_makes_room():
    early = Early()
    early.keep_report(1, progress(1))

    assert early.pop(1) == (None, progress(1), None)
    assert early.pop(1) == (None, None, None)
    assert len(early) == 0


@pytest.mark.parametrize(("known", "found"), [(1, [0]), (2, [0, 1]), (9, [0, 1, 2])])
def test_nodes_that_became_known_are_found(known, found):
    early = Early()
    for ordinal in (0, 1, 2):
        early.keep_report(ordinal, progress(ordinal))

    assert early.below(known) == found
