"""The executions that are at work, and who watches them, oldest first.

For an operator's list: like `read_trusted` it asks for no permission. Two statements, in
one snapshot, whatever there is of executions and of their runs' sizes.
"""

from dataclasses import dataclass

from django_ray.models.executions import RayTaskExecution
from django_ray.readers import context, summary
from django_ray.readers.picture import Reading
from django_ray.readers.runs import AT_WORK

MOST = 256
"""So many at once: each has a summary of at most 16 KiB."""


@dataclass(frozen=True, slots=True)
class Active:
    """One execution at work; `owner` is empty where nobody has its lease."""

    reading: Reading
    owner: str


def read(most: int) -> list[Active]:
    """Return at most so many, and never more than 256.

    Raises StorageUnavailable where PostgreSQL does not answer.
    """
    # Not by key: its index also leads past everything that has ended.
    at_work = (
        RayTaskExecution.objects.filter(state__in=AT_WORK)
        .order_by("claimed_at", "pk")
        .values_list("pk", "lease__owner")[: min(most, MOST)]
    )
    with context.snapshot():
        owners = dict(at_work)
        if not owners:
            return []
        found = {row.pk: row for row in summary.rows(list(owners))}
    return [
        Active(summary.reading(found[pk]), owner or "") for pk, owner in owners.items()
    ]
