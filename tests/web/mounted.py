"""A project's addresses: the admin, the app under a prefix, and a page with a run's bar."""

from django.contrib import admin
from django.http import HttpResponse
from django.template import Context, RequestContext, Template
from django.urls import include, path

PAGE = Template(
    """{% load django_ray static %}<!DOCTYPE html>
<html lang="en"><head><title>Order</title>
<link rel="stylesheet" href="{% static 'django_ray/progress.css' %}">
<script type="module" src="{% static 'django_ray/progress.js' %}"></script>
</head><body><main>{% ray_progress order.run %}</main></body></html>
"""
)


def order(request, run):
    """A view of a project, as the page of an order might be."""
    values = {"order": {"run": run}}
    return HttpResponse(PAGE.render(RequestContext(request, values)))


def unasked(request, run):
    """The same without its request in the context."""
    return HttpResponse(PAGE.render(Context({"order": {"run": run}})))


urlpatterns = [
    path("admin/", admin.site.urls),
    path("progress/", include("django_ray.urls")),
    path("orders/<str:run>/", order, name="order"),
    path("unasked/<str:run>/", unasked, name="unasked"),
]
