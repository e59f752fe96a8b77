"""The outer task where it ends before it needs Ray; `tests/ray` has the rest."""

import threading

import pytest

from django_ray.identity import RunIdentity
from django_ray.models.executions import RayTaskExecution
from django_ray.tasks import outcome, outer
from django_ray.tasks.outcome import Failed, Refused
from django_ray.tasks.worker import payload_of
from tests.app.executions import claimed, row, running

pytestmark = pytest.mark.django_db(transaction=True)


def execute(identity):
    return outcome.decode(outer.execute(payload_of(identity)))


def test_run_that_no_row_knows_is_refused():
    stranger = RunIdentity(
        task_execution_pk=10**9,
        attempt_number=1,
        execution_generation=1,
        run_id="00000000-0000-4000-8000-000000000000",
    )

    assert execute(stranger) == Refused()


def test_run_that_is_running_already_is_refused():
    held = running()

    assert execute(held.identity) == Refused()
    assert row(held).state == "RUNNING"


@pytest.mark.parametrize("path", ["tests.app.taskbook.gone", "tests.app.gone.task"])
def test_task_that_cannot_be_imported_fails_with_its_path(path):
    held = claimed()
    RayTaskExecution.objects.update(task_path=path)

    said = execute(held.identity)

    assert isinstance(said, Failed)
    assert said.error_class == "django.tasks.exceptions.InvalidTask"
    assert path in said.error_text


def test_row_whose_options_do_not_parse_fails():
    held = claimed()
    RayTaskExecution.objects.update(options={})

    said = execute(held.identity)

    assert isinstance(said, Failed)
    assert said.error_class == "django_ray.errors.ConfigurationError"


def test_setting_that_can_never_work_fails_the_run(settings):
    held = claimed()
    settings.DJANGO_RAY = {"REDACT": ["("]}

    said = execute(held.identity)

    assert isinstance(said, Failed)
    assert said.error_class == "django_ray.errors.ConfigurationError"


def producers():
    return {each for each in threading.enumerate() if "producer" in each.name}


@pytest.mark.parametrize("broken", ["default_window", "Coordinator"])
def test_run_that_cannot_be_made_leaves_no_producer(monkeypatch, broken):
    def fail(*_arguments, **_words):
        raise RuntimeError("the cluster is away")

    held, before = claimed(), producers()
    monkeypatch.setattr(outer.remote, "start_collector", lambda _told: object())
    monkeypatch.setattr(outer.coordinator, "default_window", lambda: 1)
    monkeypatch.setattr(outer.coordinator, broken, fail)

    said = execute(held.identity)

    assert isinstance(said, Failed)
    assert "the cluster is away" in said.error_text
    assert producers() <= before


def test_run_is_told_what_its_row_holds():
    held = running()

    told = outer.settings_of(row(held), held.identity)

    assert told.identity == held.identity
    assert told.plan_fingerprint == row(held).plan_fingerprint
    assert (told.policy, told.retention_days) == ("full", 7)
    assert told.limits.profile == "v1"
