import pytest

from django_ray.management.terminal import table
from django_ray.management.terminal.pen import Pen
from django_ray.protocol.vocabulary import ExecutionState
from tests.app import pictures
from tests.app.pictures import NOW_MS, RUNNING, make_picture, make_reading


def rows(picture=None, room=20, width=100):
    found = table.stages(picture or make_picture(), Pen(width, True), room)
    return [line.plain for line in found]


def nodes(picture=None, room=20, width=100):
    found = table.running(picture or make_picture(), Pen(width, True), room)
    return [line.plain for line in found]


def ended(**changes):
    return make_picture(make_reading(state=ExecutionState.SUCCEEDED), **changes)


def test_stages_come_failed_first_then_running_then_by_start_and_the_rest_folds():
    heading, *lines, folded = rows()
    assert heading.split() == ["STAGE", "ENDED", "RUN", "FAIL", "P50", "P95", "LONGEST"]
    assert [line.split()[1] for line in lines] == [
        "DUPRADAR",
        "PICARD_MARKDUPLICATES",
        "BEDTOOLS_GENOMECOV",
    ]
    assert folded == "  1 finished, all 65 nodes succeeded · 1 not started, 1 node"


def test_a_row_holds_counts_quantiles_and_the_longest_at_work():
    line = rows()[2]
    assert "3 of 5     2     \u2013    56 s    57 s      29 s" in line
    assert "████████████▸▸▸▸▸▸▸▸" in line
    assert len(line) == 100


def test_a_stage_that_began_earlier_stands_above_one_of_its_kind():
    found = tuple(
        pictures.stage(index, f"S{index}", NOW_MS - index, running=1)
        for index in range(3)
    )
    assert [line[2:4] for line in rows(make_picture(stages=found))[1:]] == [
        "S2",
        "S1",
        "S0",
    ]


@pytest.mark.parametrize(
    ("width", "quantiles", "bars"),
    [
        (60, False, False),
        (75, False, False),
        (76, False, True),
        (91, False, True),
        (92, True, True),
        (200, True, True),
    ],
)
def test_columns_go_where_it_is_narrow(width, quantiles, bars):
    lines = rows(width=width)
    assert ("P50" in lines[0]) == quantiles
    assert ("▸▸▸" in lines[2]) == bars
    assert all(len(line) <= width for line in lines)
    assert "…" not in lines[0]


@pytest.mark.parametrize(("room", "shown"), [(2, 0), (3, 3), (4, 4), (5, 5), (6, 5)])
def test_the_table_keeps_within_its_room(room, shown):
    lines = rows(room=room)
    assert len(lines) == shown
    if 0 < shown < 5:
        assert f"{5 - shown} more under way" in lines[-1]


def test_the_rows_of_an_ended_run_are_its_finished_stages():
    found = (
        pictures.stage(0, "A", 1, 10, 20, succeeded=3),
        pictures.stage(1, "B", 2, 10, 40, succeeded=2),
    )
    lines = rows(ended(stages=found))
    assert [line.split()[1] for line in lines[1:]] == ["A", "B"]
    assert lines[2].endswith("40 ms")


def test_stages_that_ended_unwell_are_not_said_to_have_succeeded():
    found = (pictures.stage(0, "A", 1, skipped=3, succeeded=1),)
    assert rows(make_picture(stages=found))[-1] == (
        "  1 finished, 1 of 4 nodes succeeded"
    )


def test_numbers_of_a_million_nodes_stand_in_their_columns():
    found = (
        pictures.stage(0, "A", 1, running=999_000, failed=1_000),
        pictures.stage(1, "B", 2, running=1),
    )
    heading, *lines = rows(make_picture(stages=found, running=()))
    assert {len(line) for line in (heading, *lines)} == {100}


def test_without_stages_there_is_no_table():
    assert rows(make_picture(stages=())) == []


def test_a_long_label_is_cut_in_its_middle_and_moves_no_column():
    found = (
        pictures.stage(0, "package.module.function_" * 9 + "end", 1, running=1),
        pictures.stage(1, "測定" * 40, 2, running=1),
    )
    lines = rows(make_picture(stages=found, running=()))
    assert "…" in lines[1]
    assert {table.safe.cells(line) for line in lines} == {100}


def test_the_nodes_at_work_are_listed_with_host_and_report():
    heading, first, second = nodes()
    assert heading == "RUNNING, LONGEST FIRST"
    assert first.startswith("▸ PICARD_MARKDUPLICATES_46 ")
    assert first.endswith("29 s  10.4.2.11       sorting by coordinate, 7 of 10")
    assert second.startswith("▸ DUPRADAR_7")


@pytest.mark.parametrize(("room", "shown"), [(1, 0), (2, 2), (3, 3), (4, 3)])
def test_the_list_keeps_within_its_room(room, shown):
    assert len(nodes(room=room)) == shown


def test_an_ended_run_lists_no_node_at_work():
    assert nodes(ended()) == []


def test_a_clock_ahead_of_the_databases_is_no_negative_time():
    node = pictures.replace(RUNNING[0], started_ms=NOW_MS + 9_000)
    assert " 0 ms " in nodes(make_picture(running=(node,)))[1]


@pytest.mark.parametrize(
    ("message", "current", "total", "text"),
    [
        ("", None, None, ""),
        ("m", None, None, "m"),
        ("m", 7, 10, "m, 7 of 10"),
        ("", 2.5, 3.5, "2.5 of 3.5"),
        ("", 1_000_000, None, "1e+06"),
    ],
)
def test_a_report_is_its_message_and_how_far_it_is(message, current, total, text):
    node = pictures.replace(RUNNING[0], message=message, current=current, total=total)
    assert table.report(node) == text
