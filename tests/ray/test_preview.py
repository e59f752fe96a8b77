"""Previews and last reports of real leaves, as their coordinator passes them on."""

import json

import pytest
import ray

from django_ray.errors import ConfigurationError
from django_ray.protocol import values
from django_ray.protocol.vocabulary import NodeState, ReportingPolicy
from django_ray.workflow import fan_out, preview, run
from tests.progress.making import limits
from tests.ray.leaves import (
    HOSTILE,
    SECRET,
    collect,
    double,
    hanging,
    head,
    hostile,
    listed,
    misled,
    noted,
    noted_and_failed,
    noted_and_lost,
    say_last,
    say_last_and_fail,
    secretive,
    streamed,
    three_listed,
)
from tests.ray.runs import disabled, observed, settings

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def shown(recorder):
    """The previews of a run by id, each within its bounds."""
    for said in recorder.previews:
        values.require_preview(said.value)
    return {
        recorder.ids[said.ordinal]: json.loads(said.value) for said in recorder.previews
    }


def test_each_item_of_a_fan_out_shows_what_its_projector_makes():
    with observed() as recorder:
        assert list(fan_out(listed, [0, 3], key=str)) == [[], [0, 1, 2]]

    path = "1.tests.ray.leaves.listed"
    assert shown(recorder) == {
        f"{path}[0]": {"rows": 0, "first": []},
        f"{path}[3]": {"rows": 3, "first": [0, 1]},
    }


def test_each_node_of_a_graph_shows_what_its_projector_makes():
    with observed() as recorder:
        numbers = listed.options(name="numbers").bind(4)
        assert run(collect.bind(numbers, more=double.bind(1))) == ([0, 1, 2, 3], 2)

    assert shown(recorder) == {"1.numbers": {"rows": 4, "first": [0, 1]}}


def test_of_several_returns_the_tuple_is_projected_and_of_a_stream_its_return():
    with observed() as recorder:
        assert run(three_listed.bind(5)) == [5, 6, 7]
        assert ray.get(list(run(streamed.bind(2)))) == [0, 1]

    assert list(shown(recorder).values()) == [
        {"rows": 3, "first": [5, 6]},
        {"rows": 7, "first": ["t", "h"]},
    ]


def test_a_function_without_a_projector_shows_nothing():
    with observed() as recorder:
        list(fan_out(double, range(3)))

    assert recorder.previews == []


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_projector_harms_no_leaf_and_says_why_it_shows_nothing(kind):
    with observed() as recorder:
        assert list(fan_out(hostile, [kind, kind])) == [kind, kind]

    assert recorder.count(NodeState.SUCCEEDED) == 2
    reasons = {
        "raises": "preview_raised",
        "exits": "preview_raised",
        "recurs": "preview_raised",
        "contains itself": "preview_nesting",
        "NaN": "preview_not_finite",
        "bytes": "preview_value_not_plain",
        "huge": "preview_list_items",
        "object": "preview_value_not_plain",
    }
    marker = {"omitted": reasons[kind]} if kind in reasons else [1, 2]
    assert list(shown(recorder).values()) == [marker, marker]


def test_a_projector_that_hangs_or_is_nowhere_harms_no_leaf():
    with observed() as recorder:
        assert list(fan_out(hanging, range(4))) == [0, 1, 2, 3]
        assert list(fan_out(misled, range(2))) == [0, 1]

    slow, nowhere = {"omitted": "preview_slow"}, {"omitted": "preview_unavailable"}
    assert list(shown(recorder).values()) == [slow] * 4 + [nowhere] * 2


def test_secrets_stay_in_the_process_of_the_leaf():
    with observed() as recorder:
        assert run(secretive.bind()) == 1

    assert SECRET.encode() not in recorder.previews[0].value
    assert shown(recorder) == {
        "1.tests.ray.leaves.secretive#0": {
            "password": "[redacted]",
            "token=[redacted]": "[redacted]",
            "note": "Bearer [redacted]",
        }
    }


def test_a_failed_leaf_is_not_projected(tmp_path):
    path = tmp_path / "noted"
    with observed() as recorder:
        with pytest.raises(ValueError, match="failed"):
            run(noted_and_failed.bind(str(path)))
        with pytest.raises(TypeError):
            run(noted_and_lost.bind(str(tmp_path / "lost")))

    assert not path.exists()
    assert recorder.previews == []
    assert recorder.count(NodeState.FAILED) == 2


@pytest.mark.parametrize("policy", ["summary", "terminal_only"])
def test_without_detail_nothing_is_projected(tmp_path, policy):
    path = tmp_path / "noted"
    with observed(told=settings(policy=ReportingPolicy(policy))) as recorder:
        assert list(fan_out(noted, [str(path)])) == [str(path)]
        list(fan_out(say_last, [1]))
    with disabled():
        assert list(fan_out(noted, [str(path)])) == [str(path)]
    assert list(fan_out(noted, [str(path)])) == [str(path)]

    assert not path.exists()
    assert (recorder.previews, recorder.reports) == ([], [])


def test_past_the_nodes_with_detail_nothing_is_projected(tmp_path):
    path = tmp_path / "noted"
    told = settings(limits=limits(retained_nodes=2))
    with observed(told=told) as recorder:
        list(fan_out(noted, [str(path)] * 3, max_in_flight=1))

    assert path.read_text() == "xx"
    assert [said.ordinal for said in recorder.previews] == [0, 1]


def test_the_last_report_of_a_leaf_comes_with_its_end():
    with observed() as recorder:
        list(fan_out(say_last, range(20)))
        with pytest.raises(ValueError, match="failed"):
            run(say_last_and_fail.bind(7))

    said = {report.target: report for report in recorder.reports}
    assert sorted(said) == list(range(21))
    assert all(said[n].message == f"last of {n}" for n in range(20))
    assert (said[20].current, said[20].message) == (7, "last words")


def test_what_a_leaf_did_not_say_is_not_passed_on():
    with observed() as recorder:
        list(fan_out(double, range(5)))

    assert recorder.reports == []


def test_a_projector_stands_below_ray_remote_and_has_a_path():
    with pytest.raises(ConfigurationError):
        preview(head)(double)
    with pytest.raises(ConfigurationError):
        preview(lambda output: output)
