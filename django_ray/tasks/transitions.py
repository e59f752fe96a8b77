"""Claim, adoption, start and end of an execution, each under its row lock.

Lock order as the fence's: the execution's row, then its run; attempt and lease only ever
under the execution's lock. A worker's transitions compare the four fields of the run and
its own `lease_epoch`; leases live on the database's clock. Contract 4.6, 4.14.
"""

import json
import random
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.identity import RunIdentity
from django_ray.models.executions import ExecutionLease, RayTaskExecution, TaskAttempt
from django_ray.protocol import plan
from django_ray.protocol.vocabulary import ExecutionState, WorkflowState
from django_ray.tasks import ending, leases, retrying
from django_ray.tasks.ending import End
from django_ray.tasks.outcome import Failed
from django_ray.tasks.retrying import Next

ACTIVE = (ExecutionState.CLAIMED, ExecutionState.RUNNING)
"""The states in which a run owns its row, and needs a worker that watches it."""

CURRENT = (*ACTIVE, ExecutionState.RECONCILE)
"""The states in which what a run has published is its execution's, and stays."""

WAITING = (ExecutionState.QUEUED, ExecutionState.RETRY_WAIT)
"""The states in which nothing of an execution runs."""

UNENDED = ("host_lost", "host_not_started", "refused")
"""The reasons of a run whose function did not come to an end."""

UNREAD = ("progress_data",)
"""What no transition needs: a legacy snapshot may be of 64 MiB."""


IDENTITY = ("attempt_number", "execution_generation", "run_id")
"""The columns that tell, with the key, which run owns a row."""


@dataclass(frozen=True, slots=True)
class Held:
    """An execution under a worker's lease: who may end it, and of which run."""

    identity: RunIdentity
    owner: str
    lease_epoch: int


@dataclass(frozen=True, slots=True)
class Orphan:
    """A run under this worker's lease whose host it has yet to find.

    `has_begun`: its outer task took the row to RUNNING, so no second one may be started.
    """

    held: Held
    has_begun: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """The transition is committed; the row is as it left it."""

    execution: RayTaskExecution


@dataclass(frozen=True, slots=True)
class Retrying:
    """The attempt's end is committed, and the execution waits for its next one."""


@dataclass(frozen=True, slots=True)
class Reconciling:
    """The attempt's end is committed, and what follows it is an operator's to say."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The row is another run's or another worker's, or ended: nothing changed."""


def claim(
    *,
    owner: str,
    cluster: str,
    backends: Collection[str],
    queues: Collection[str],
    lease: timedelta,
    now: datetime,
) -> Held | None:
    """Claim the first execution that is ready, by priority, then age; None if none is.

    Ready is what is queued or waits for a retry, once its `run_after` has come on the
    database's clock. One statement where nothing is.
    Attempt and generation rise by one, the run is a new one, the plan is pinned; the
    lease is taken with a raised epoch. Workers pass over what another is claiming.
    """
    ready = RayTaskExecution.objects.filter(
        Q(run_after__isnull=True) | Q(run_after__lte=Now()),
        state__in=WAITING,
        queue_name__in=queues,
        backend__in=backends,
    ).order_by(F("priority").desc(), "enqueued_at", "id")
    if not ready.exists():
        return None
    with transaction.atomic():
        locked = ready.select_for_update(skip_locked=True)
        execution = locked.defer(*UNREAD).first()
        if execution is None:
            return None
        execution.state = ExecutionState.CLAIMED
        execution.attempt_number += 1
        execution.execution_generation += 1
        execution.run_id = uuid.uuid4()
        execution.claimed_at = now
        _pin(execution)
        execution.save(
            update_fields=[
                *("state", "attempt_number", "execution_generation", "run_id"),
                *("claimed_at", "plan", "plan_fingerprint"),
            ]
        )
        TaskAttempt.objects.create(
            execution=execution,
            attempt_number=execution.attempt_number,
            execution_generation=execution.execution_generation,
            run_id=execution.run_id,
            worker=owner,
            state=ExecutionState.CLAIMED,
            claimed_at=now,
        )
        epoch = leases.take(execution, owner, cluster, lease, only_ended=False)
        assert epoch is not None
        return Held(identity_of(execution), owner, epoch)


def adopt(
    *,
    owner: str,
    cluster: str,
    backends: Collection[str],
    queues: Collection[str],
    lease: timedelta,
    watched: Collection[int],
) -> Orphan | None:
    """Take over a run whose lease has ended or is missing; None if there is none.

    The lease is taken with a raised epoch, in one transaction; attempt, generation and
    run stay as they are. So whoever held it before can record nothing any more. A run of
    another `cluster` is adopted only after three leases without one. Of what is being
    adopted or ended by another worker nothing is waited for. One statement where there is
    nothing to adopt. Contract 4.14.
    """
    abandoned = (
        RayTaskExecution.objects.filter(
            leases.is_abandoned(cluster, lease),
            state__in=ACTIVE,
            queue_name__in=queues,
            backend__in=backends,
        )
        .exclude(pk__in=watched)
        # Not by key: its index also leads past everything that has ended.
        .order_by("claimed_at", "pk")
    )
    if not abandoned.exists():
        return None
    with transaction.atomic():
        execution = (
            abandoned.select_for_update(skip_locked=True, of=("self",))
            .only("state", *IDENTITY)
            .first()
        )
        if execution is None:
            return None
        epoch = leases.take(execution, owner, cluster, lease, only_ended=True)
        return None if epoch is None else _orphan(execution, owner, epoch)


def unwatched(owner: str, watched: Collection[int]) -> list[Orphan]:
    """Return what `owner` holds a lease of and does not know: an answer it never got."""
    held = (
        ExecutionLease.objects.select_related("execution")
        .filter(owner=owner, execution__state__in=ACTIVE)
        .exclude(execution_id__in=watched)
        .only("lease_epoch", *(f"execution__{name}" for name in (*IDENTITY, "state")))
    )
    return [_orphan(lease.execution, owner, lease.lease_epoch) for lease in held]


def renew(held: Held, lease: timedelta) -> bool:
    """Prolong a lease from the database's now; False when it is another's."""
    renewed = ExecutionLease.objects.filter(
        execution_id=held.identity.task_execution_pk,
        owner=held.owner,
        lease_epoch=held.lease_epoch,
    ).update(expires_at=Now() + lease)
    return renewed == 1


def leave(owner: str, *, is_over: bool) -> int:
    """End every lease of a worker that leaves, so that others adopt at once; count them.

    `is_over`: its cluster has ended with it, so whoever adopts need not wait for that
    one's workers, and finds no host.
    """
    held = ExecutionLease.objects.filter(owner=owner)
    if is_over:
        return held.update(expires_at=Now(), cluster="")
    return held.update(expires_at=Now())


def is_active(identity: RunIdentity) -> bool:
    """Claim that exactly this run owns its row, whoever watches it."""
    return _rows(identity, ACTIVE).exists()


def start(identity: RunIdentity, *, now: datetime, again: bool) -> Recorded | Stale:
    """Let the outer task of exactly this run begin: CLAIMED becomes RUNNING.

    `again` accepts RUNNING too, for the one outer task whose first call got no answer. A
    run whose cancellation is asked for does not begin.
    """
    states = [ExecutionState.CLAIMED, *([ExecutionState.RUNNING] if again else [])]
    with transaction.atomic():
        execution = lock(identity, states)
        if execution is None or _is_unwanted(execution):
            return Stale()
        execution.state = ExecutionState.RUNNING
        execution.started_at = execution.started_at or now
        execution.save(update_fields=["state", "started_at"])
        _attempt(execution).update(
            state=ExecutionState.RUNNING, started_at=execution.started_at
        )
        return Recorded(execution)


def succeed(held: Held, result: bytes, *, now: datetime) -> Recorded | Stale:
    """Record a run's success with its result, as JSON."""
    with transaction.atomic():
        execution = _hold(held)
        if execution is None:
            return Stale()
        execution.result = json.loads(result)
        end = End(WorkflowState.SUCCEEDED, "", None)
        ending.record(execution, held.identity, end, now=now)
        _let_go(execution)
        return Recorded(execution)


def fail(
    held: Held, state: WorkflowState, error: Failed, *, reason: str, now: datetime
) -> Recorded | Retrying | Reconciling | Stale:
    """Record an end without result, with the attempt's error; `reason` is a fixed word.

    Where the execution's options have an attempt left, and the retry disposition of its
    compiled sessions allows it, it waits for that one, reset in the same transaction: what
    this one came to is the attempt's. Where the disposition asks for an operator it is in
    RECONCILE, with the run's envelope in its row. Of what `error` does not tell the
    attempt's row does.
    A run that came to no end of its own while its cancellation is asked for is CANCELLED.
    """
    with transaction.atomic():
        execution = _hold(held)
        if execution is None:
            return Stale()
        if reason in UNENDED and execution.cancel_requested_at is not None:
            state, reason = WorkflowState.CANCELLED, "cancelled"
        ending.record(execution, held.identity, End(state, reason, error), now=now)
        _let_go(execution)
        match retrying.follow(execution, random.random()):
            case Next.retry:
                return Retrying()
            case Next.reconcile:
                return Reconciling()
            case Next.end:
                return Recorded(execution)


def lock(
    identity: RunIdentity, states: Sequence[ExecutionState]
) -> RayTaskExecution | None:
    """Lock the row of exactly this run in one of these states; None where it is not so."""
    rows = _rows(identity, states)
    return rows.select_for_update().defer(*UNREAD).first()


def identity_of(execution: RayTaskExecution) -> RunIdentity:
    """Return the run that owns the row."""
    return RunIdentity(
        task_execution_pk=execution.pk,
        attempt_number=execution.attempt_number,
        execution_generation=execution.execution_generation,
        run_id=str(execution.run_id),
    )


def _pin(execution: RayTaskExecution) -> None:
    """Pin the plan at the first claim; a row whose options do not parse fails later."""
    if execution.plan is not None:
        return
    try:
        options = conf.parse_options(execution.options)
    except ConfigurationError:
        return
    pinned = plan.make(
        execution.task_path,
        policy=options.policy,
        strategy=options.strategy,
        effects=options.effects,
        limits_profile=options.profile.name,
    )
    execution.plan = msgspec.to_builtins(pinned)
    execution.plan_fingerprint = plan.fingerprint(pinned)


def _is_unwanted(execution: RayTaskExecution) -> bool:
    is_waiting = execution.state == ExecutionState.CLAIMED
    return is_waiting and execution.cancel_requested_at is not None


def _orphan(execution: RayTaskExecution, owner: str, epoch: int) -> Orphan:
    held = Held(identity_of(execution), owner, epoch)
    return Orphan(held, has_begun=execution.state != ExecutionState.CLAIMED)


def _rows(
    identity: RunIdentity, states: Sequence[ExecutionState]
) -> QuerySet[RayTaskExecution]:
    return RayTaskExecution.objects.filter(
        pk=identity.task_execution_pk,
        attempt_number=identity.attempt_number,
        execution_generation=identity.execution_generation,
        run_id=identity.run_id,
        state__in=states,
    )


def _hold(held: Held) -> RayTaskExecution | None:
    # The epoch is only ever raised under the lock taken first, so it cannot move after.
    execution = lock(held.identity, ACTIVE)
    owned = ExecutionLease.objects.filter(
        execution_id=held.identity.task_execution_pk,
        owner=held.owner,
        lease_epoch=held.lease_epoch,
    )
    return execution if execution is not None and owned.exists() else None


def _let_go(execution: RayTaskExecution) -> None:
    ExecutionLease.objects.filter(execution=execution).delete()


def _attempt(execution: RayTaskExecution) -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.filter(
        execution=execution, attempt_number=execution.attempt_number
    )
