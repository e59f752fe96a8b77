"""Executions and their attempts in Django's admin: read only, and nothing is counted.

Whoever may see every run by the access policy sees the lists; whoever may see one execution
sees its pages. A list is searched by the beginning of the public id, which an index holds,
and filtered by state. Neither progress payload is selected: a page's panel, and what it
polls, read the summary through the byte guard, in one statement whatever the run's size. An
older writer's snapshot is never read; its run stands there as not yet reported. ADR-0004.
"""

import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters, ShowFacets
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.forms.widgets import Script
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.urls.resolvers import URLPattern
from django.utils.html import format_html

from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.readers import access, archive, public, summary
from django_ray.readers.access import Viewer
from django_ray.readers.picture import Reading
from django_ray.readers.public import Body
from django_ray.web import api, panel
from django_ray.web.endpoints import RUN, Endpoint
from django_ray.web.window import Ahead, Window

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

EXECUTION, ATTEMPT = "django_ray_raytaskexecution", "django_ray_taskattempt"
TRACEBACK_CHARACTERS = 16_384
_beginning = re.compile(r"[0-9a-f]{1,32}")


class PanelQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing may be asked: a panel is of the current run, whoever wrote it."""


def _current(public_id: uuid.UUID, viewer: Viewer, _: PanelQuery) -> Body | None:
    found = summary.authorized(public_id, viewer)
    return None if found is None else public.current(found)


PANEL = Endpoint(
    name=f"{EXECUTION}_summary",
    route=f"{RUN}summary",
    query=PanelQuery,
    answers=(Body,),
    read=_current,
    title="The summary of the current run",
    is_detail=False,
)


class Between(NamedTuple):
    """The least and the greatest id that begin with the same digits."""

    least: uuid.UUID
    greatest: uuid.UUID


def between(beginning: str) -> Between | None:
    """Return the range of ids that begin so; None where none can."""
    digits = beginning.strip().replace("-", "").lower()
    if not _beginning.fullmatch(digits):
        return None
    return Between(uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f")))


class OfState(admin.ChoicesFieldListFilter):
    """Filters by a state that there is. What is none never becomes a statement."""

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> QuerySet[Any] | None:
        """Narrow the list; Django leads from any other value to the whole list."""
        if not set(self.lookup_val or ()) <= {
            value for value, _ in self.field.flatchoices
        }:
            raise IncorrectLookupParameters
        return super().queryset(request, queryset)


class ReadOnly(_ModelAdmin):
    """What both models have in common. Nothing in it writes, and nothing counts."""

    actions = None
    list_filter = (("state", OfState),)
    list_max_show_all = 0
    lookups: ClassVar[frozenset[str]] = frozenset({"state__exact"})
    public_id: ClassVar[str]
    search_help_text = "The public id of an execution, or how it begins"
    show_facets = ShowFacets.NEVER
    show_full_result_count = False
    sortable_by = ()

    class Media:
        css: ClassVar[dict[str, Sequence[str]]] = {"all": ["django_ray/progress.css"]}
        js: ClassVar[Sequence[Script]] = [
            Script("django_ray/progress.js", type="module")
        ]

    def has_add_permission(self, *_: object) -> bool:
        """Refuse: executions are enqueued, attempts claimed."""
        return False

    def has_change_permission(self, *_: object) -> bool:
        """Refuse: what is stored is changed under the fence, by nobody else."""
        return False

    def has_delete_permission(self, *_: object) -> bool:
        """Refuse: cleanup removes what is old."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Claim that the user may see every run."""
        return self.has_view_permission(request)

    def has_view_permission(
        self, request: HttpRequest, obj: RayTaskExecution | TaskAttempt | None = None
    ) -> bool:
        """Ask the access policy, about one execution or about every one."""
        execution = obj.execution if isinstance(obj, TaskAttempt) else obj
        return access.allows(api.viewer_of(request), execution)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> RayTaskExecution | TaskAttempt | None:
        """Return a row the user may see: what is not his and not there are the same."""
        found = super().get_object(request, object_id, from_field)
        return found if found and self.has_view_permission(request, found) else None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:  # noqa: ARG002
        """Allow what an index or the filter answers: an address is no query language."""
        return lookup in self.lookups

    def get_changelist(self, request: HttpRequest, **_: object) -> type[ChangeList]:  # noqa: ARG002
        """Return the list that claims no total."""
        return Window

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,
    ) -> Ahead:
        """Return a paginator that looks ahead from the page the address names."""
        made = Ahead(queryset, per_page, orphans, allow_empty_first_page)
        page = request.GET.get(PAGE_VAR, "")
        if page.isascii() and page.isdecimal():
            made.at = int(page[:9])
        return made

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        """Find by the beginning of a public id, a range of its unique index."""
        if not search_term.strip():
            return queryset, False
        found = between(search_term)
        if found is None:
            return queryset.none(), False
        return queryset.filter(**{f"{self.public_id}__range": found}), False

    def _shown(self, reading: Reading, *, polled: bool, pinned: bool) -> str:
        public_id = reading.execution.public_id
        name = f"{self.admin_site.name}:{PANEL.name}"
        shown = panel.compose(
            reading,
            source=reverse(name, args=[public_id]) if polled else "",
            page=panel.address("run-page", public_id),
            pinned=pinned,
        )
        return render_to_string(panel.TEMPLATE, {"panel": shown})


@admin.register(RayTaskExecution)
class ExecutionAdmin(ReadOnly):
    """Executions, the newest first. The panel follows the current run."""

    fields = (
        "progress",
        "public_id",
        "task_path",
        "state",
        "queue_name",
        "priority",
        "backend",
        "attempt_number",
        "attempts",
        "execution_generation",
        "run_id",
        "plan_fingerprint",
        "enqueued_at",
        "run_after",
        "claimed_at",
        "started_at",
        "finished_at",
        "cancel_requested_at",
    )
    list_display = (
        "short_id",
        "task_path",
        "state",
        "queue_name",
        "attempt_number",
        "enqueued_at",
        "started_at",
        "finished_at",
    )
    ordering = ("-enqueued_at", "-id")
    public_id = "public_id"
    readonly_fields = fields
    search_fields = ("public_id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[RayTaskExecution]:
        """Leave arguments, result and both progress payloads in the table."""
        named = [
            *summary.COLUMNS,
            "priority",
            "backend",
            "plan_fingerprint",
            "run_after",
        ]
        return super().get_queryset(request).only(*named)

    def get_urls(self) -> list[URLPattern]:
        """Add what the panel polls, before the address that takes all."""
        polled = self.admin_site.admin_view(api.view(PANEL))
        return [path(PANEL.route, polled, name=PANEL.name), *super().get_urls()]

    @admin.display(description="Id")
    def short_id(self, obj: RayTaskExecution) -> str:
        """Return how the id begins: lists elsewhere show as much."""
        return str(obj.public_id)[:8]

    @admin.display(description="Progress")
    def progress(self, obj: RayTaskExecution) -> str:
        """Return the panel, in one statement."""
        (row,) = summary.rows([obj.pk])
        return self._shown(summary.reading(row), polled=True, pinned=False)

    @admin.display(description="Attempts")
    def attempts(self, obj: RayTaskExecution) -> str:
        """Return the way to them."""
        to = reverse(f"{self.admin_site.name}:{ATTEMPT}_changelist")
        return format_html('<a href="{}?q={}">List them</a>', to, obj.public_id)


@admin.register(TaskAttempt)
class AttemptAdmin(ReadOnly):
    """Attempts, the newest claim first. The panel of an earlier one stands still."""

    fields = (
        "progress",
        "of_execution",
        "attempt_number",
        "state",
        "worker",
        "execution_generation",
        "run_id",
        "claimed_at",
        "started_at",
        "finished_at",
        "error_class",
        "traceback",
    )
    list_display = (
        "short_id",
        "task",
        "attempt_number",
        "state",
        "worker",
        "claimed_at",
        "finished_at",
        "error_class",
    )
    ordering = ("-id",)
    public_id = "execution__public_id"
    readonly_fields = fields
    search_fields = ("execution__public_id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[TaskAttempt]:
        """Leave summaries and tracebacks in their tables."""
        named = (
            "attempt_number",
            "state",
            "worker",
            "execution_generation",
            "run_id",
            "claimed_at",
            "started_at",
            "finished_at",
            "error_class",
            *(f"execution__{name}" for name in summary.COLUMNS),
        )
        return super().get_queryset(request).select_related("execution").only(*named)

    @admin.display(description="Execution")
    def short_id(self, obj: TaskAttempt) -> str:
        """Return how the execution's id begins."""
        return str(obj.execution.public_id)[:8]

    @admin.display(description="Task path")
    def task(self, obj: TaskAttempt) -> str:
        """Return which task it is."""
        return obj.execution.task_path

    @admin.display(description="Execution")
    def of_execution(self, obj: TaskAttempt) -> str:
        """Return the way to its execution."""
        to = reverse(
            f"{self.admin_site.name}:{EXECUTION}_change", args=[obj.execution.pk]
        )
        return format_html('<a href="{}">{}</a>', to, obj.execution)

    @admin.display(description="Progress")
    def progress(self, obj: TaskAttempt) -> str:
        """Return the panel: one statement, and one more for an earlier attempt."""
        (row,) = summary.rows([obj.execution.pk])
        current = summary.reading(row)
        shown = archive.find(current, obj.attempt_number)
        if shown is None:
            return ""
        return self._shown(shown, polled=shown is current, pinned=True)

    @admin.display(description="Traceback")
    def traceback(self, obj: TaskAttempt) -> str:
        """Return the end of it: the error itself stands there."""
        rows = TaskAttempt.objects.filter(pk=obj.pk)
        tail: str = rows.values_list(Right("error_text", TRACEBACK_CHARACTERS)).get()[0]
        return tail
