"""Where the app's views are mounted: include it under a prefix of your own."""

from django.urls.resolvers import URLPattern

app_name = "django_ray"
urlpatterns: list[URLPattern] = []
