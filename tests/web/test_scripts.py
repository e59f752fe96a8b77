"""What of the pages' scripts needs no page: run by Node, where there is one."""

import shutil
import subprocess
from pathlib import Path

import pytest

import django_ray

HERE = Path(__file__).parent / "scripts"
STATIC = Path(django_ray.__file__).parent / "static" / "django_ray"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="Node is not installed.")
@pytest.mark.parametrize("path", sorted(HERE.iterdir()), ids=lambda path: path.name)
def test_a_script_does_what_is_said_of_it(path, tmp_path):
    # A package of its own, for Node to take the scripts for the modules they are.
    for script in STATIC.glob("*.js"):
        shutil.copy(script, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        [NODE, shutil.copy(path, tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
