"""What is not retained is named, counted exactly, and the same for the same input."""

import datetime as dt

import pytest

from django_ray.maintenance.audit import audit
from django_ray.progress.delta import Published
from django_ray.progress.draft import Draft
from django_ray.progress.model import Model
from django_ray.progress.stages import decode as decode_stages
from django_ray.protocol import summary as codec
from django_ray.protocol.frames import Declare
from django_ray.protocol.limits import V1
from django_ray.protocol.records import Omitted, decode_detail
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import DetailAvailability, TruncationReason
from django_ray.readers import context
from django_ray.storage.writer import Writer
from tests.progress.making import (
    START,
    Run,
    end,
    limits,
    node,
    progress,
    settings,
    state,
)
from tests.storage import helpers

NODES = 12
EDGES = NODES * (NODES - 1) // 2
MESSAGE = "m" * 400
REASONS = TruncationReason

PAGE = 4_096
EXTRAS = (
    V1.stage_row + V1.events * (V1.event_encoded + 1) + V1.session_snapshot + V1.bequest
)
"""What the run's cap leaves to stage row, events, session and bequest."""

PROFILES = {
    "node_count_limit": {"retained_nodes": 5},
    "edge_count_limit": {"retained_edges": 7},
    "record_size_limit": {"record": 300},
    "topology_size_limit": {"topology_encoded": 600},
    "detail_size_limit": {"detail_encoded": NODES * V1.node_reserve + 300},
    "run_size_limit": {
        "page_encoded": PAGE,
        "run_encoded": EXTRAS + 2 * PAGE + NODES * V1.node_reserve + 900,
    },
}


def live(profile):
    """Register, run, report and end a graph whose every node joins all before it."""
    run = Run(limits(**profile))
    run.apply(Declare(1, NODES))
    for ordinal in range(NODES):
        run.apply(node(ordinal, *((0, ordinal) if ordinal else ())))
    run.publish()
    for ordinal in range(NODES):
        run.apply(state(ordinal, "RUNNING"), progress(ordinal, message=MESSAGE))
        run.publish()
        run.now += 1_000
        outcome = "FAILED" if ordinal == 3 else "SUCCEEDED"
        run.apply(state(ordinal, outcome, run.now))
    run.apply(end("FAILED", run.now))
    run.publish()
    return run


def stored(run):
    """Return every byte the run stored."""
    store = run.store
    pages = sorted((digest, page.body) for digest, page in store.pages.items())
    rows = {ordinal: row.record for ordinal, row in store.rows.items()}
    return store.summary, store.stages, store.events, pages, rows


@pytest.mark.parametrize("reason", PROFILES)
def test_a_reason_is_named_beside_the_observed_and_the_retained_counts(reason):
    run = live(PROFILES[reason])

    said = run.store.read()
    kept = len(run.store.nodes()), len(run.store.edges())
    assert said.detail.availability is DetailAvailability.TRUNCATED
    assert reason in said.detail.reasons
    assert not said.detail.complete
    assert (said.discovered_nodes, said.discovered_edges) == (NODES, EDGES)
    assert (said.retained_nodes, said.retained_edges) == kept
    assert len(run.store.rows) == kept[0]
    assert said.node_counts == NodeCounts(succeeded=NODES - 1, failed=1)
    assert said.limits_profile == "small"
    (stage,) = decode_stages(run.store.stages).stages
    assert (sum(stage.counts), stage.kept) == (NODES, kept[0])


ALONE = {
    "node_count_limit": (5, 10, set()),
    "edge_count_limit": (NODES, 7, set()),
    "record_size_limit": (NODES, EDGES, {"record_size_limit"}),
    "detail_size_limit": (NODES, EDGES, {"detail_size_limit"}),
}


@pytest.mark.parametrize("reason", ALONE)
def test_a_limit_cuts_what_it_is_of_and_nothing_else(reason):
    nodes, edges, markers = ALONE[reason]

    run = live(PROFILES[reason])

    said = run.store.read()
    assert said.detail.reasons == (reason,)
    assert (said.retained_nodes, said.retained_edges) == (nodes, edges)
    records = [decode_detail(row.record) for row in run.store.rows.values()]
    omitted = {r.message.omitted for r in records if isinstance(r.message, Omitted)}
    assert omitted == markers


@pytest.mark.parametrize("reason", PROFILES)
def test_the_same_input_is_truncated_into_the_same_bytes(reason):
    assert stored(live(PROFILES[reason])) == stored(live(PROFILES[reason]))


def test_without_a_limit_met_no_reason_is_named():
    said = live({}).store.read()

    assert said.detail.availability is DetailAvailability.AVAILABLE
    assert said.detail.reasons == ()
    assert (said.retained_nodes, said.retained_edges) == (NODES, EDGES)


def test_every_reason_that_applies_is_named_in_the_contract_s_order():
    merged = PROFILES["detail_size_limit"] | PROFILES["edge_count_limit"]
    run = live({**merged, "retained_nodes": 11, "detail_encoded": 11 * 256 + 300})

    assert run.store.read().detail.reasons == (
        REASONS.node_count_limit,
        REASONS.edge_count_limit,
        REASONS.detail_size_limit,
    )


def test_every_reason_but_the_lifecycle_s_has_a_profile():
    assert {*PROFILES, REASONS.terminal_state_unreported} == set(REASONS)


NO_NODE = {"run_encoded": 500_000}
"""Less than what a run holds beside its topology."""


def test_where_no_node_fits_the_reason_is_named_all_the_same():
    run = live(NO_NODE)

    said = run.store.read()
    assert said.detail.availability is DetailAvailability.TRUNCATED
    assert said.detail.reasons == (REASONS.run_size_limit,)
    assert not said.detail.complete
    assert said.discovered_nodes == NODES
    assert (said.retained_nodes, said.retained_edges) == (0, 0)
    assert (run.store.nodes(), run.store.rows) == ([], {})
    # One topology without a node is enough.
    assert (said.topology_version, said.detail_revision) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_a_run_of_which_no_node_fits_is_stored_and_read():
    with helpers.psycopg.connect(helpers.dsn(), autocommit=True) as conn:
        identity = helpers.execution(conn)
        given = helpers.msgspec.structs.replace(
            settings(limits(**NO_NODE)), identity=identity
        )
        model, draft, writer = Model(given), Draft(given), Writer(given, helpers.dsn)
        draft.opened(writer.begin().revisions)
        model.apply(node(0), START)
        model.apply(node(1, 0, 1), START)
        model.apply(end("FAILED"), START)
        delta = model.take(START)
        staged = writer.stage(draft.candidate(delta))
        published = writer.publish(draft.publication(delta, staged.manifest_id, START))
        writer.close()

        row = conn.execute("SELECT progress_summary FROM django_ray_execution")
        said = codec.decode(row.fetchone()[0])
        assert published == Published(0, 0)
        assert said.detail.reasons == (REASONS.run_size_limit,)
        selected = context.select(said, dt.datetime.now(dt.UTC))
        assert selected.manifest.node_count == 0
        assert audit(identity.run_id).findings == ()
        conn.execute("DELETE FROM django_ray_execution")


OBSERVED = 100_000


@pytest.mark.django_db(transaction=True)
def test_of_100_000_observed_nodes_25_000_are_retained_and_all_are_counted():
    with helpers.psycopg.connect(helpers.dsn(), autocommit=True) as conn:
        identity = helpers.execution(conn)
        given = helpers.msgspec.structs.replace(settings(), identity=identity)
        model, draft, writer = Model(given), Draft(given), Writer(given, helpers.dsn)
        draft.opened(writer.begin().revisions)
        for ordinal in range(OBSERVED):
            model.apply(node(ordinal, *((ordinal - 1, 1) if ordinal else ())), START)
        for ordinal in range(OBSERVED):
            name = "FAILED" if ordinal % 1_000 == 999 else "SUCCEEDED"
            model.apply(state(ordinal, name), START)
        model.apply(end("FAILED"), START)
        delta = model.take(START)
        staged = writer.stage(draft.candidate(delta))
        published = writer.publish(draft.publication(delta, staged.manifest_id, START))
        writer.close()

        row = conn.execute("SELECT progress_summary FROM django_ray_execution")
        said = codec.decode(row.fetchone()[0])
        assert published == Published(V1.retained_nodes, published.bytes)
        assert (said.discovered_nodes, said.discovered_edges) == (
            OBSERVED,
            OBSERVED - 1,
        )
        assert (said.retained_nodes, said.retained_edges) == (25_000, 24_999)
        assert said.node_counts == NodeCounts(succeeded=99_900, failed=100)
        assert said.detail.availability is DetailAvailability.TRUNCATED
        assert said.detail.reasons == (REASONS.node_count_limit,)
        selected = context.select(said, dt.datetime.now(dt.UTC))
        assert selected.manifest.node_count == V1.retained_nodes
        assert audit(identity.run_id).findings == ()
        conn.execute("DELETE FROM django_ray_execution")
