"""A list of the admin whose length nobody knows: it looks one row further than its page."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

PAGES = 100
"""So many pages can be turned: what is older is found by its id."""


class Ahead(_Paginator):
    """Knows whether a page follows the one at which it is asked: `count` is no total."""

    at = 1

    @cached_property
    def count(self) -> int:
        """Return the rows up to the end of that page, and one more where one follows."""
        before = (min(max(self.at, 1), PAGES) - 1) * self.per_page
        rows = cast("QuerySet[Any]", self.object_list).values_list("pk")
        found = len(rows[before : before + self.per_page + 1])
        return min(before + found, PAGES * self.per_page)


class Window(ChangeList):
    """A list that says nothing of a number of results."""

    def get_results(self, request: HttpRequest) -> None:
        """Let neither number look like a total: Django shows them where they differ."""
        super().get_results(request)
        self.full_result_count = self.result_count
