"""A writer connects when it has to write, and says which of two things went wrong."""

import pytest
from msgspec.structs import replace

from django_ray.errors import ConfigurationError, StorageUnavailable
from django_ray.progress.delta import Fenced, Revisions
from django_ray.protocol.vocabulary import ReportingPolicy
from django_ray.storage.load import Begun
from django_ray.storage.stage import Staged
from django_ray.storage.writer import Writer
from tests.fakes import run_settings
from tests.storage import helpers

NOWHERE = "host=/nonexistent dbname=none"


@pytest.fixture
def make(storage_dsn, admin):
    made = []

    def writer(dsn=None, policy=ReportingPolicy.full, state="RUNNING"):
        identity = helpers.execution(admin, state)
        told = replace(run_settings(policy), identity=identity)
        made.append(Writer(told, lambda: dsn or storage_dsn))
        return made[-1]

    yield writer
    for each in made:
        each.close()


def test_nothing_is_asked_of_the_environment_before_the_first_call():
    def dsn():
        raise ConfigurationError

    writer = Writer(run_settings(), dsn)
    with pytest.raises(ConfigurationError):
        writer.begin()


def test_begin_opens_the_run_and_each_writer_raises_the_epoch(make):
    writer = make()
    begun = writer.begin()
    assert isinstance(begun, Begun)
    assert (begun.writer_epoch, begun.revisions) == (1, Revisions())
    again = writer.begin()
    assert isinstance(again, Begun)
    assert again.writer_epoch == 2


def test_a_run_that_is_not_current_is_fenced(make):
    assert isinstance(make(state="CLAIMED").begin(), Fenced)


def test_a_database_that_does_not_answer_is_unavailable_and_unnamed(make):
    with pytest.raises(StorageUnavailable) as caught:
        make(NOWHERE).begin()
    assert "nonexistent" not in str(caught.value)


@pytest.mark.parametrize("call", ["stage", "publish"])
def test_nothing_is_written_before_the_run_is_begun(make, call):
    with pytest.raises(StorageUnavailable):
        getattr(make(), call)(None)


def test_discard_without_a_run_does_nothing_and_close_may_be_repeated(make):
    writer = make()
    writer.discard()
    writer.close()
    writer.close()


def test_a_candidate_is_staged_and_removed_by_discard(make, admin):
    writer = make()
    writer.begin()
    assert isinstance(writer.stage(helpers.candidate(1, 10)), Staged)
    count = "SELECT count(*) FROM django_ray_manifest"
    assert admin.execute(count).fetchone() == (1,)
    writer.discard()
    assert admin.execute(count).fetchone() == (0,)


def test_after_close_the_next_call_connects_again(make):
    writer = make()
    writer.begin()
    writer.close()
    assert isinstance(writer.begin(), Begun)
