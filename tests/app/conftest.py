"""What the tests of readers, and of what ends executions, begin with."""

import pytest
from django.tasks.signals import task_finished

from tests.app import published


@pytest.fixture
def conn(transactional_db):
    """A writer's connection."""
    with published.writer() as conn:
        yield conn


@pytest.fixture
def root(transactional_db):
    return published.root()


@pytest.fixture
def finished():
    """The results that `task_finished` was sent with."""
    seen = []

    def receive(sender, task_result, **kwargs):
        seen.append(task_result)

    task_finished.connect(receive)
    yield seen
    task_finished.disconnect(receive)
