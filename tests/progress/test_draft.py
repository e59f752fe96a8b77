from dataclasses import replace

import pytest

from django_ray.progress.delta import Revisions
from django_ray.protocol import canonical, frames
from django_ray.protocol.records import decode_detail
from django_ray.protocol.summary import decode as decode_summary
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    ReportingPolicy,
    TruncationReason,
)
from tests.progress.making import (
    START,
    Run,
    end,
    limits,
    node,
    progress,
    state,
)

DAY_MS = 86_400_000


def run(number=0, policy=ReportingPolicy.full, **changes):
    made = Run(limits(**changes), policy)
    made.apply(*(node(ordinal) for ordinal in range(number)))
    return made


def summary(publication):
    return decode_summary(publication.summary)


def test_the_first_publication_makes_nodes_rows_and_summary_visible():
    made = run()
    made.apply(node(0), node(1, 0, 1), state(1, "RUNNING"))

    found = made.publish()

    assert (found.base, found.after) == (
        Revisions(),
        Revisions(summary=1, detail=1, topology=1),
    )
    assert found.candidate.manifest.version == 1
    assert (found.rows.ordinals, found.rows.fresh) == ([0, 1], 2)
    assert found.rows.ids == ["1.step[0]", "1.step[1]"]
    assert found.rows.keys == [canonical.node_key(each) for each in found.rows.ids]
    assert found.rows.states == [0, 2]
    assert decode_detail(found.rows.records[1]).state == "RUNNING"
    read = summary(found)
    assert (read.retained_nodes, read.retained_edges) == (2, 1)
    assert (read.topology_version, read.detail_revision, read.revision) == (1, 1, 1)
    assert read.manifest_id == made.store.promoted
    assert (read.detail.availability, read.detail.complete) == ("AVAILABLE", True)


def test_a_changed_row_raises_the_detail_revision_alone():
    made = run(2)
    made.publish()
    made.apply(state(1, "RUNNING"))

    found = made.publish()

    assert found.after == Revisions(summary=2, detail=2, topology=1)
    assert found.candidate is None
    assert (found.rows.ordinals, found.rows.fresh) == ([1], 0)
    assert summary(found).manifest_id == made.store.promoted


def test_a_heartbeat_changes_only_the_revision_and_when_it_was_observed():
    made = run(2)
    first = summary(made.publish())
    made.now += 5_000

    found = made.publish()

    assert found.after == replace(found.base, summary=2)
    assert (found.rows.ordinals, found.stages, found.events) == ([], None, None)
    values = canonical.encode(summary(found))
    again = values.replace(b'"revision":2', b'"revision":1').replace(
        b'"observed_at_ms":%d' % (START + 5_000), b'"observed_at_ms":%d' % START
    )
    assert again == canonical.encode(first)


def test_the_stages_of_rows_are_the_indexes_of_the_stage_row():
    made = run()
    made.apply(node(0, stage="a"), node(1, stage="b"), node(2, stage="a"))

    assert made.publish().rows.stages == [0, 1, 0]


def test_the_percent_follows_a_fan_out_that_is_left_early():
    made = run(2)
    made.apply(frames.Declare(1, 8), state(0, "SUCCEEDED"), state(1, "SUCCEEDED"))
    assert summary(made.publish()).percent == 25

    made.apply(frames.Declare(1, 3))

    read = summary(made.publish())
    assert (read.declared_nodes, read.percent) == (3, 66)


def test_before_any_node_the_detail_is_not_reported():
    made = run()
    made.apply(frames.Declare(1, 8))

    found = made.publish()

    read = summary(found)
    assert found.after == Revisions(summary=1)
    assert (read.detail.availability, read.detail.complete) == ("NOT_REPORTED", False)
    assert (read.topology_version, read.detail_revision, read.manifest_id) == (
        None,
        None,
        None,
    )
    assert (read.declared_nodes, read.percent) == (8, 0)


def test_while_nodes_wait_the_detail_is_not_complete():
    made = run(1)
    made.publish()
    made.apply(node(1))

    read = summary(made.publish())

    assert (read.discovered_nodes, read.retained_nodes) == (2, 1)
    assert (read.detail.availability, read.detail.complete) == ("AVAILABLE", False)


def test_every_reason_is_named_in_the_contracts_order():
    made = run(retained_nodes=4, retained_edges=1, detail_encoded=4 * 256 + 100)
    made.apply(node(0), node(1, 0, 1, further=9), node(2, 0, 2), node(3), node(4))
    made.apply(progress(0, 1, message="m" * 900))

    detail = summary(made.publish()).detail

    assert detail.availability == "TRUNCATED"
    assert not detail.complete
    assert detail.reasons == (
        TruncationReason.node_count_limit,
        TruncationReason.edge_count_limit,
        TruncationReason.record_size_limit,
        TruncationReason.detail_size_limit,
    )


def test_a_reason_goes_when_nothing_is_omitted_any_more():
    made = run(2, detail_encoded=600)
    made.apply(progress(0, 1, message="m" * 500))
    assert summary(made.publish()).detail.availability == "TRUNCATED"

    made.apply(progress(0, 2, message="short"))

    detail = summary(made.publish()).detail
    assert (detail.availability, detail.reasons) == ("AVAILABLE", ())


def test_rows_past_the_topologys_bytes_are_not_written():
    made = run(4, topology_encoded=90)

    found = made.publish()

    kept = found.candidate.manifest.node_count
    assert 0 < kept < 4
    assert found.rows.ordinals == list(range(kept))
    made.apply(state(3, "RUNNING"))
    later = made.publish()
    assert later.rows.ordinals == []
    assert summary(later).node_counts.running == 1


def test_a_topology_that_took_no_more_is_not_staged_again():
    made = run(4, topology_encoded=90)
    made.publish()
    made.now += 2_000
    made.apply(node(4))

    assert made.publish().candidate is None


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_the_end_is_in_the_summary_with_its_expiry(outcome):
    made = run(1)
    made.apply(state(0, "SUCCEEDED"), end(outcome, START + 70))

    found = made.publish()

    read = summary(found)
    assert (read.state, read.ended_at_ms) == (outcome, START + 70)
    assert read.terminal.outcome == outcome
    assert not read.terminal.derived
    assert read.percent == (100 if outcome == "SUCCEEDED" else 99)
    assert found.expires_at_ms == read.expires_at_ms == START + 70 + 7 * DAY_MS


def test_an_end_at_the_end_of_time_is_still_a_date():
    made = run(1)
    made.apply(end(at_ms=frames.MAXIMUM_MILLISECONDS))

    assert made.publish().expires_at_ms == frames.MAXIMUM_MILLISECONDS


def test_a_run_without_a_node_succeeds_at_100_percent():
    made = run()
    made.apply(end())

    read = summary(made.publish())

    assert (read.percent, read.discovered_nodes) == (100, 0)
    assert read.detail.availability == "NOT_REPORTED"


@pytest.mark.parametrize("policy", ["summary", "terminal_only"])
def test_without_detail_the_summary_names_none(policy):
    made = run(3, ReportingPolicy(policy))
    made.apply(state(0, "FAILED"), end("FAILED"))

    found = made.publish()

    read = summary(found)
    assert found.after == Revisions(summary=1)
    assert (found.rows.ordinals, found.candidate, found.stages) == ([], None, None)
    assert (read.detail.availability, read.detail.reasons) == ("OMITTED_BY_POLICY", ())
    assert (read.topology_version, read.detail_revision, read.manifest_id) == (
        None,
        None,
        None,
    )
    assert (read.node_counts.failed, read.retained_nodes) == (1, 0)


def told(made):
    """Tell a run a whole small story, publishing between its parts."""
    yield made.apply(node(0), node(1, 0, 1), state(0, "RUNNING"))
    yield made.apply(progress(0, 1, message="m" * 600), state(0, "SUCCEEDED"))
    made.now += 3_000
    yield made.apply(node(2, 0, 2), state(1, "FAILED"), state(2, "SKIPPED"))
    yield made.apply(end("FAILED", START + 9))


@pytest.mark.parametrize("how", ["fail", "refuse", "lose"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_publication_that_failed_or_was_lost_ends_in_the_same_state(how, times):
    plain, troubled = run(detail_encoded=900), run(detail_encoded=900)
    for _ in told(plain):
        plain.publish()

    for _ in told(troubled):
        for _ in range(times):
            getattr(troubled, how)()
        troubled.publish()

    one, other = plain.store, troubled.store
    assert {k: (v.node_id, v.record) for k, v in one.rows.items()} == {
        k: (v.node_id, v.record) for k, v in other.rows.items()
    }
    assert (one.nodes(), one.edges()) == (other.nodes(), other.edges())
    assert (one.stages, one.events) == (other.stages, other.events)
    first, second = one.read(), other.read()
    for name in ("node_counts", "detail", "percent", "state", "ended_by_minute"):
        assert getattr(first, name) == getattr(second, name)


def test_a_lost_answer_shows_as_a_base_that_moved():
    made = run(1)
    made.lose()
    made.apply(node(1))

    found = made.publish()

    assert found.base == Revisions(summary=1, detail=1, topology=1)
    assert found.after.topology > 1
    assert [each.id for each in made.store.nodes()] == ["1.step[0]", "1.step[1]"]
    assert len(made.store.manifests) == 1


def test_revisions_continue_from_the_runs_row():
    made = run(1)
    made.store.revisions = Revisions(summary=41, detail=7, topology=3)
    made.draft.opened(made.store.revisions)

    found = made.publish()

    assert made.draft.base == found.after
    assert found.after == Revisions(summary=42, detail=8, topology=4)


def test_a_value_shrunk_for_a_new_node_is_written_with_it():
    made = run(2, detail_encoded=3 * 256 + 100)
    made.apply(progress(0, 1, message="m" * 500))
    assert summary(made.publish()).detail.availability == "AVAILABLE"
    made.apply(node(2))
    made.now += 2_000

    found = made.publish()

    assert found.rows.ordinals == [0, 2]
    assert decode_detail(found.rows.records[0]).message.omitted == "detail_size_limit"
    assert summary(found).detail.reasons == (TruncationReason.detail_size_limit,)


def test_a_value_shrunk_in_a_lost_publication_is_not_forgotten():
    made = run(2, detail_encoded=3 * 256 + 100)
    made.apply(progress(0, 1, message="m" * 500))
    made.publish()
    made.apply(node(2))
    made.now += 2_000
    made.lose()

    found = made.publish()

    assert found.rows.ordinals == [0, 2]
    assert decode_detail(found.rows.records[0]).message.omitted == "detail_size_limit"


def test_the_counts_equal_the_rows_when_nothing_is_omitted_and_the_run_ended():
    made = run(len(NODE_STATES))
    for ordinal, name in enumerate(NODE_STATES):
        made.apply(state(ordinal, name))
    made.apply(end())

    read = summary(made.publish())

    states = [row.state for row in made.store.rows.values()]
    for code, name in enumerate(NODE_STATES):
        assert read.node_counts.of(name) == states.count(code)


def test_25_000_nodes_are_published_at_once_within_every_cap():
    made = run(25_001)
    made.apply(*(state(each, "SUCCEEDED", host="h" * 64) for each in range(25_001)))

    found = made.publish()

    read = summary(found)
    assert len(found.rows.ordinals) == read.retained_nodes == 25_000
    assert read.node_counts.succeeded == 25_001
    assert read.detail.reasons == (TruncationReason.node_count_limit,)
    assert sum(map(len, found.rows.records)) <= made.limits.detail_encoded
