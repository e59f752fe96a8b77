"""Lets everybody on this machine see the demo's runs: a policy for demos alone."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


class Visitor:
    """A user of the demo: may do what a reader asks for."""

    is_authenticated = False

    def has_perm(self, perm: str, obj: object | None = None) -> bool:
        """Grant looking, and nothing else."""
        del obj
        return perm == "django_ray.view_raytaskexecution"


def everybody(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Return a middleware that makes each request a Visitor's."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        request.user = Visitor()  # type: ignore[assignment]
        return get_response(request)

    return respond
