"""How many examples a property is tried on, and how a test's rows go away."""

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, max_examples=100)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile("ci")

STANDING = frozenset(("auth_permission", "django_content_type", "django_migrations"))
"""The tables whose rows the migrations made, and no test changes."""


def empty_tables(_case):
    """Delete the rows a test may have made: they are few, and TRUNCATE takes longer."""
    from django.db import connection, transaction

    names = connection.introspection.django_table_names(
        only_existing=True, include_views=False
    )
    deletions = "; ".join(
        f"DELETE FROM {connection.ops.quote_name(name)}"
        for name in names
        if name not in STANDING
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(deletions)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup):
    """Django's own flush also makes all permissions anew: most of a small test's time."""
    from django.test import TransactionTestCase

    before = TransactionTestCase._fixture_teardown
    TransactionTestCase._fixture_teardown = empty_tables
    yield
    TransactionTestCase._fixture_teardown = before
