"""Django settings of the tests; the database is the plugin's PostgreSQL."""

import os
from urllib.parse import parse_qs, unquote, urlsplit

SECRET_KEY = "tests-only"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_ray"]
ROOT_URLCONF = "django_ray.urls"

_url = urlsplit(os.environ.get("DATABASE_URL", "postgresql://postgres@/postgres"))
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.lstrip("/") or "postgres",
        "USER": unquote(_url.username or "postgres"),
        "PASSWORD": unquote(_url.password or ""),
        "HOST": _url.hostname or parse_qs(_url.query).get("host", [""])[0],
        "PORT": str(_url.port or parse_qs(_url.query).get("port", [""])[0]),
    }
}
TASKS = {"default": {"BACKEND": "django_ray.tasks.backend.RayBackend"}}
