"""System checks: what is wrong before anything runs."""

import pytest
from django.core.checks import run_checks
from django.db import connections

from django_ray import checks


def ids(messages):
    return [message.id for message in messages]


@pytest.mark.django_db
def test_nothing_is_wrong_with_the_tests_settings():
    assert run_checks() == []


@pytest.mark.parametrize("given", [{"UNKNOWN": 1}, {"REDACT": ["("]}])
def test_setting_that_can_never_work_is_reported(settings, given):
    settings.DJANGO_RAY = given

    assert "django_ray.E001" in ids(run_checks())


def test_a_limit_that_no_profile_lowers_is_reported_by_its_name(settings):
    settings.DJANGO_RAY = {"LIMITS": {"name": "small", "values": {"message": 100}}}

    (found,) = checks.check_settings()

    assert found.id == "django_ray.E001"
    assert "The limit message is the same for every run" in found.msg
    assert "retained_nodes" in found.msg


def test_other_database_is_reported(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")

    assert ids(checks.check_database()) == ["django_ray.E002"]


def test_naive_times_are_reported(settings):
    settings.USE_TZ = False

    assert ids(checks.check_time_zone()) == ["django_ray.E003"]
