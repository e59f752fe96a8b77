"""Runs the tests in two passes: what needs no Ray side by side, then what does, alone.

Both passes share one PostgreSQL, which ends with this process. The exit status is the
first failure's; the last line counts both passes.
"""

import os
import re
import subprocess
import sys

import psycopg

from cluster import services

DEEP = "--deep" in sys.argv[1:]


def run_pass(marker: str, *extra: str) -> tuple[int, dict[str, int]]:
    """Run pytest over one marker expression; return its status and its counts."""
    expression = marker if DEEP else f"({marker}) and not deep"
    command = [sys.executable, "-m", "pytest", "-m", expression, *extra]
    if DEEP:
        command.append("--hypothesis-profile=deep")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    tail = ""
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        if re.search(r"\d+ (passed|failed|error)", line):
            tail = line
    counts = {
        word: int(number)
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", tail)
    }
    return process.wait(), counts


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
    results = [
        run_pass("not ray", "-n", "2", "--dist", "loadgroup"),
        run_pass("ray", "tests/ray"),
    ]
    total: dict[str, int] = {}
    for _, counts in results:
        for word, number in counts.items():
            total[word] = total.get(word, 0) + number
    failed = total.get("failed", 0) + total.get("error", 0)
    print(
        f"{total.get('passed', 0)} passed, {failed} failed, "
        f"{total.get('skipped', 0)} skipped"
    )
    return next((status for status, _ in results if status), 0)


if __name__ == "__main__":
    raise SystemExit(main())
