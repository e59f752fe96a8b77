"""Sixteen mistakes that must not pass: each is made in a copy, and named tests must fail.

`python -m tests.mutants [NAME ...]` copies the repository, makes one change at a time, and
runs the tests that are to find it. The exit status is the number of mutants that lived.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "*.pyc", "__pycache__", "node_modules")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file, and the tests that must find it."""

    name: str
    path: str
    before: str
    after: str
    tests: str


SCENARIOS = "tests/lifecycle/test_scenarios.py"
MUTANTS = (
    Mutant(
        "a result's time-out lets the graph be used again",
        "django_ray/lifecycle/deadlines.py",
        "outcome=Outcome.GET_TIMEOUT,\n            graph=GraphDisposition.REBUILD_REQUIRED",
        "outcome=Outcome.GET_TIMEOUT,\n            graph=GraphDisposition.DRAIN_REQUIRED",
        SCENARIOS,
    ),
    Mutant(
        "a tie of deadlines is the stage's",
        "django_ray/lifecycle/settle.py",
        "if action.deadline == state.deadlines.outer:",
        "if action.deadline > state.deadlines.outer:",
        SCENARIOS,
    ),
    Mutant(
        "an answer at its deadline is in time",
        "django_ray/lifecycle/reducer.py",
        "if callback.observed_at >= pending.deadline:",
        "if callback.observed_at > pending.deadline:",
        SCENARIOS,
    ),
    Mutant(
        "a later outcome replaces the primary one",
        "django_ray/lifecycle/settle.py",
        "if primary is None and outcome is not None:",
        "if outcome is not None:",
        SCENARIOS,
    ),
    Mutant(
        "a token of before is taken",
        "django_ray/lifecycle/envelope.py",
        "return RejectionCode.DUPLICATE_ACTION",
        "return None",
        "tests/lifecycle/test_envelope.py",
    ),
    Mutant(
        "a state told twice is applied twice",
        "django_ray/progress/nodes.py",
        "if key <= held:\n            return Verdict.duplicate if key == held else Verdict.stale\n        begun",
        "if key < held:\n            return Verdict.stale\n        begun",
        "tests/progress/test_nodes.py",
    ),
    Mutant(
        "an omitted node goes back",
        "django_ray/progress/counters.py",
        "(try_, RANKS[state]) <= held",
        "(try_, RANKS[state]) == held",
        "tests/progress/test_counters.py",
    ),
    Mutant(
        "the run's end is never over",
        "django_ray/progress/model.py",
        "self._over = delta.end is not None",
        "self._over = False",
        "tests/progress/test_model.py",
    ),
    Mutant(
        "a failed publication is forgotten",
        "django_ray/progress/model.py",
        "self._changed |= delta.changed",
        "self._changed |= False",
        "tests/progress/test_model.py",
    ),
    Mutant(
        "frames are not recognised as repeated",
        "django_ray/progress/ledger.py",
        "return not known.resyncing and frame.number <= known.applied",
        "return False",
        "tests/progress/test_ledger.py",
    ),
    Mutant(
        "a gap of frames asks for no resync",
        "django_ray/progress/ledger.py",
        "follows = frame.number <= known.applied + 1 and (",
        "follows = frame.number <= 2**62 and (",
        "tests/progress/test_ledger.py",
    ),
    Mutant(
        "the fence does not compare the generation",
        "django_ray/storage/fence.py",
        "  AND e.execution_generation = %(generation)s::int8\n",
        "",
        "tests/storage/test_publish.py",
    ),
    Mutant(
        "the fence lets an ended task be written",
        "django_ray/storage/fence.py",
        "  AND e.state = 'RUNNING'\n",
        "",
        "tests/storage/test_publish.py",
    ),
    Mutant(
        "an owner sends a time before the last",
        "actors/owner.py",
        "if event.observed_at < self._state.observed_at:",
        "if event.observed_at < 0:",
        "tests/actors/test_owner.py",
    ),
    Mutant(
        "a cancelled invocation gives its late value",
        "actors/owner.py",
        "values=values if succeeded else None,",
        "values=values if served and values else None,",
        "tests/actors/test_owner.py",
    ),
    Mutant(
        "what stands behind a failed method has failed too",
        "actors/account.py",
        "found[later] = NodeState.SKIPPED",
        "found[later] = NodeState.FAILED",
        "tests/actors/test_account.py",
    ),
)


def lives(mutant: Mutant, copy: Path) -> bool:
    """Make one change in the copy, run its tests, and take it back."""
    path = copy / mutant.path
    text = path.read_text()
    if text.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.name}: its text is not there once")
    path.write_text(text.replace(mutant.before, mutant.after))
    command = ["-m", "pytest", "-x", "-m", "not deep and not ray", mutant.tests]
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(text)
    # 1 is a failed test; anything else is a mutant that cannot even be tried.
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: {done.stdout[-2_000:]}")
    return done.returncode == 0


def main(names: list[str]) -> int:
    """Try the named mutants, or all; print what became of each."""
    alive = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        for mutant in MUTANTS:
            if not names or mutant.name in names:
                lived = lives(mutant, copy)
                alive += lived
                print(f"{'LIVES ' if lived else 'killed'} {mutant.name}", flush=True)
    return alive


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
