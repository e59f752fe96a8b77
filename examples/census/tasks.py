"""The two durable tasks of the demo: the census, and the replay of a recorded workflow."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.tasks import task
from ray.dag import MultiOutputNode

from django_ray.workflow import Failure, fan_out, run
from examples.census import measuring, sources, wfformat

if TYPE_CHECKING:
    import ray


@task
def census() -> dict[str, Any]:
    """Measure every Python source file installed here, by package and overall.

    One node a file, one a package that depends on its files, one for the whole. A file
    that does not parse is a failed node; its package is summed without it.
    """
    packages = sources.discover()
    files = fan_out(
        measuring.measure_file,
        [path for package in packages for path in package.files],
        key=sources.short,
        group="file",
        refs=True,
        errors="yield",
    )
    failed: list[str] = []

    def measured() -> Iterator[tuple[str, list["ray.ObjectRef[Any]"]]]:
        for package in packages:
            refs = []
            for path, outcome in zip(
                package.files, islice(files, len(package.files)), strict=True
            ):
                if isinstance(outcome, Failure):
                    failed.append(sources.short(path))
                else:
                    refs.append(outcome)
            yield package.name, refs

    sums = fan_out(
        measuring.sum_package,
        measured(),
        key=lambda package: package[0],
        group="package",
        refs=True,
    )
    total, complex_modules = run(measuring.sum_all.options(name="total").bind(*sums))
    return {
        "python": sources.python_version(),
        "packages": len(packages),
        "files": total.files,
        "lines": total.lines,
        "functions": total.functions,
        "classes": total.classes,
        "complexity": total.complexity,
        "most_imported": total.imports.most_common(10),
        "most_complex": complex_modules,
        "not_parsed": failed,
    }


@task
def replay(path: str, speed: float) -> dict[str, Any]:
    """Run a workflow recorded in WfFormat again: its graph, its runtimes over `speed`."""
    steps = wfformat.read(Path(path))
    stages = {step.id: step.stage for step in steps}
    nodes: dict[str, Any] = {}
    leaves = {step.id for step in steps}
    for step in steps:
        nodes[step.id] = measuring.recorded_step.options(name=step.id).bind(
            step.runtime / speed, *(nodes[parent] for parent in step.parents)
        )
        leaves.difference_update(step.parents)
    started = time.monotonic()
    ends = run(
        MultiOutputNode([nodes[name] for name in stages if name in leaves]),
        group=stages.__getitem__,
        prefix=False,
    )
    return {
        "tasks": len(steps),
        "wall_s": time.monotonic() - started,
        "critical_path_s": wfformat.critical_path(steps) / speed,
        "slept_s": max(ends, default=0.0),
    }
