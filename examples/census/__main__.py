"""`make demo`: a census of the Python packages installed beside it, run on Ray and watched live.

With `--wfinstance FILE` a workflow recorded in WfFormat is replayed instead. `--once` ends
after the run, `--json` prints the final summary as JSON on the last line.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from examples.census.stage import Stage, stage

START_SECONDS = 60
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Start everything, run one task, show it, and clean up."""
    given = _parse(arguments)
    for number in SIGNALS:
        signal.signal(number, _leave)
    try:
        with stage(os.cpu_count() or 2) as running:
            code = _show(given, running)
    except KeyboardInterrupt:
        code = 130
    if not given.json:
        print("Ended; nothing is left running.")
    return code


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo ARGS=…", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the run")
    parser.add_argument("--json", action="store_true", help="end with the summary")
    parser.add_argument("--wfinstance", type=Path, help="a WfFormat 1.5 file to replay")
    parser.add_argument(
        "--speed", type=float, default=2_000.0, help="divides the recorded runtimes"
    )
    given = parser.parse_args(arguments)
    if given.wfinstance is not None and not given.wfinstance.is_file():
        parser.error("--wfinstance names no file")
    if not 0 < given.speed < float("inf"):
        parser.error("--speed is not a positive number")
    return given


def _show(given: argparse.Namespace, running: Stage) -> int:
    from django.tasks import TaskResult, TaskResultStatus

    from examples.census import tasks

    result: TaskResult[Any, dict[str, Any]]
    if given.wfinstance is None:
        result = tasks.census.enqueue()
    else:
        path = str(given.wfinstance.resolve())
        result = tasks.replay.enqueue(path=path, speed=given.speed)
    page = f"{running.web}/progress/runs/{result.id}/"
    link = f"{page}summary"
    print(f"Run {result.id} is enqueued. While this command runs:")
    addresses = (
        f"Page      {page}\n"
        f"Summary   {link}\n"
        f"Dashboard {running.ray.dashboard}\n"
        f"          its token: {running.ray.credentials.get('RAY_AUTH_TOKEN', '')}"
    )
    print(addresses)
    _watch(result.id)
    result.refresh()
    if result.status is TaskResultStatus.SUCCESSFUL:
        _tell(result.return_value)
    else:
        print(f"The task ended {result.status}; the worker's log is shown below.")
        print((running.logs / "worker.log").read_text()[-4_000:])
    summary = _read(link)
    if not given.once:
        print(f"\n{addresses}\nCtrl-C ends the demo.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    if given.json:
        print(json.dumps(summary, sort_keys=True), flush=True)
    return 0 if result.status is TaskResultStatus.SUCCESSFUL else 1


def _watch(public_id: str) -> None:
    from django.core.management import call_command

    try:
        call_command("watch_run", public_id)
    except SystemExit as ended:
        if ended.code == 130:
            raise KeyboardInterrupt from None


def _tell(found: dict[str, Any]) -> None:
    if "most_complex" not in found:
        print(f"Replayed {found['tasks']} tasks in {found['wall_s']:.2f} s.")
        print(
            f"The critical path over the speed is {found['critical_path_s']:.2f} s; the "
            "rest is Ray's: it starts processes, and hands each of them its tasks."
        )
        return
    print(
        f"\nPython {found['python']}: {found['files']:,} files of "
        f"{found['packages']:,} packages, {found['lines']:,} lines, "
        f"{found['functions']:,} functions, {found['classes']:,} classes."
    )
    imported = ", ".join(name for name, _ in found["most_imported"])
    print(f"Most imported: {imported}.")
    print(f"{len(found['not_parsed'])} files do not parse.")
    print("The ten most complex modules:")
    for complexity, name in found["most_complex"]:
        print(f"  {complexity:>6,}  {name}")


def _read(link: str) -> Any:  # noqa: ANN401 (a JSON document)
    with urlopen(link, timeout=START_SECONDS) as answer:
        return json.load(answer)


def _leave(signum: int, frame: object) -> None:
    """Begin to end; nobody interrupts the clean-up, however often they ask."""
    del frame
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    print("\nEnding ...", flush=True)
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning)
    sys.exit(main(sys.argv[1:]))
