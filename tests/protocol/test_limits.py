import dataclasses

import pytest

from django_ray.protocol.limits import KIB, MIB, V1, Limits

# Contract 2, row by row.
CONTRACT = {
    "summary": 16 * KIB,
    "page_items": 256,
    "page_encoded": 256 * KIB,
    "page_decoded": MIB,
    "record": 16 * KIB,
    "response_items": 256,
    "response_encoded": 512 * KIB,
    "response_decoded": MIB,
    "cursor": 2 * KIB,
    "retained_nodes": 25_000,
    "retained_edges": 100_000,
    "topology_encoded": 16 * MIB,
    "topology_decoded": 32 * MIB,
    "detail_encoded": 8 * MIB,
    "detail_decoded": 16 * MIB,
    "run_encoded": 32 * MIB,
    "run_decoded": 64 * MIB,
    "legacy_snapshot": 64 * MIB,
    "response_items_default": 100,
    "retention_days_default": 7,
    "retention_days": 30,
    "orphan_seconds": 3_600,
    "nesting": 6,
    "metrics_keys": 32,
    "metrics_encoded": 4 * KIB,
    "metric_key": 64,
    "metric_string": 256,
    "node_id": 256,
    "label": 512,
    "message": 2 * KIB,
    "error": 2 * KIB,
    "events": 32,
    "event_encoded": KIB,
    "preview_nesting": 4,
    "preview_items": 32,
    "preview_list_items": 16,
    "preview_entries": 15,
    "preview_key": 64,
    "preview_string": 256,
    "preview_encoded": 512,
    "preview_decoded": 2 * KIB,
    "frame": 256 * KIB,
    "frame_records": 1_024,
    "frame_cut": 96 * KIB,
    "worker_frame": 16 * KIB,
    "coordinator_window": 2,
    "worker_window": 1,
    "producers": 4_096,
    "pending_calls": 8,
    "stages": 64,
    "stage_row": 64 * KIB,
    "stage_label": 128,
    "stage_edges": 256,
    "stage_buckets": 48,
    "series_buckets": 256,
    "session_snapshot": 16_384,
    "session_compact": 2 * KIB,
    "node_reserve": 256,
    "first_failure": 256,
}


@pytest.mark.parametrize("name", CONTRACT)
def test_a_limit_of_the_profile_is_the_contract_s(name):
    assert getattr(V1, name) == CONTRACT[name]


def test_the_profile_is_named_and_frozen():
    assert V1.profile == "v1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        V1.summary = 1


def test_a_smaller_profile_differs_in_what_it_names_only():
    small = Limits(profile="small", retained_nodes=10)
    assert dataclasses.replace(small, profile="v1", retained_nodes=25_000) == V1


def test_what_is_kept_apart_fits_together():
    assert V1.retained_nodes * V1.node_reserve <= V1.detail_encoded
    assert V1.topology_encoded + V1.detail_encoded <= V1.run_encoded
    assert V1.frame_cut < V1.frame
    assert V1.worker_frame < V1.frame_cut
