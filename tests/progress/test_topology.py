import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.progress.pages import check_manifest, check_pages, decode
from django_ray.progress.topology import Topology
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import TruncationReason
from tests.progress.making import item, limits

ROOM = 2_000 + 201 + 800
"""What a run holds beside its topology under `tight`."""


def tight(**changes):
    return limits(
        page_encoded=400,
        page_decoded=400,
        stage_row=2_000,
        session_snapshot=0,
        bequest=0,
        events=1,
        event_encoded=200,
        **changes,
    )


def extended(given_limits, nodes, edges, cuts=()):
    topology = Topology(given_limits)
    bounds = [0, *sorted(cuts), len(nodes)]
    for first, after in pairwise(bounds):
        topology.extend(
            nodes[first:after], [each for each in edges if first <= each[0] < after]
        )
    return topology


def read(candidate, kind):
    return [
        each
        for page in candidate.pages
        if page.kind == kind
        for each in decode(page.body, page.encoding, page.digest, page.kind)
    ]


def graph(number, seed=1):
    chance = random.Random(seed)
    nodes, edges = [], []
    for ordinal in range(number):
        nodes.append(item(ordinal, id=f"n{ordinal}" + "x" * chance.randrange(40)))
        width = min(ordinal, chance.randrange(4))
        if width:
            edges.append((ordinal, width, (ordinal - width, width)))
    return nodes, edges


PROFILES = [
    V1,
    tight(page_items=3),
    tight(page_items=3, retained_nodes=11),
    tight(page_items=3, retained_edges=13),
    tight(topology_encoded=900),
    tight(topology_decoded=700),
    tight(page_items=5, run_encoded=ROOM + 4_000),
    tight(page_items=5, run_decoded=ROOM + 5_000),
    limits(page_encoded=90, page_items=4),
    limits(detail_encoded=5 * 256),
]


@given(
    st.sampled_from(PROFILES),
    st.integers(0, 40),
    st.integers(0, 9),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_what_is_kept_depends_on_the_sequence_alone(profile, number, seed, cuts):
    nodes, edges = graph(number, seed)
    whole = extended(profile, nodes, edges)
    single = extended(profile, nodes, edges, range(1, number))

    parts = extended(profile, nodes, edges, [cut for cut in cuts if cut < number])

    expected = whole.candidate(1)
    assert parts.candidate(1) == single.candidate(1) == expected
    assert parts.reasons == single.reasons == whole.reasons
    check_manifest(expected.manifest)
    check_pages(expected.manifest, expected.pages)
    assert read(expected, "nodes") == nodes[: whole.node_count]


@pytest.mark.parametrize(("number", "pages"), [(255, 1), (256, 1), (257, 2)])
def test_a_page_closes_at_256_items(number, pages):
    nodes = [item(ordinal) for ordinal in range(number)]

    candidate = extended(V1, nodes, []).candidate(1)

    assert len(candidate.pages) == pages
    assert candidate.pages[0].item_count == min(number, 256)


@pytest.mark.parametrize(("room", "pages"), [(-1, 2), (0, 1), (1, 1)])
def test_a_page_closes_before_its_bytes_are_exceeded(room, pages):
    nodes = [item(0), item(1)]
    whole = extended(V1, nodes, []).candidate(1).manifest.decoded_bytes

    candidate = extended(limits(page_encoded=whole + room), nodes, []).candidate(1)

    assert len(candidate.pages) == pages


def test_a_closed_page_keeps_its_digest_as_the_graph_grows():
    nodes, edges = graph(700)
    before = extended(V1, nodes[:300], [e for e in edges if e[0] < 300]).candidate(1)

    after = extended(V1, nodes, edges).candidate(2)

    assert after.pages[0] == before.pages[0]
    assert after.pages[1] != before.pages[1]


def test_a_growing_graph_sends_only_what_is_not_published():
    nodes, edges = graph(700)
    topology = extended(V1, nodes[:600], [each for each in edges if each[0] < 600])
    first = topology.candidate(1)
    topology.promoted(first.manifest)

    topology.extend(nodes[600:], [])
    second = topology.candidate(2)

    sent = [(page.kind, page.item_count) for page in second.pages]
    assert sent == [("nodes", 700 - 512)]
    known = {page.digest for page in first.pages}
    assert set(second.manifest.digests) - known == {second.pages[0].digest}


def test_a_candidate_that_is_not_promoted_is_sent_again():
    nodes, edges = graph(300)
    topology = extended(V1, nodes, edges)
    first = topology.candidate(1)

    second = topology.candidate(2)

    assert second.pages == first.pages
    assert second.manifest == replace(first.manifest, version=2)


def test_nodes_that_are_handed_in_again_are_ignored():
    nodes, edges = graph(30)
    topology = extended(V1, nodes[:20], [each for each in edges if each[0] < 20])

    topology.extend(nodes[10:], [each for each in edges if each[0] >= 10])

    assert topology.candidate(1) == extended(V1, nodes, edges).candidate(1)


@pytest.mark.parametrize(("number", "kept"), [(6, 6), (7, 7), (8, 7)])
def test_nodes_past_the_limit_are_not_retained(number, kept):
    nodes = [item(ordinal) for ordinal in range(number)]

    topology = extended(limits(retained_nodes=7), nodes, [])

    assert topology.node_count == kept
    assert topology.reasons == (
        {TruncationReason.node_count_limit} if number > kept else set()
    )


@pytest.mark.parametrize(("width", "kept"), [(6, 6), (7, 7), (8, 7)])
def test_edges_past_the_limit_are_not_retained(width, kept):
    nodes = [item(ordinal) for ordinal in range(10)]

    topology = extended(limits(retained_edges=7), nodes, [(9, width, (0, width))])

    assert (topology.node_count, topology.edge_count) == (10, kept)
    assert topology.reasons == (
        {TruncationReason.edge_count_limit} if width > kept else set()
    )
    assert [each.source for each in read(topology.candidate(1), "edges")] == list(
        range(kept)
    )


def test_a_node_of_a_million_edges_is_cut_at_the_limit():
    nodes = [item(ordinal) for ordinal in range(25_000)]
    edges = [(ordinal, ordinal, (0, ordinal)) for ordinal in range(20_000, 25_000)]

    topology = extended(V1, nodes, edges)

    assert topology.edge_count == V1.retained_edges
    assert topology.node_count == V1.retained_nodes


@pytest.mark.parametrize("bound", ["topology_encoded", "topology_decoded"])
@pytest.mark.parametrize(("room", "kept"), [(-1, 2), (0, 3), (1, 3)])
def test_a_topology_ends_at_its_bytes(bound, room, kept):
    nodes = [item(ordinal) for ordinal in range(3)]
    whole = extended(V1, nodes, []).candidate(1).manifest.decoded_bytes

    topology = extended(limits(**{bound: whole + room}), nodes, [])

    assert topology.node_count == kept
    assert topology.reasons == (
        {TruncationReason.topology_size_limit} if kept < 3 else set()
    )


@pytest.mark.parametrize("bound", ["run_encoded", "run_decoded"])
@pytest.mark.parametrize(("room", "kept"), [(-1, 2), (0, 3), (1, 3)])
def test_a_topology_ends_where_the_run_has_no_room_for_its_rows(bound, room, kept):
    nodes = [item(ordinal) for ordinal in range(3)]
    whole = extended(V1, nodes, []).candidate(1).manifest.decoded_bytes
    exact = ROOM + whole + 3 * V1.node_reserve

    topology = extended(tight(**{bound: exact + room}), nodes, [])

    assert topology.node_count == kept
    assert topology.reasons == (
        {TruncationReason.run_size_limit} if kept < 3 else set()
    )


@pytest.mark.parametrize(("room", "kept"), [(-1, 2), (0, 3), (1, 3)])
def test_a_node_without_room_for_its_row_is_not_retained(room, kept):
    nodes = [item(ordinal) for ordinal in range(3)]

    topology = extended(limits(detail_encoded=3 * 256 + room), nodes, [])

    assert topology.node_count == kept


def test_nodes_go_on_when_edges_have_ended():
    nodes = [item(ordinal) for ordinal in range(6)]
    edges = [(ordinal, 1, (0, 1)) for ordinal in range(1, 6)]

    topology = extended(limits(retained_edges=2), nodes, edges)

    assert (topology.node_count, topology.edge_count) == (6, 2)


def test_no_node_is_kept_after_one_that_was_not():
    large = item(1, id="n" * 200)
    topology = extended(limits(topology_encoded=200), [item(0), large, item(2)], [])

    assert topology.node_count == 1


def test_the_run_leaves_less_for_detail_as_its_topology_grows():
    nodes, edges = graph(300)
    empty, full = Topology(V1), extended(V1, nodes, edges)

    assert empty.detail_room > V1.detail_encoded
    assert 0 < empty.detail_room - full.detail_room < 40_000


def test_an_empty_topology_has_a_manifest_without_pages():
    candidate = Topology(V1).candidate(1)

    assert candidate.pages == candidate.manifest.digests == ()
    check_manifest(candidate.manifest)
    check_pages(candidate.manifest, [])
