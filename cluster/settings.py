"""Django settings of the scenarios: the app and its users, on the harness's PostgreSQL."""

import os

from cluster.services import django_database

SECRET_KEY = "scenarios-only"
USE_TZ = True
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_ray"]
MIDDLEWARE = [
    "django.middleware.common.CommonMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
ROOT_URLCONF = "django_ray.urls"
DATABASES = {"default": django_database(os.environ.get("DATABASE_URL", ""))}
TASKS = {"default": {"BACKEND": "django_ray.tasks.backend.RayBackend"}}
