"""Loaded before pytest-django: gives every test process one PostgreSQL."""

import os

from cluster import services

os.environ["DATABASE_URL"] = services.postgresql_of_this_process()
