"""Reading recorded workflows."""

import json
from pathlib import Path

import pytest

from django_ray.errors import GraphRefused
from examples.census import wfformat

INSTANCES = Path(__file__).resolve().parents[3] / "shared" / "data" / "wfinstances"


def document(*tasks, runtimes=()):
    return {
        "workflow": {
            "specification": {
                "tasks": [
                    {"id": name, "name": name, "parents": list(parents)}
                    for name, parents in tasks
                ]
            },
            "execution": {
                "tasks": [
                    {"id": name, "runtimeInSeconds": runtime}
                    for name, runtime in runtimes
                ]
            },
        }
    }


@pytest.fixture
def write(tmp_path):
    def write(body):
        path = tmp_path / "workflow.json"
        path.write_text(body if isinstance(body, str) else json.dumps(body))
        return path

    return write


def test_steps_come_behind_their_parents_and_else_in_their_order(write):
    path = write(document(("c", ["a"]), ("a", []), ("b", [])))

    assert [step.id for step in wfformat.read(path)] == ["a", "b", "c"]


def test_stage_is_the_name_without_its_number(write):
    path = write(document(("mAdd_ID0000001", []), ("align_2", []), ("plain", [])))

    stages = [step.stage for step in wfformat.read(path)]

    assert stages == ["mAdd", "align", "plain"]


def test_critical_path_is_the_longest_chain(write):
    path = write(
        document(
            ("a", []),
            ("b", ["a"]),
            ("c", ["a"]),
            runtimes=[("a", 1), ("b", 5), ("c", 2)],
        )
    )

    assert wfformat.critical_path(wfformat.read(path)) == 6


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "not a WfFormat document"),
        ("{}", "not a WfFormat document"),
        (document(("a", []), ("a", [])), "named twice"),
        (document(("a", ["b"])), "no known parent"),
        (document(("a", ["b"]), ("b", ["a"])), "cycle"),
        (document(("a", []), runtimes=[("a", -1)]), "no duration"),
    ],
)
def test_malformed_workflow_is_refused_by_name(write, body, reason):
    with pytest.raises(GraphRefused, match=reason):
        wfformat.read(write(body))


def test_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(GraphRefused):
        wfformat.read(tmp_path / "nothing.json")


@pytest.mark.skipif(not INSTANCES.is_dir(), reason="the recorded workflows are absent")
def test_recorded_workflows_are_read_whole():
    found = {
        path.name.split("-")[0]: wfformat.read(path)
        for path in sorted(INSTANCES.glob("*.json"))
    }

    sizes = {
        name: (len(s), sum(len(x.parents) for x in s)) for name, s in found.items()
    }
    assert sizes == {
        "1000genome": (416, 608),
        "helloworld": (5, 4),
        "montage": (1738, 4698),
        "rnaseq": (197, 451),
        "seismology": (301, 300),
    }
    assert len({step.stage for step in found["rnaseq"]}) == 62
