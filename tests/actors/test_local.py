"""A Ray of one's own: what its node is told, and a start that fails.

`tests/ray` starts and stops real ones.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from actors.local import LocalRay, node_environment
from django_ray.errors import ConfigurationError


def node(**given):
    return node_environment(
        given, database_url="postgresql://here", settings_module="s"
    )


def test_node_is_told_database_settings_and_where_to_import_from():
    told = node(HOME="/root")

    assert told["HOME"] == "/root"
    assert told["DATABASE_URL"] == "postgresql://here"
    assert told["DJANGO_SETTINGS_MODULE"] == "s"
    assert set(filter(None, sys.path)) <= set(told["PYTHONPATH"].split(":"))


def test_database_that_is_given_stays():
    assert node(DATABASE_URL="postgresql://given")["DATABASE_URL"] == (
        "postgresql://given"
    )
    assert "DATABASE_URL" not in node(DJANGO_RAY_DSN_FILE="/run/dsn")


@pytest.mark.deep
def test_start_that_fails_says_so_and_leaves_no_folder(caplog, monkeypatch):
    made = []

    def make(**named):
        made.append(mkdtemp(**named))
        return made[-1]

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", make)
    local = LocalRay(
        num_cpus=-1, environment=node(PATH="/usr/bin:/bin"), dashboard=False
    )

    with pytest.raises(ConfigurationError, match="ended at its start"):
        local.start()

    assert [Path(folder).exists() for folder in made] == [False]
    assert "Ray said" in caplog.text


def test_what_was_not_started_is_stopped_without_effect():
    LocalRay(num_cpus=1, environment={}, dashboard=False).stop()
