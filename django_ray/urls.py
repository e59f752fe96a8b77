"""Where the app's views are mounted: include it under a prefix of your own."""

from django.urls import path
from django.urls.resolvers import URLPattern

from django_ray.web import api, pages, schema, stream
from django_ray.web.endpoints import ENDPOINTS, RUN

app_name = "django_ray"
urlpatterns: list[URLPattern] = [
    *(path(one.route, api.view(one), name=one.name) for one in ENDPOINTS),
    path(f"{RUN}stream", stream.stream, name="stream"),
    path("openapi.json", schema.openapi, name="openapi"),
    path("", pages.home, name="list-page"),
    path(RUN, pages.run, name="run-page"),
]
