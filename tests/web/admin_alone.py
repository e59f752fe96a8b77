"""The addresses of a project that has the admin and nothing of the app's own."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
