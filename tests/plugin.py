"""Loaded before pytest-django: gives every test process one PostgreSQL."""

import os
import signal

from cluster import services

os.environ["DATABASE_URL"] = services.postgresql_of_this_process()

# A shell that starts this in its background has SIGINT ignored, and children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
