"""The worker's process, as far as it needs no Ray."""

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

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


@pytest.fixture
def options(db):
    """OPTIONS of the default database, as a test changes them."""
    given = connection.settings_dict
    before = given["OPTIONS"]
    given["OPTIONS"] = {}
    yield given["OPTIONS"]
    given["OPTIONS"] = before


def test_database_url_holds_the_options_that_libpq_knows(options):
    told = {
        "sslmode": "verify-full",
        "passfile": "/home/a b/.pgpass",
        "options": "-c search_path=one+two",
        "keepalives": 0,
    }
    options.update(told, isolation_level=2, pool={"max_size": 4}, sslkey=None)

    said = conninfo_to_dict(service.database_url())

    assert {key: said[key] for key in told} == {**told, "keepalives": "0"}
    assert said.keys() <= told.keys() | {"user", "password", "host", "port", "dbname"}


def test_what_stands_beside_options_comes_before_what_stands_in_it(options):
    before = conninfo_to_dict(service.database_url())
    options.update(dbname="other", user="other", host="other")

    assert conninfo_to_dict(service.database_url()) == before


@pytest.mark.parametrize("option", ["--concurrency=0", "--cpus=0"])
def test_numbers_that_can_never_work_are_refused(option):
    with pytest.raises(CommandError, match="positive"):
        call_command("ray_worker", option)
