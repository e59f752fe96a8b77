"""A run's recent events: at most 32, oldest first."""

import uuid

from django.db.models import Case, F, When

from django_ray.errors import IntegrityFault
from django_ray.models.executions import Octets
from django_ray.models.progress import WorkflowRun
from django_ray.protocol import records
from django_ray.protocol.records import EventItem
from django_ray.protocol.summary import Part
from django_ray.protocol.vocabulary import DetailAvailability
from django_ray.readers import run
from django_ray.readers.access import Viewer
from django_ray.readers.run import Detailed, Query, RunPart, Unavailable


class Events(Part, frozen=True, kw_only=True):
    """The events that are kept."""

    items: tuple[EventItem, ...]
    run: RunPart


def events(
    public_id: uuid.UUID, viewer: Viewer, query: Query
) -> Events | Unavailable | None:
    """Return the run's recent events, in one statement through a byte guard."""
    return run.of_detail(public_id, viewer, query, _events)


def _events(detailed: Detailed) -> Events:
    fits = When(events__octets__lte=records.EVENTS_BYTES, then=F("events"))
    stored = WorkflowRun.objects.filter(pk=detailed.selected.run_pk).values_list(
        Octets("events"), Case(fits)
    )
    items: tuple[EventItem, ...] = ()
    for size, body in stored:
        if body is None and size is not None:
            raise IntegrityFault(
                "The stored events are oversized.", DetailAvailability.CORRUPT
            )
        if body is not None:
            items = records.decode_events(bytes(body))
    return Events(items=items, run=detailed.part)
