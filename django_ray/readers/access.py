"""Who may see an execution: asked on every read, before anything of it is returned.

The setting ACCESS_POLICY names the function that decides. The default, `may_view`, admits
superusers, holders of `django_ray.view_raytaskexecution`, and whoever an authentication
backend grants that permission on this one object.
"""

from collections.abc import Callable
from typing import Protocol

from django.core.exceptions import PermissionDenied
from django.utils.module_loading import import_string

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.models.executions import RayTaskExecution

PERMISSION = "django_ray.view_raytaskexecution"


class Viewer(Protocol):
    """A user, anonymous ones included, as far as a reader asks."""

    def has_perm(self, perm: str, obj: RayTaskExecution | None = ...) -> bool:
        """Claim the permission, in general or on one object."""
        ...


Policy = Callable[[Viewer, RayTaskExecution | None], bool]
"""Claims that a viewer may see an execution; with None, that he may see every one."""


def may_view(viewer: Viewer, execution: RayTaskExecution | None) -> bool:
    """Claim that `viewer` may see this execution and everything of its runs.

    Django's own backend answers for a model as a whole and refuses any object, others
    answer for objects only: so both are asked.
    """
    if viewer.has_perm(PERMISSION):
        return True
    return execution is not None and viewer.has_perm(PERMISSION, execution)


def allows(viewer: Viewer, execution: RayTaskExecution | None) -> bool:
    """Ask the project's policy; anything but True refuses, so an awaitable does too."""
    try:
        policy = load(conf.current().access_policy)
        return policy(viewer, execution) is True
    except PermissionDenied:
        return False


def load(name: str) -> Policy:
    """Return the function that a dotted path names, or raise ConfigurationError."""
    try:
        found: Policy = import_string(name)
    except Exception as exc:
        # Not ImportError alone: a module runs foreign code when it is imported.
        raise ConfigurationError("ACCESS_POLICY names nothing importable.") from exc
    if not callable(found):
        raise ConfigurationError("ACCESS_POLICY names nothing that can be called.")
    return found


def key_of(viewer: Viewer) -> str:
    """Name the viewer among all others; nobody logged in has one name for all."""
    return str(getattr(viewer, "pk", None))
