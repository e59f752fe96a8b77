"""Runs the tests in two passes side by side: what needs no Ray, and what does.

Tests with Ray wait most of their time for processes to start; the others, at a lower
priority, use what they leave. With the deep ones, one pass follows the other. Both share
one PostgreSQL, which ends with this process. The exit status is the first failure's; the
last line counts both passes.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg

from cluster import services

DEEP = "--deep" in sys.argv[1:]

NICENESS = 19
"""Of the tests without Ray: Ray runs its workers at 15, and they must not starve."""


Pass = tuple[str, ...]
"""A marker expression, and what else pytest is told."""


def run_pass(marker: str, *extra: str, niceness: int = 0) -> subprocess.Popen[str]:
    """Start pytest over one marker expression; what it says is to be read."""
    expression = marker if DEEP else f"({marker}) and not deep"
    command = [sys.executable, "-u", "-m", "pytest", "-m", expression, *extra]
    if DEEP:
        command.append("--hypothesis-profile=deep")
    return subprocess.Popen(
        ["nice", "-n", str(niceness), *command], stdout=subprocess.PIPE, text=True
    )


def counts_of(said: str) -> dict[str, int]:
    """Count what pytest's last line tells, by its word."""
    tails = [
        line for line in said.splitlines() if re.search(r"\d (passed|failed|err)", line)
    ]
    return {
        word: int(number)
        for number, word in re.findall(
            r"(\d+) (passed|failed|skipped|error)", tails[-1] if tails else ""
        )
    }


def told(process: subprocess.Popen[str]) -> str:
    """Print what a pass says as it says it, and return all of it."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    return "".join(lines)


def one_after_another(*passes: Pass) -> tuple[list[str], list[int]]:
    """Run passes with the machine to themselves; return what they said, and their ends."""
    said, codes = [], []
    for each in passes:
        process = run_pass(*each)
        said.append(told(process))
        codes.append(process.wait())
    return said, codes


def beside(plain: Pass, with_ray: Pass) -> tuple[list[str], list[int]]:
    """Run both passes at once; the second has what it needs first."""
    below, above = run_pass(*plain, niceness=NICENESS), run_pass(*with_ray)
    with ThreadPoolExecutor() as pool:
        rest = pool.submit(below.communicate)
        said = [told(above), rest.result()[0]]
    print(said[-1], end="")
    return said, [below.wait(), above.wait()]


def never_wait_for_the_disk(url: str) -> None:
    """Have the server of the tests keep what it commits in memory alone.

    What its processes lose when they are killed stays the same: the machine lives on.
    """
    with psycopg.connect(url, autocommit=True) as conn:
        for setting in ("fsync", "full_page_writes"):
            conn.execute(f"ALTER SYSTEM SET {setting} = off")
        conn.execute("SELECT pg_reload_conf()")


def main() -> int:
    """Start the database once, run both passes, and sum them up."""
    given = os.environ.get("DATABASE_URL")
    os.environ["DATABASE_URL"] = services.postgresql_of_this_process()
    if not given:
        never_wait_for_the_disk(os.environ["DATABASE_URL"])
    plain = ("not ray", "-n", "2", "--dist", "loadgroup")
    with_ray = ("ray", "tests/ray")
    said, codes = (
        one_after_another(plain, with_ray) if DEEP else beside(plain, with_ray)
    )
    total: dict[str, int] = {}
    for each in said:
        for word, number in counts_of(each).items():
            total[word] = total.get(word, 0) + number
    failed = total.get("failed", 0) + total.get("error", 0)
    print(
        f"{total.get('passed', 0)} passed, {failed} failed, "
        f"{total.get('skipped', 0)} skipped"
    )
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    raise SystemExit(main())
