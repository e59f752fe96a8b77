"""The worker's process, as far as it needs no Ray."""

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_ray.tasks import service


def test_no_two_workers_have_one_name():
    names = {service.owner() for _ in range(100)}

    assert len(names) == 100
    assert all(len(name) <= 128 for name in names)


def test_our_backends_are_those_of_our_class(settings):
    settings.TASKS = {
        "default": {"BACKEND": "django_ray.tasks.backend.RayBackend"},
        "now": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"},
        "more": {"BACKEND": "django_ray.tasks.backend.RayBackend"},
    }

    assert service.our_backends() == {"default", "more"}


@pytest.mark.django_db
def test_database_url_leads_to_the_database_django_uses():
    with psycopg.connect(service.database_url()) as conn:
        assert conn.info.dbname == connection.settings_dict["NAME"]


@pytest.mark.parametrize("option", ["--concurrency=0", "--cpus=0"])
def test_numbers_that_can_never_work_are_refused(option):
    with pytest.raises(CommandError, match="positive"):
        call_command("ray_worker", option)
