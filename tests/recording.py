"""Recorded examples of every stored or sent format, replayed byte for byte.

A format that changes by accident fails here. `RECORD=1` writes the files anew, and the
difference is then read in review.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "recorded"


def replay(name, data):
    """Compare `data` with the recorded example; return the recorded bytes."""
    path = FOLDER / name
    if os.environ.get("RECORD") == "1":
        path.write_bytes(data)
    recorded = path.read_bytes()
    assert data == recorded, f"{name} is encoded differently from its recorded example"
    return recorded
