"""Pictures and stored rows for the tests of readers and terminal."""

import datetime as dt
import uuid
from dataclasses import replace

import msgspec

from django_ray.protocol import summary as codec
from django_ray.protocol.summary import NodeCounts, Summary, Terminal
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    ExecutionStrategy,
    NodeState,
    ReportingPolicy,
    WorkflowState,
)
from django_ray.readers.picture import (
    Execution,
    Failure,
    Picture,
    Reading,
    Running,
    Stage,
)

NOW = dt.datetime(2026, 11, 23, 14, 10, 47, tzinfo=dt.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
PUBLIC_ID = uuid.UUID("3f0c6d52-8a1e-4c0b-9e57-6b1d2f7a9c04")
RUN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")

COUNTS = NodeCounts(
    succeeded=120, failed=1, skipped=1, running=12, submitted=8, pending=55
)


def make_summary(counts=COUNTS, **changes):
    found = Summary(
        changed_at_ms=NOW_MS - 800,
        declared_nodes=counts.total,
        detail=codec.Detail(
            availability=DetailAvailability.AVAILABLE, complete=True, reasons=()
        ),
        detail_revision=400,
        discovered_edges=451,
        discovered_nodes=counts.total,
        ended_at_ms=None,
        ended_by_minute=(),
        expires_at_ms=None,
        hosts=4,
        limits_profile="v1",
        manifest_id=77,
        node_counts=counts,
        observed_at_ms=NOW_MS - 800,
        percent=100 * counts.ended // max(counts.total, 1),
        plan_fingerprint="0" * 64,
        policy=ReportingPolicy.full,
        retained_edges=451,
        retained_nodes=counts.total,
        retention_days=7,
        revision=412,
        run=codec.Run(
            attempt_number=1,
            execution_generation=1,
            run_id=str(RUN_ID),
            task_execution_pk=5,
        ),
        schema=3,
        session=None,
        started_at_ms=NOW_MS - 520_000,
        state=WorkflowState.RUNNING,
        storage="database",
        storage_protocol=1,
        strategy=ExecutionStrategy.dynamic,
        terminal=None,
        topology_version=3,
    )
    return msgspec.structs.replace(found, **changes)


def ended(summary, outcome=WorkflowState.SUCCEEDED, percent=100):
    return msgspec.structs.replace(
        summary,
        state=outcome,
        percent=percent,
        ended_at_ms=NOW_MS - 60_000,
        terminal=Terminal(derived=False, outcome=outcome, reason=""),
    )


def make_execution(state=ExecutionState.RUNNING, **changes):
    found = Execution(
        pk=5,
        public_id=PUBLIC_ID,
        task_path="science.tasks.rnaseq",
        queue_name="default",
        state=state,
        attempt_number=1,
        execution_generation=1,
        run_id=RUN_ID,
        policy=ReportingPolicy.full,
        max_attempts=None,
        timeout_seconds=None,
        enqueued_at=NOW - dt.timedelta(seconds=530),
        claimed_at=NOW - dt.timedelta(seconds=522),
        started_at=NOW - dt.timedelta(seconds=520),
        finished_at=None,
        cancel_requested_at=None,
        lease_expires_at=NOW + dt.timedelta(seconds=27),
    )
    return replace(found, **changes)


def make_reading(summary="made", *, state=ExecutionState.RUNNING, **changes):
    found = make_summary() if summary == "made" else summary
    availability = changes.pop(
        "availability",
        found.detail.availability if found else DetailAvailability.NOT_REPORTED,
    )
    read_at = changes.pop("read_at", NOW)
    return Reading(
        execution=make_execution(state, **changes),
        summary=found,
        availability=availability,
        read_at=read_at,
    )


def stage(index, label, start=None, p50=None, p95=None, **counts):
    return Stage(
        index=index,
        label=label,
        counts=NodeCounts(**counts),
        first_start_ms=start,
        p50_ms=p50,
        p95_ms=p95,
        longest_ms=p95,
    )


STAGES = (
    stage(0, "TRIM", NOW_MS - 500_000, 900, 2_000, succeeded=65),
    stage(1, "DUPRADAR", NOW_MS - 90_000, succeeded=1, failed=1, running=1, pending=2),
    stage(
        2,
        "PICARD_MARKDUPLICATES",
        NOW_MS - 80_000,
        56_000,
        57_000,
        succeeded=3,
        running=2,
    ),
    stage(
        3, "BEDTOOLS_GENOMECOV", NOW_MS - 70_000, 17_000, 17_000, submitted=1, pending=1
    ),
    stage(4, "MULTIQC", pending=1),
)

FAILURES = (
    Failure(
        node_id="DUPRADAR_100",
        ended_ms=NOW_MS - 258_000,
        try_=3,
        kind="CalledProcessError",
        text="Rscript exited with 1",
    ),
)

RUNNING = (
    Running(
        node_id="PICARD_MARKDUPLICATES_46",
        stage=2,
        started_ms=NOW_MS - 29_000,
        host="10.4.2.11",
        message="sorting by coordinate",
        current=7,
        total=10,
    ),
    Running(
        node_id="DUPRADAR_7",
        stage=1,
        started_ms=NOW_MS - 5_000,
        host="10.4.2.14",
        message="",
        current=None,
        total=None,
    ),
)


def make_picture(reading=None, **changes):
    found = Picture(
        reading=reading or make_reading(),
        stages=STAGES,
        failures=FAILURES,
        running=RUNNING,
    )
    return replace(found, **changes)


EVERY_STATE = NodeCounts(**{state.lower(): 1 for state in NodeState})
