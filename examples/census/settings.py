"""Django settings of the demo: everything local, everything thrown away at its end."""

import os

from cluster.services import django_database

SECRET_KEY = "a demo that listens on this machine alone"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.staticfiles",
    "django_ray",
    "examples.census",
]
MIDDLEWARE = ["examples.census.visitors.everybody"]
TEMPLATES = [
    {"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}
]
STATIC_URL = "static/"
ROOT_URLCONF = "examples.census.urls"
DATABASES = {"default": django_database(os.environ.get("DATABASE_URL", ""))}
TASKS = {"default": {"BACKEND": "django_ray.tasks.backend.RayBackend"}}
