"""The switch of the writer: off, a run starts no collector and reports as disabled."""

import pytest

from django_ray import conf
from django_ray.errors import ConfigurationError
from django_ray.protocol import summary
from django_ray.protocol.vocabulary import WorkflowState
from django_ray.tasks import outcome, outer, transitions
from django_ray.tasks.worker import payload_of
from tests.app.executions import LATER, claimed, row, running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def off(settings):
    settings.DJANGO_RAY = {"PROGRESS_WRITER": False}


def test_the_writer_is_on_unless_it_is_switched_off():
    assert conf.parse({}).progress_writer is True
    assert conf.parse({"PROGRESS_WRITER": False}).progress_writer is False


@pytest.mark.parametrize("value", [0, 1, "off", None])
def test_the_switch_is_a_bool(value):
    with pytest.raises(ConfigurationError):
        conf.parse({"PROGRESS_WRITER": value})


def test_a_run_under_the_switch_is_disabled_whatever_its_row_asks_for(settings, off):
    held = running()
    assert row(held).options["policy"] == "full"
    assert outer.settings_of(row(held), held.identity).policy == "disabled"
    settings.DJANGO_RAY = {}
    assert outer.settings_of(row(held), held.identity).policy == "full"


def test_a_run_under_the_switch_starts_no_collector(monkeypatch, off):
    started = []
    monkeypatch.setattr(outer.remote, "start_collector", started.append)
    monkeypatch.setattr(outer.coordinator, "default_window", lambda: 1)
    held = claimed()
    outer.execute(payload_of(held.identity))
    assert started == []


def test_its_summary_says_disabled_and_counts_nothing(off):
    held = running()
    error = outcome.lost("gone")
    transitions.fail(held, WorkflowState.FAILED, error, reason="reported", now=LATER)
    said = summary.decode(bytes(row(held).progress_summary))
    assert said.detail.availability == said.policy.upper() == "DISABLED"
    assert said.discovered_nodes == 0
