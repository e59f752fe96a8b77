"""What the tests of readers begin with."""

import pytest

from tests.app import published


@pytest.fixture
def conn(transactional_db):
    """A writer's connection."""
    with published.writer() as conn:
        yield conn


@pytest.fixture
def root(transactional_db):
    return published.root()
