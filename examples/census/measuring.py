"""The remote functions of the census and of the replay: what runs on Ray."""

import time
from pathlib import Path

import ray

from django_ray.workflow import report
from examples.census import sources
from examples.census.sources import Measure

COMPLEX_MODULES = 10


@ray.remote
def measure_file(path: Path) -> tuple[str, Measure]:
    """Measure one source file; one that does not parse fails, and is counted so."""
    measured = sources.measure(path)
    report(
        message=f"{measured.lines:,} lines", metrics={"functions": measured.functions}
    )
    return sources.short(path), measured


@ray.remote
def sum_package(
    package: tuple[str, list["ray.ObjectRef[tuple[str, Measure]]"]],
) -> tuple[Measure, list[tuple[int, str]]]:
    """Add up a package's files, and name its most complex modules."""
    _, refs = package
    files = ray.get(refs)
    return sum((measured for _, measured in files), Measure()), most_complex(
        [(measured.complexity, name) for name, measured in files]
    )


@ray.remote
def sum_all(
    *packages: tuple[Measure, list[tuple[int, str]]],
) -> tuple[Measure, list[tuple[int, str]]]:
    """Add up the packages."""
    return sum((measured for measured, _ in packages), Measure()), most_complex(
        [entry for _, entries in packages for entry in entries]
    )


@ray.remote(num_cpus=0.5)
def recorded_step(seconds: float, *parents: float) -> float:
    """Take as long as the recorded task did, divided by the replay's speed."""
    time.sleep(seconds)
    return seconds + max(parents, default=0.0)


def most_complex(entries: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the ten with the highest complexity, by name where equal."""
    return sorted(entries, key=lambda entry: (-entry[0], entry[1]))[:COMPLEX_MODULES]
