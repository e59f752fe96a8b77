"""The demo's addresses: the app's own, under /progress/."""

from django.urls import include, path

urlpatterns = [path("progress/", include("django_ray.urls"))]
