"""Every limit of the contract, in one frozen profile. Contract 2.

A limit has one home, here, and one name; using it elsewhere is an attribute access.
Sizes are bytes unless the name says otherwise. A deployment may use a smaller profile,
never a larger one.
"""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The caps of one profile; the applied profile's name is in every summary."""

    profile: str = "v1"

    summary: int = 16 * KIB
    page_items: int = 256
    page_encoded: int = 256 * KIB
    page_decoded: int = 1 * MIB
    record: int = 16 * KIB
    response_items: int = 256
    response_encoded: int = 512 * KIB
    response_decoded: int = 1 * MIB
    response_items_default: int = 100
    cursor: int = 2 * KIB
    retained_nodes: int = 25_000
    retained_edges: int = 100_000
    topology_encoded: int = 16 * MIB
    topology_decoded: int = 32 * MIB
    detail_encoded: int = 8 * MIB
    detail_decoded: int = 16 * MIB
    run_encoded: int = 32 * MIB
    run_decoded: int = 64 * MIB
    legacy_snapshot: int = 64 * MIB
    retention_days: int = 30
    retention_days_default: int = 7
    orphan_seconds: int = 3_600

    nesting: int = 6
    metrics_keys: int = 32
    metrics_encoded: int = 4 * KIB
    metric_key: int = 64
    metric_string: int = 256
    node_id: int = 256
    label: int = 512
    message: int = 2 * KIB
    error: int = 2 * KIB
    events: int = 32
    event_encoded: int = 1 * KIB
    preview_nesting: int = 4
    preview_items: int = 32
    preview_list_items: int = 16
    preview_entries: int = 15
    preview_key: int = 64
    preview_string: int = 256
    preview_encoded: int = 512
    preview_decoded: int = 2 * KIB

    frame: int = 256 * KIB
    frame_records: int = 1_024
    frame_cut: int = 96 * KIB
    worker_frame: int = 16 * KIB
    coordinator_window: int = 2
    worker_window: int = 1
    producers: int = 4_096
    pending_calls: int = 8
    stages: int = 64
    stage_row: int = 64 * KIB
    stage_label: int = 128
    stage_edges: int = 256
    stage_buckets: int = 48
    series_buckets: int = 256
    session_snapshot: int = 16_384
    session_compact: int = 2 * KIB
    bequest: int = 32 * KIB
    bequest_hosts: int = 256
    bequest_running: int = 1_024

    node_reserve: int = 256
    host: int = 64
    error_kind: int = 128
    first_failure: int = 256
    dependency_runs: int = 8_192


V1 = Limits()
"""The profile `v1`: the hard caps of the protocol."""

LOWERABLE = (
    "page_items",
    "page_encoded",
    "page_decoded",
    "record",
    "retained_nodes",
    "retained_edges",
    "topology_encoded",
    "topology_decoded",
    "detail_encoded",
    "detail_decoded",
    "run_encoded",
    "run_decoded",
    "node_id",
    "label",
    "events",
    "event_encoded",
    "coordinator_window",
    "producers",
    "stages",
    "stage_label",
    "stage_edges",
    "stage_buckets",
    "series_buckets",
    "first_failure",
    "dependency_runs",
)
"""What a profile may lower: what a run applies from its own limits, and nothing else.

All others are the same for every run. Decoders, worker processes and readers take V1; and
`stage_row`, `node_reserve` and the sizes of frames are the room that the least of a row or
record needs: a smaller one would not bound a run but break it.
"""
