"""System checks: what is wrong before anything runs."""

import pytest
from django.core.checks import run_checks
from django.db import connections

from django_ray import checks

pytestmark = pytest.mark.django_db


def ids(messages):
    return [message.id for message in messages]


def test_nothing_is_wrong_with_the_tests_settings():
    assert run_checks() == []


@pytest.mark.parametrize(
    "given",
    [
        {"UNKNOWN": 1},
        {"x" * 1_000_000: 1},
        {"\ud800": 1},
        {"STRATEGY": "\ud800"},
        {"STRATEGY": "x" * 1_000_000},
        {"REDACT": ["("]},
        {"REDACT": ["x{999999999999}"]},
        {"REDACT": ["(" * 512 + ")" * 512]},
        {"REDACT": ["(?a)(?u)x"]},
        {"REDACT": ["x" * 1_000_000]},
    ],
    ids=lambda given: repr(given)[:24].encode("ascii", "replace").decode(),
)
def test_setting_that_can_never_work_is_reported(settings, given):
    settings.DJANGO_RAY = given

    assert ids(run_checks()) == ["django_ray.E001"]
    (found,) = checks.check_settings()
    assert len(found.msg.encode()) < 400


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            {"name": "big", "values": {"retained_nodes": 25_001}},
            "The limit retained_nodes is 25,001; v1 allows at most 25,000",
        ),
        (
            {"name": "small", "values": {"message": 100}},
            "The limit message is the same for every run",
        ),
        ({"name": "small", "values": {"nodes": 100}}, "No limit is named 'nodes'"),
        ({"name": "small"}, "both a name of its own and values"),
        ({"name": "a\x00", "values": {"retained_nodes": 1}}, "control character"),
        ({"name": "\ud800", "values": {"retained_nodes": 1}}, "surrogate"),
    ],
    ids=["raised", "fixed", "unknown", "empty", "nul", "surrogate"],
)
def test_a_profile_that_is_none_is_reported_by_its_limit(settings, limits, said):
    settings.DJANGO_RAY = {"LIMITS": limits}

    assert ids(run_checks()) == ["django_ray.E004"]
    (found,) = checks.check_limits()
    assert said in found.msg
    assert "LIMITS" in found.hint


def test_one_error_is_reported_once(settings):
    settings.DJANGO_RAY = {"LIMITS": 7}

    assert ids(run_checks()) == ["django_ray.E001"]


@pytest.mark.parametrize(
    "name",
    [
        "nowhere",
        "no.such.module",
        "tests.app.policies.absent",
        "sys.maxsize",
        ".x",
        "..x",
        "a\x00.b",
        "\ud800.x",
        "tests.app.broken.may_view",
    ],
    ids=ascii,
)
def test_an_access_policy_that_cannot_be_called_is_reported(settings, name):
    settings.DJANGO_RAY = {"ACCESS_POLICY": name}

    assert ids(run_checks()) == ["django_ray.E001"]


def test_other_database_is_reported(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")

    assert ids(checks.check_database()) == ["django_ray.E002"]


def test_naive_times_are_reported(settings):
    settings.USE_TZ = False

    assert ids(checks.check_time_zone()) == ["django_ray.E003"]
