"""Recounts a run from its stored bytes, and names everything that disagrees.

The global proof behind the readers' local checks: a publication adjusts totals by deltas
and reads no row it does not change, so something has to count them now and then. ADR-0004.
A finding is a fixed word and a number; no stored text leaves here.
"""

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC
from math import isfinite

from django.db import connection
from django.db.models import FloatField, QuerySet
from django.db.models.functions import Extract

from django_ray.checks import DATABASE
from django_ray.errors import IntegrityFault
from django_ray.maintenance import candidates, cleanup, recount
from django_ray.maintenance.candidates import Kind
from django_ray.maintenance.ledger import Audit, Finding, Ledger
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import WorkflowRun
from django_ray.progress.stages import Stage, StageRow
from django_ray.protocol import summary
from django_ray.protocol.summary import Summary
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    RETAINED,
    TERMINAL_EXECUTION_STATES,
    ExecutionState,
    ReportingPolicy,
)
from django_ray.readers import context
from django_ray.readers.context import run_of

__all__ = ["Audit", "Finding", "audit", "run_ids", "runs_of"]

WINDOW = 200

OVER = TERMINAL_EXECUTION_STATES | {ExecutionState.RECONCILE}
"""The states of an execution whose run has its terminal summary."""


def audit(run_id: str) -> Audit:
    """Recount the run with this id in one snapshot; changes nothing."""
    ledger = Ledger()
    with _snapshot():
        # Of times a column can hold what Python cannot: they are compared as numbers.
        rows = WorkflowRun.objects.defer("created_at", "expires_at")
        run = rows.filter(run_id=uuid.UUID(run_id)).first()
        if run is None:
            _audit_absent(ledger, uuid.UUID(run_id))
        elif _is_expired(run):
            ledger.is_expired = True
        else:
            recount.topology(ledger, run)
            recount.rows(ledger, run)
            recount.extras(ledger, run)
            _audit_summary(ledger, run)
            _audit_end(ledger, run)
    return ledger.close()


def runs_of(name: uuid.UUID) -> list[str]:
    """Return the runs an id names: those of an execution, oldest first, or the one run.

    Empty when neither has it.
    """
    execution = _executions().filter(public_id=name).first()
    if execution is not None:
        return _of(execution.pk)
    known = (WorkflowRun, TaskAttempt, RayTaskExecution)
    found = any(model.objects.filter(run_id=name).exists() for model in known)
    return [str(name)] if found else []


def run_ids() -> Iterator[str]:
    """Yield the ids of all runs, execution by execution, in bounded statements."""
    after = 0
    rows = RayTaskExecution.objects.order_by("pk").values_list("pk", flat=True)
    while window := list(rows.filter(pk__gt=after)[:WINDOW]):
        for pk in window:
            yield from _of(pk)
        after = window[-1]


def _of(execution_pk: int) -> list[str]:
    """Return an execution's runs: with a row of progress, an attempt, or a summary."""
    runs = WorkflowRun.objects.filter(execution=execution_pk)
    attempts = TaskAttempt.objects.filter(execution=execution_pk)
    current = RayTaskExecution.objects.filter(pk=execution_pk, run_id__isnull=False)
    ordered = (
        *attempts.order_by("attempt_number").values_list("run_id", flat=True),
        *runs.order_by("attempt_number").values_list("run_id", flat=True),
        *current.values_list("run_id", flat=True),
    )
    return [str(run_id) for run_id in dict.fromkeys(ordered)]


def _snapshot() -> AbstractContextManager[None]:
    # A live run goes on being published: every count must see the same commit.
    return nullcontext() if connection.in_atomic_block else context.snapshot()


def _is_expired(run: WorkflowRun) -> bool:
    now = cleanup.database_now(DATABASE)
    return candidates.is_due(Kind.expired_runs, DATABASE, now, run.pk)


def _audit_absent(ledger: Ledger, run_id: uuid.UUID) -> None:
    """A run without its row: nothing was stored, or it expired; else it is missing."""
    attempt = _attempts().filter(run_id=run_id).first()
    row = _executions().filter(run_id=run_id).first()
    if attempt is None and row is None:
        ledger.find("run_missing")
        return
    data = row.progress_summary if row is not None else None
    if data is None and attempt is not None:
        data = attempt.terminal_summary
    if data is None:
        return
    try:
        said = summary.decode(bytes(data))
    except IntegrityFault:
        ledger.find("summary_corrupt")
        return
    if said.run.run_id != str(run_id):
        return
    _compare_state(ledger, row, attempt, said)
    if said.detail.availability not in RETAINED:
        return
    now_ms = cleanup.database_now(DATABASE).timestamp() * 1_000
    ledger.is_expired = said.expires_at_ms is not None and said.expires_at_ms <= now_ms
    if not ledger.is_expired:
        ledger.find("run_missing")


def _audit_summary(ledger: Ledger, run: WorkflowRun) -> None:
    data = _summary_of(run)
    if data is None:
        if run.summary_revision:
            ledger.find("summary_missing", run.summary_revision)
        return
    try:
        said = summary.decode(data)
    except IntegrityFault:
        ledger.find("summary_corrupt")
        return
    if said.run != run_of(run):
        if not _is_awaited(run, said):
            ledger.find("summary_foreign")
        return
    _compare(ledger, run, said, said.terminal is not None and said.terminal.derived)


def _is_awaited(run: WorkflowRun, said: Summary) -> bool:
    """Claim that an earlier attempt's summary stands until this run publishes its first."""
    return (
        not run.summary_revision
        and said.run.task_execution_pk == run.execution_id
        and said.run.execution_generation < run.execution_generation
    )


def _compare(ledger: Ledger, run: WorkflowRun, said: Summary, derived: bool) -> None:
    # The lifecycle derives past the producer's last revision, which the run row keeps.
    ahead = said.revision - run.summary_revision
    if ahead < derived or (ahead and not derived):
        ledger.find("summary_revision", said.revision)
    pointers = (said.detail_revision or 0, said.topology_version or 0, said.manifest_id)
    if pointers != (run.detail_revision, run.topology_version, ledger.manifest_id):
        ledger.find("summary_pointers")
    if said.retention_days != run.retention_days:
        ledger.find("summary_retention", said.retention_days)
    if said.detail.availability in RETAINED:
        _compare_retained(ledger, said, derived)
    if ledger.stages is not None and said.policy is ReportingPolicy.full:
        _compare_stages(ledger, ledger.stages, said, derived)


def _compare_retained(ledger: Ledger, said: Summary, derived: bool) -> None:
    if (said.retained_nodes, said.retained_edges) != (ledger.rows, ledger.edges):
        ledger.find("summary_retained", said.retained_nodes)
    if said.detail.complete and said.terminal is not None and not derived:
        for state in NODE_STATES:
            if said.node_counts.of(state) != ledger.states[state]:
                ledger.find("summary_counts", said.node_counts.of(state))


def _compare_stages(
    ledger: Ledger, row: StageRow, said: Summary, derived: bool
) -> None:
    # A success that the lifecycle derived changes the summary's counts alone.
    if not derived:
        _compare_counts(ledger, row.stages, said)
    # Whatever disagrees so far would be told again, stage by stage.
    if not ledger.disagreements:
        recount.stages(ledger, row, said)


def _compare_counts(ledger: Ledger, stages: tuple[Stage, ...], said: Summary) -> None:
    """Compare the counts of all stages together with the summary's.

    In a live run a node may be counted that is not registered yet and so in no stage.
    """
    exact = said.detail.complete or said.terminal is not None
    for code, state in enumerate(NODE_STATES):
        found, count = sum(stage.counts[code] for stage in stages), said.node_counts
        if found > count.of(state) or (exact and found < count.of(state)):
            ledger.find("stages_counts", found)


def _audit_end(ledger: Ledger, run: WorkflowRun) -> None:
    """Compare an ended run's expiry, and the copies of its terminal summary."""
    attempt = _attempts().filter(run_id=run.run_id).first()
    row = _executions().filter(pk=run.execution_id, run_id=run.run_id).first()
    if attempt is None:
        if row is not None and row.state in OVER:
            ledger.find("attempt_missing")
        return
    kept = attempt.terminal_summary
    # Whatever ends an attempt gives it a summary, reported or not.
    differs = kept is None and attempt.state in TERMINAL_EXECUTION_STATES
    if row is not None and row.state in OVER:
        differs |= _bytes(row.progress_summary) != _bytes(kept)
        if attempt.state != row.state and not _waits_for_word(row, attempt):
            ledger.find("attempt_state")
    if differs:
        ledger.find("attempt_summary")
    if kept is None:
        return
    try:
        said = summary.decode(bytes(kept))
    except IntegrityFault:
        ledger.find("attempt_corrupt")
        return
    owner = (attempt.execution_id, attempt.attempt_number, attempt.execution_generation)
    named = (run.execution_id, run.attempt_number, run.execution_generation)
    if owner != named or said.run != run_of(run):
        ledger.find("attempt_foreign")
    _compare_state(ledger, row, attempt, said)
    if said.terminal is not None:
        _compare_expiry(ledger, run, said)


def _waits_for_word(row: RayTaskExecution, attempt: TaskAttempt) -> bool:
    """Claim that the attempt has ended, and what follows it is an operator's to say."""
    ended = attempt.state in TERMINAL_EXECUTION_STATES
    return row.state == ExecutionState.RECONCILE and ended


def _compare_state(
    ledger: Ledger,
    row: RayTaskExecution | None,
    attempt: TaskAttempt | None,
    said: Summary,
) -> None:
    """Compare an ended run's summary with its end: the row's while it is current."""
    known = [each.state for each in (row, attempt) if each is not None]
    end = next((each for each in known if each in TERMINAL_EXECUTION_STATES), None)
    told = (said.state, None if said.terminal is None else said.terminal.outcome)
    if end is not None and told != (end, end):
        ledger.find("summary_state")


def _compare_expiry(ledger: Ledger, run: WorkflowRun, said: Summary) -> None:
    epoch = Extract("expires_at", "epoch", tzinfo=UTC, output_field=FloatField())
    seconds = (
        WorkflowRun.objects.filter(pk=run.pk).values_list(epoch, flat=True).first()
    )
    if seconds is None:
        ledger.find("expiry_missing")
    elif not isfinite(seconds) or said.expires_at_ms != round(seconds * 1_000):
        ledger.find("expiry")


def _summary_of(run: WorkflowRun) -> bytes | None:
    """Return the summary kept of the run: the execution's while it is its current run."""
    row = _executions().filter(pk=run.execution_id, run_id=run.run_id).first()
    if row is not None:
        return _bytes(row.progress_summary)
    attempt = _attempts().filter(run_id=run.run_id).first()
    return None if attempt is None else _bytes(attempt.terminal_summary)


def _executions() -> QuerySet[RayTaskExecution]:
    """Never the whole row: its arguments, result and legacy snapshot are not bounded."""
    return RayTaskExecution.objects.only("state", "progress_summary")


def _attempts() -> QuerySet[TaskAttempt]:
    identity = ("execution_id", "attempt_number", "execution_generation")
    return TaskAttempt.objects.only(*identity, "state", "terminal_summary")


def _bytes(data: bytes | memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)
