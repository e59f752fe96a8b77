"""Reads a workflow recorded in WfFormat 1.5: its graph and its runtimes.

The format is WfCommons' JSON of executed scientific workflows. Only what a replay needs is
read: the tasks, their parents, and how long each ran.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from django_ray.errors import GraphRefused

_NUMBER = re.compile(r"(_ID\d*|_?\d+)$")


class _Task(msgspec.Struct):
    id: str
    name: str
    parents: list[str] = msgspec.field(default_factory=list)


class _Executed(msgspec.Struct):
    id: str
    runtime: float = msgspec.field(default=0.0, name="runtimeInSeconds")


class _Specification(msgspec.Struct):
    tasks: list[_Task]


class _Execution(msgspec.Struct):
    tasks: list[_Executed]


class _Workflow(msgspec.Struct):
    specification: _Specification
    execution: _Execution


class _Document(msgspec.Struct):
    workflow: _Workflow


@dataclass(frozen=True, slots=True)
class Step:
    """One task of the recorded workflow; `runtime` in seconds."""

    id: str
    stage: str
    runtime: float
    parents: tuple[str, ...]


def read(path: Path) -> list[Step]:
    """Return the steps in topological order, first come first where the order is free.

    Raise GraphRefused for a document of another shape, a task named twice, an unknown
    parent, or a cycle.
    """
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except (OSError, msgspec.MsgspecError) as exc:
        raise GraphRefused("the file is not a WfFormat document") from exc
    workflow = document.workflow
    runtimes = {task.id: task.runtime for task in workflow.execution.tasks}
    if not all(0 <= runtime < float("inf") for runtime in runtimes.values()):
        raise GraphRefused("a runtime of the WfFormat file is no duration")
    steps: dict[str, Step] = {}
    for task in workflow.specification.tasks:
        if task.id in steps:
            raise GraphRefused("a task of the WfFormat file is named twice")
        stage = _NUMBER.sub("", task.name) or task.name
        steps[task.id] = Step(
            task.id, stage, runtimes.get(task.id, 0.0), tuple(task.parents)
        )
    return _ordered(steps)


def critical_path(steps: list[Step]) -> float:
    """Return the longest chain of runtimes through the workflow, in seconds."""
    ends: dict[str, float] = {}
    for step in steps:
        ends[step.id] = step.runtime + max(
            (ends[parent] for parent in step.parents), default=0.0
        )
    return max(ends.values(), default=0.0)


def _ordered(steps: dict[str, Step]) -> list[Step]:
    waiting = {step.id: len(set(step.parents)) for step in steps.values()}
    children: dict[str, list[str]] = {}
    for step in steps.values():
        for parent in set(step.parents):
            if parent not in steps:
                raise GraphRefused("a task of the WfFormat file names no known parent")
            children.setdefault(parent, []).append(step.id)
    order = [steps[name] for name, count in waiting.items() if not count]
    for step in order:
        for child in children.get(step.id, ()):
            waiting[child] -= 1
            if not waiting[child]:
                order.append(steps[child])
    if len(order) != len(steps):
        raise GraphRefused("the WfFormat file has a cycle")
    return order
