"""Loaded before pytest-django: gives every test process one PostgreSQL."""

import os
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from cluster import services

    os.environ["DATABASE_URL"] = services.database_url()
