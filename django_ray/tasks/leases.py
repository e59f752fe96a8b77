"""The lease of an execution: taken, and found to have ended, on the database's clock.

Called by transitions under the execution's lock. A lease's epoch is only ever raised, by
claim and by adoption, as long as its row is there. Contract 4.14.
"""

from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now

from django_ray.models.executions import ExecutionLease, RayTaskExecution

PATIENCE = 3
"""So many times the length of a lease another cluster's workers have to adopt it first:
who finds no host on its own cluster would call a run lost that lives on theirs."""


def is_abandoned(cluster: str, lease: timedelta) -> Q:
    """Claim that nobody watches, on the clock of the database."""
    ended = Q(lease__expires_at__lte=Now())
    ours = Q(lease__cluster__in=("", cluster))
    for_long = Q(lease__expires_at__lte=Now() - PATIENCE * lease)
    return Q(lease__isnull=True) | (ended & (ours | for_long))


def take(
    execution: RayTaskExecution,
    owner: str,
    cluster: str,
    lease: timedelta,
    *,
    only_ended: bool,
) -> int | None:
    """Take the lease with a raised epoch; None when its owner has just renewed it.

    Renewal does not lock the execution: that a lease has ended is judged under its own.
    """
    leases = ExecutionLease.objects.filter(execution=execution)
    ended = leases.filter(expires_at__lte=Now()) if only_ended else leases
    until = Now() + lease
    if ended.update(
        owner=owner,
        cluster=cluster,
        lease_epoch=F("lease_epoch") + 1,
        expires_at=until,
    ):
        return leases.values_list("lease_epoch", flat=True).get()
    if leases.exists():
        return None
    ExecutionLease.objects.create(
        execution=execution,
        owner=owner,
        cluster=cluster,
        lease_epoch=1,
        expires_at=until,
    )
    return 1
