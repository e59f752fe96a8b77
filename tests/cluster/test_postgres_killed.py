"""A PostgreSQL that stops at once takes nothing with it that was answered as committed."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
from cluster.harness import Harness
from cluster.scenarios.postgres_killed import Parameters, PostgresKilled

scenario = PostgresKilled(Parameters(stops=2, away_s=1.0, between_s=(0.5, 1.0)))
with Harness(ray=False) as harness:
    scenario.setup(harness)
    try:
        scenario.measure()
        scenario.verify()
    finally:
        scenario.teardown()
print(len(scenario.caught_up_s), sum(scenario.lost), scenario.promises[-1] > 0)
"""


@pytest.mark.deep
def test_nothing_committed_is_lost_when_the_server_is_stopped_at_once():
    """In a process of its own, with a server of its own: this one's is everybody's."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("DATABASE_URL", None)
    environment.pop("DJANGO_SETTINGS_MODULE", None)

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "0", "True"]
