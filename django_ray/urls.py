"""Where the app's views are mounted: include it under a prefix of your own."""

from django.urls import path
from django.urls.resolvers import URLPattern

from django_ray.web import api

app_name = "django_ray"
urlpatterns: list[URLPattern] = [
    path("runs/<uuid:public_id>/summary", api.summary, name="summary"),
]
