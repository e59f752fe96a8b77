"""Short names of stages: the last part of each, with a tag where two end alike."""

from collections import Counter
from dataclasses import dataclass

from django_ray.progress.stages import OTHER_INDEX
from django_ray.readers.stages import Stages


@dataclass(frozen=True, slots=True)
class Name:
    """A stage's short name, what tells it from its like, and its whole label."""

    name: str
    tag: str
    label: str


NOBODY = Name("", "", "")


def shorten(labels: list[str]) -> list[Name]:
    """Return the labels' names, in their order."""
    split = [[part for part in label.split(".") if part] or [label] for label in labels]
    ends = Counter(parts[-1] for parts in split)
    return [
        Name(
            parts[-1],
            parts[-2] if ends[parts[-1]] > 1 and len(parts) > 1 else "",
            label,
        )
        for label, parts in zip(labels, split, strict=True)
    ]


def of(stages: Stages | None) -> dict[int, Name]:
    """Return the names of a run's stages by index; `other` says how many it holds."""
    if stages is None:
        return {}
    found = shorten([stage.label for stage in stages.items])
    named = {stage.index: name for stage, name in zip(stages.items, found, strict=True)}
    for stage in stages.items:
        if stage.index == OTHER_INDEX and stages.folded:
            callables = "callable" if stages.folded == 1 else "callables"
            name = f"other ({stages.folded:,} {callables})"
            named[stage.index] = Name(name, "", stage.label)
    return named
