"""`python -m cluster list | run NAME | run all | compare A B | report`: the scenarios' command."""

import argparse
import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from cluster import figures, scenarios
from cluster.harness import Harness
from cluster.report import compare, document, table
from cluster.scenario import Scenario


def names() -> list[str]:
    """Return the scenarios there are, by file name."""
    return sorted(module.name for module in iter_modules(scenarios.__path__))


def load(name: str, *, full: bool = False) -> Scenario:
    """Return a fresh scenario by name; the full one, where it has two sizes."""
    module = import_module(f"cluster.scenarios.{name}")
    make = getattr(module, "full", module.scenario) if full else module.scenario
    scenario: Scenario = make()
    return scenario


def question(name: str) -> str:
    """Return the question a scenario asks."""
    return (load(name).__doc__ or "").partition("\n")[0]


def run(name: str, *, as_json: bool, full: bool) -> bool:
    """Run one scenario; print its document, or its table and document."""
    scenario = load(name, full=full)
    with Harness(ray=scenario.needs_ray) as harness:
        try:
            scenario.setup(harness)
            scenario.measure()
            scenario.verify()
        except AssertionError as error:
            print(f"{name}: not verified: {error}", file=sys.stderr)
            return False
        finally:
            scenario.teardown()
        result = scenario.result()
        body = document(name, result, harness.server_version)
    if not as_json:
        print(table(result))
    print(json.dumps(body, sort_keys=True), flush=True)
    return True


def main(arguments: list[str]) -> int:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    running = commands.add_parser("run")
    running.add_argument("name", choices=[*names(), "all"])
    running.add_argument("--json", action="store_true")
    running.add_argument("--full", action="store_true")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    reporting = commands.add_parser("report")
    reporting.add_argument("documents", type=Path, nargs="+")
    given = parser.parse_args(arguments)
    if given.command == "list":
        for name in names():
            print(f"{name}: {question(name)}")
        return 0
    if given.command == "compare":
        print(compare(given.before, given.after))
        return 0
    if given.command == "report":
        lines = [
            line for path in given.documents for line in path.read_text().splitlines()
        ]
        documents = [json.loads(line) for line in lines if line.startswith("{")]
        print(figures.page(documents, {name: question(name) for name in names()}))
        return 0
    chosen = names() if given.name == "all" else [given.name]
    verified = [run(name, as_json=given.json, full=given.full) for name in chosen]
    return 0 if all(verified) else 1


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning)
    raise SystemExit(main(sys.argv[1:]))
