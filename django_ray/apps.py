"""The Django app: its tables, and what it registers."""

from importlib import import_module

from django.apps import AppConfig


class DjangoRayConfig(AppConfig):
    """`django_ray` in INSTALLED_APPS."""

    name = "django_ray"
    verbose_name = "Workflow progress"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Import the modules of `models/`, whose `__init__` stays empty."""
        import_module("django_ray.models.executions")
        import_module("django_ray.models.progress")
        super().import_models()

    def ready(self) -> None:
        """Register the system checks."""
        import_module("django_ray.checks")
