"""What is wrong before anything runs: Django system checks."""

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.db import connections

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.protocol.redaction import Redactor
from django_ray.readers import access

DATABASE = "default"
"""The alias whose database the app's tables and the collectors' connection are in."""


@register
def check_settings(**_kwargs: object) -> list[CheckMessage]:
    """E001: DJANGO_RAY does not parse, or says what can never work."""
    try:
        said = conf.read(_given())
        Redactor(said.redact)
        access.load(said.access_policy)
    except ConfigurationError as exc:
        return [Error(str(exc), id="django_ray.E001")]
    return []


@register
def check_limits(**_kwargs: object) -> list[CheckMessage]:
    """E004: the limits profile raises a hard cap, or is none."""
    try:
        profile = conf.read(_given()).limits
    except ConfigurationError:
        # E001 says so.
        return []
    try:
        conf.limits_of(profile)
    except ConfigurationError as exc:
        return [
            Error(
                str(exc),
                hint="DJANGO_RAY['LIMITS'] is {'name': …, 'values': {limit: number}}.",
                id="django_ray.E004",
            )
        ]
    return []


def _given() -> object:
    return getattr(settings, "DJANGO_RAY", {})


@register
def check_database(**_kwargs: object) -> list[CheckMessage]:
    """E002: the database is not PostgreSQL."""
    if connections[DATABASE].vendor == "postgresql":
        return []
    return [
        Error(
            "django_ray stores and publishes in PostgreSQL only.",
            hint="Use django.db.backends.postgresql for the default database.",
            id="django_ray.E002",
        )
    ]


@register
def check_time_zone(**_kwargs: object) -> list[CheckMessage]:
    """E003: times would be naive, while rows are also written without Django."""
    if settings.USE_TZ:
        return []
    return [Error("django_ray needs USE_TZ = True.", id="django_ray.E003")]
