"""Who may see an execution: asked on every read, before anything of it is returned.

Superusers, holders of `django_ray.view_raytaskexecution`, and whoever an authentication
backend grants that permission on this one object.
"""

from typing import Protocol

from django_ray.models.executions import RayTaskExecution

PERMISSION = "django_ray.view_raytaskexecution"


class Viewer(Protocol):
    """A user, anonymous ones included, as far as a reader asks."""

    def has_perm(self, perm: str, obj: RayTaskExecution | None = ...) -> bool:
        """Claim the permission, in general or on one object."""
        ...


def may_view(viewer: Viewer, execution: RayTaskExecution) -> bool:
    """Claim that `viewer` may see this execution and everything of its runs.

    Django's own backend answers for a model as a whole and refuses any object, others
    answer for objects only: so both are asked.
    """
    return viewer.has_perm(PERMISSION) or viewer.has_perm(PERMISSION, execution)
