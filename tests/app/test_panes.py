import pytest
from rich.cells import cell_len

from django_ray.management.terminal import panes, words
from django_ray.management.terminal.pen import Pen
from django_ray.management.terminal.view import Pane, View
from django_ray.protocol.vocabulary import NodeState
from django_ray.readers.picture import Cause, Closer, Kept
from tests.app import pictures
from tests.app.pictures import NOW_MS, make_picture, make_reading, make_summary, replace


def kept(n, state=NodeState.FAILED, **changes):
    found = Kept(
        node_id=f"mDiffFit_ID{n:07d}",
        state=state,
        stage=1,
        try_=3,
        started_ms=NOW_MS - 60_000 - 120,
        ended_ms=NOW_MS - 60_000,
        host="compute-4",
        said="",
    )
    return replace(found, **changes)


def failed(*numbers, more=False, in_all=None):
    """Return a picture whose causes have so many nodes each."""
    causes = tuple(
        Cause(kind="ValueError", text=f"images {at}", nodes=tuple(map(kept, range(n))))
        for at, n in enumerate(numbers)
    )
    counts = replaced(failed=sum(numbers) if in_all is None else in_all)
    return make_picture(
        make_reading(make_summary(counts)), closer=Closer(causes=causes, more=more)
    )


def replaced(**changes):
    return pictures.msgspec.structs.replace(pictures.COUNTS, **changes)


def drawn(picture, view, room=20, width=100):
    return [line.plain for line in panes.compose(picture, view, Pen(width, True), room)]


FAILURES = View(pane=Pane.failures)


def test_failures_stand_by_cause_and_the_chosen_one_shows_its_newest():
    lines = drawn(failed(8, 2, 1), FAILURES)
    assert lines == [
        "FAILURES  11 in 3 causes, all kept with detail",
        "    8  DUPRADAR  ValueError: images 0",
        *(
            f"       14:09:47  mDiffFit_ID{n:07d}                 try 3  120 ms  compute-4"
            for n in range(3)
        ),
        "       5 more: → opens the cause",
        "    2  DUPRADAR  ValueError: images 1",
        "    1  DUPRADAR  ValueError: images 2",
    ]
    below = drawn(failed(8, 2, 1), replace(FAILURES, at=1))
    assert [line[:7].strip() for line in below] == ["FAILURE", "8", "2", "", "", "1"]


def test_an_opened_cause_lists_all_its_nodes_from_where_it_is_scrolled():
    view = replace(FAILURES, opened=0, at=2)
    lines = drawn(failed(8, 2), view, room=5)
    assert lines[1].startswith("    8  DUPRADAR")
    assert [line.split()[1] for line in lines[2:4]] == [
        f"mDiffFit_ID{n:07d}" for n in (2, 3)
    ]
    assert lines[4:] == ["  4 more below"]
    assert panes.last(failed(8, 2), view) == 7
    assert "any more" in drawn(failed(8), replace(FAILURES, opened=5))[1]


def test_the_chosen_cause_stays_in_sight():
    lines = drawn(failed(*[1] * 64), replace(FAILURES, at=63), room=10)
    assert "images 63" in lines[-2]
    assert len(lines) <= 10
    assert drawn(failed(*[1] * 64), FAILURES, room=10)[-1] == "  57 more below"
    middle = drawn(failed(*[9] * 64), replace(FAILURES, at=30), room=12)
    assert middle[-2:] == ["       6 more: → opens the cause", "  33 more below"]
    assert panes.last(failed(*[1] * 64), FAILURES) == 63


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        (failed(2, 1, in_all=5), "3 of 5 kept, in 2 causes; 2 counted only"),
        (failed(3, in_all=9, more=True), "9; the first 3 in 1 cause"),
        (failed(), "Nothing failed."),
        (failed(in_all=2), "2, counted; none of them is kept with detail"),
        (make_picture(make_reading(None)), "Nothing failed."),
    ],
)
def test_the_heading_says_what_is_kept_of_the_failures(picture, said):
    assert drawn(picture, FAILURES)[0] == f"FAILURES  {said}"


def test_nodes_are_listed_with_state_time_host_and_last_word():
    nodes = (
        kept(1, NodeState.SUCCEEDED),
        kept(2, NodeState.RUNNING, said="parsing", ended_ms=None),
        kept(3, NodeState.PENDING, started_ms=None, ended_ms=None, host=""),
    )
    picture = make_picture(closer=Closer(nodes=nodes, more=True))
    heading, *lines = drawn(picture, View(pane=Pane.nodes))
    assert heading == (
        "NODES  the first 3 of 197 kept, first registered first; / finds others"
    )
    assert [line.split() for line in lines] == [
        ["✓", "succeeded", "mDiffFit_ID0000001", "120", "ms", "compute-4"],
        ["▸", "running", "mDiffFit_ID0000002", "1:00", "compute-4", "parsing"],
        ["·", "pending", "mDiffFit_ID0000003", words.NONE],
    ]
    assert len(drawn(picture, View(pane=Pane.nodes, at=2))) == 2


def test_what_is_not_kept_or_not_found_is_said():
    nothing = make_picture(closer=Closer())
    said = drawn(nothing, View(pane=Pane.nodes, filter="mont"))
    assert said == ["NODES  No kept node begins with «mont»"]
    assert drawn(make_picture(), View(pane=Pane.nodes)) == [
        "NODES  No node of this run is kept."
    ]
    stages = View(pane=Pane.stages, filter="mont")
    assert drawn(make_picture(), stages) == ["STAGES  No stage holds «mont»."]
    none = make_picture(stages=())
    assert drawn(none, View(pane=Pane.stages)) == ["STAGES  No stage is kept."]


def test_all_stages_are_there_the_finished_ones_too():
    _, *lines = drawn(make_picture(), View(pane=Pane.stages))
    assert [line.split()[1] for line in lines] == [
        "DUPRADAR",
        "PICARD_MARKDUPLICATES",
        "BEDTOOLS_GENOMECOV",
        "TRIM",
        "MULTIQC",
    ]
    found = drawn(make_picture(), View(pane=Pane.stages, filter="tri"))
    assert [line.split()[1] for line in found[1:]] == ["TRIM"]
    assert panes.last(make_picture(), View(pane=Pane.stages)) == 4
    assert drawn(make_picture(), View(pane=Pane.stages), room=4)[2:] == [
        drawn(make_picture(), View(pane=Pane.stages))[2],
        "  3 more below",
    ]


@pytest.mark.parametrize("pane", [Pane.failures, Pane.stages, Pane.nodes])
def test_hostile_text_fits_and_commands_nothing(pane):
    text = "\x1b[31m\n\u202e測\u0301\u0301\u0301\u0301\u0301\u0301" * 40
    node = kept(1, node_id=text, host=text, said=text)
    closer = Closer(causes=(Cause(kind=text, text=text, nodes=(node,)),), nodes=(node,))
    stages = (pictures.stage(1, text, failed=1),)
    picture = make_picture(closer=closer, stages=stages)
    for width in (60, 100):
        for line in drawn(picture, View(pane=pane), width=width):
            assert cell_len(line) <= width
            assert not {"\x1b", "\n", "\u202e"} & set(line)
