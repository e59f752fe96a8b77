"""What a scenario reports: medians, spread, and what was to be reached."""

import json

import pytest

from cluster import figures, report
from cluster.__main__ import main, names
from cluster.scenario import Figure, Result


def test_figure_is_quoted_by_its_median_with_its_spread():
    body = Figure(values=(3.0, 1.0, 2.0), unit="ms").document()

    assert (body["median"], body["minimum"], body["maximum"]) == (2.0, 1.0, 3.0)
    assert body["count"] == 3


@pytest.mark.parametrize(("value", "reached"), [(1.9, True), (2.0, True), (2.1, False)])
def test_figure_says_whether_it_reached_its_mark(value, reached):
    assert Figure(values=(value,), unit="x", reach=2.0).document()["reached"] is reached


@pytest.mark.parametrize(("value", "reached"), [(0.4, False), (0.5, True), (0.6, True)])
def test_figure_of_which_more_is_better_is_reached_from_its_mark_on(value, reached):
    figure = Figure(values=(value,), unit="x", reach=0.5, more_is_better=True)

    assert figure.document()["reached"] is reached


def test_interval_lies_within_the_spread_and_holds_the_median():
    figure = Figure(values=tuple(map(float, range(21))), unit="ms")

    low, high = figure.interval

    assert 0 <= low <= figure.median <= high <= 20
    assert figure.interval == (low, high)


def test_document_names_scenario_versions_and_parameters():
    result = Result(
        figures={"a": Figure(values=(1.0,), unit="ms")}, parameters={"n": 1}
    )

    body = report.document("some", result, "180004")

    assert body["verified"] is True
    assert body["parameters"] == {"n": 1}
    assert json.loads(json.dumps(body))["figures"]["a"]["median"] == 1.0


def test_two_documents_are_compared_figure_by_figure(tmp_path):
    for name, median in (("a", 2.0), ("b", 3.0)):
        figures = {
            "t": {"median": median, "unit": "ms"},
            name: {"median": 1, "unit": ""},
        }
        (tmp_path / name).write_text(json.dumps({"figures": figures}))

    assert report.compare(tmp_path / "a", tmp_path / "b") == "t: 2 -> 3 ms (1.500)"


def test_the_page_of_figures_holds_the_newest_document_and_names_what_was_not_run(
    tmp_path, capsys
):
    saved = tmp_path / "saved"
    for median in (3.0, 1.5):
        result = Result(
            figures={"ratio": Figure(values=(median,), unit="x a|b", reach=2.0)},
            parameters={"n": 1},
            notes=("ten answers",),
        )
        with saved.open("a") as lines:
            lines.write("a table\n")
            lines.write(json.dumps(report.document("ingest", result, "180004")) + "\n")

    assert main(["report", str(saved)]) == 0

    page = capsys.readouterr().out
    assert "| ratio | 1.5 | 1.5 to 1.5 | 1 | x a\\|b | 2 | yes |" in page
    assert "ten answers." in page
    assert page.count("### `") == 1
    assert "- `overhead`" in page
    assert "- `ingest`" not in page


def test_every_scenario_has_its_place_on_the_page_of_figures():
    placed = [name for kind in figures.KINDS.values() for name in kind]
    assert sorted(placed) == names()


def test_every_scenario_is_listed_with_its_question(capsys):
    assert main(["list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == names()
    assert all(line.endswith("?") for line in lines)
