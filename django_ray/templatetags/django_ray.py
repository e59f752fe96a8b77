"""`{% ray_progress execution %}`: a run's bar in a page of the project's own."""

import uuid

from django import template
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.tasks import TaskResult
from django.template import Context
from django.template.loader import render_to_string

from django_ray.errors import StorageUnavailable
from django_ray.models.executions import RayTaskExecution
from django_ray.readers import summary
from django_ray.readers.access import Viewer
from django_ray.web import api, panel

register = template.Library()


@register.simple_tag(takes_context=True)
def ray_progress(context: Context, execution: object) -> str:
    """Return the bar of one execution as HTML, as far as the request's user may see it.

    `execution` is what `enqueue()` returned, its id, or a RayTaskExecution. What names no
    execution, what is not there and what is not the user's are all the empty string; a
    context without a request is of nobody. One statement, and what the access policy asks,
    whatever the run's size. Where the database does not answer the bar is one sentence, and
    the page around it is shown. Contract 2; ADR-0004.
    """
    public_id = _id_of(execution)
    if public_id is None:
        return ""
    try:
        reading = summary.authorized(public_id, _viewer(context))
    except StorageUnavailable:
        return render_to_string(panel.TEMPLATE, {"panel": None})
    if reading is None:
        return ""
    shown = panel.compose(
        reading,
        source=panel.address("summary", public_id),
        page=panel.address("run-page", public_id),
    )
    return render_to_string(panel.TEMPLATE, {"panel": shown})


def _id_of(execution: object) -> uuid.UUID | None:
    match execution:
        case uuid.UUID():
            return execution
        case RayTaskExecution():
            return execution.public_id
        case TaskResult():
            return _id_of(execution.id)
        case str():
            try:
                return uuid.UUID(execution)
            except ValueError:
                return None
    return None


def _viewer(context: Context) -> Viewer:
    request = getattr(context, "request", None) or context.get("request")
    return (
        api.viewer_of(request) if isinstance(request, HttpRequest) else AnonymousUser()
    )
