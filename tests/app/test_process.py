"""Set-up of a Ray worker process, seen in processes of its own."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from django_ray import process
process.set_up()
print("django" in sys.modules)
"""


@pytest.mark.parametrize(
    ("kind", "loaded"), [("actor", "False"), ("task", "True"), ("", "True")]
)
def test_only_our_actors_stay_without_django(kind, loaded):
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DJANGO_RAY_PROCESS": kind,
    }

    said = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.strip() == loaded


def test_a_process_of_a_scripts_background_heeds_interrupts():
    script = (
        "import signal; from django_ray import process; process.set_up();"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )

    said = subprocess.run(
        ["sh", "-c", 'trap \'\' INT; exec "$0" -c "$1"', sys.executable, script],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.strip() == "True"
