"""The DJANGO_RAY setting, parsed once."""

from dataclasses import fields

import pytest

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.protocol.limits import LOWERABLE, V1, Limits
from django_ray.protocol.vocabulary import ReportingPolicy, SelectionPolicy


def test_nothing_set_is_the_defaults():
    settings = conf.parse({})

    assert settings.reporting_policy is ReportingPolicy.full
    assert settings.retention_days == 7
    assert settings.redact == ()
    assert conf.limits_of(settings.limits) == V1
    assert settings.options.strategy is SelectionPolicy.dynamic


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {"UNKNOWN": 1},
        {"REPORTING_POLICY": "everything"},
        {"RETENTION_DAYS": -1},
        {"RETENTION_DAYS": 31},
        {"RETENTION_DAYS": True},
        {"RETENTION_DAYS": "7"},
        {"REDACT": "one"},
        {"REDACT": [1]},
        {"REDACT": ["x" * 1_025]},
        {"REDACT": [*["x" * 1_024] * 16, "x"]},
        {"READ_SECONDS": 0},
        {"READ_SECONDS": 61},
        {"REQUESTS_PER_MINUTE": 0},
        {"ACCESS_POLICY": ""},
        {"TIMEOUT_SECONDS": 0},
        {"TIMEOUT_SECONDS": 2_592_001},
        {"LEASE_SECONDS": 2},
        {"LEASE_SECONDS": 3_601},
        {"RAY_ADDRESS": ""},
        {"LIMITS": {"name": "small"}},
        {"LIMITS": {"values": {"retained_nodes": 10}}},
        {"LIMITS": {"name": "small", "values": {"no_such_limit": 10}}},
        {"LIMITS": {"name": "small", "values": {"profile": 10}}},
        {"LIMITS": {"name": "small", "values": {"retained_nodes": 0}}},
        {"LIMITS": {"name": "small", "values": {"retained_nodes": 25_001}}},
        {"LIMITS": {"name": "small", "values": {"retained_nodes": 10**5_000}}},
        {"LIMITS": {"name": "x" * 65, "values": {"retained_nodes": 1}}},
        {"LIMITS": {"name": "a\nb", "values": {"retained_nodes": 1}}},
    ],
)
def test_setting_that_can_never_work_is_refused(given):
    with pytest.raises(ConfigurationError):
        conf.parse(given)


@pytest.mark.parametrize(
    "given",
    [
        {"RETENTION_DAYS": 0},
        {"RETENTION_DAYS": 30},
        {"READ_SECONDS": 1},
        {"READ_SECONDS": 60},
        {"REQUESTS_PER_MINUTE": 1},
        {"LEASE_SECONDS": 3},
        {"LEASE_SECONDS": 3_600},
        {"REDACT": ["patient"]},
        {"REDACT": ["x" * 1_024] * 16},
        {"LIMITS": {"name": "same", "values": {"retained_nodes": 25_000}}},
        {"LIMITS": {"name": "x" * 64, "values": {"retained_nodes": 1}}},
    ],
)
def test_setting_at_its_bounds_is_accepted(given):
    conf.parse(given)


def test_a_refusal_repeats_little_of_what_it_refuses():
    with pytest.raises(ConfigurationError) as caught:
        conf.parse({"LIMITS": {"name": "small", "values": {"\ud800" * 5_000: 1}}})

    assert len(str(caught.value).encode()) < 400


def test_smaller_limits_go_under_their_own_name():
    settings = conf.parse(
        {"LIMITS": {"name": "small", "values": {"retained_nodes": 9}}}
    )

    limits = conf.limits_of(settings.limits)

    assert (limits.profile, limits.retained_nodes) == ("small", 9)
    assert limits.retained_edges == V1.retained_edges


@pytest.mark.parametrize("name", LOWERABLE)
def test_what_a_run_applies_can_be_lowered(name):
    settings = conf.parse({"LIMITS": {"name": "small", "values": {name: 1}}})

    assert getattr(conf.limits_of(settings.limits), name) == 1


@pytest.mark.parametrize("past", [-1, 0, 1])
@pytest.mark.parametrize("name", LOWERABLE)
def test_no_limit_is_raised_above_that_of_v1(name, past):
    given = {"LIMITS": {"name": "other", "values": {name: getattr(V1, name) + past}}}

    if past <= 0:
        assert conf.limits_of(conf.parse(given).limits).profile == "other"
    else:
        with pytest.raises(ConfigurationError, match=f"{name} is .*v1 allows at most"):
            conf.parse(given)


FIXED = sorted({each.name for each in fields(Limits)} - {"profile", *LOWERABLE})


@pytest.mark.parametrize("name", FIXED)
def test_what_no_run_applies_cannot_be_lowered(name):
    with pytest.raises(ConfigurationError, match=f"{name} is the same for every run"):
        conf.parse({"LIMITS": {"name": "small", "values": {name: 1}}})


def test_change_of_the_setting_is_seen(settings):
    settings.DJANGO_RAY = {"RETENTION_DAYS": 3}
    assert conf.current().retention_days == 3

    settings.DJANGO_RAY = {"RETENTION_DAYS": 4}
    assert conf.current().retention_days == 4


def test_options_of_a_row_that_do_not_parse_are_refused():
    with pytest.raises(ConfigurationError):
        conf.parse_options({"policy": "full"})
