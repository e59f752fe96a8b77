"""What a scenario is: one question, parameters as data, and four steps.

Setup is never inside the clock, and a scenario verifies before it reports: figures of a run
whose verification fails are not printed.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from cluster.harness import Harness

RESAMPLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity: every value kept, reported as median with its spread.

    The less the better, unless it says `more_is_better`.
    """

    values: tuple[float, ...]
    unit: str
    reach: float | None = None
    beyond: float | None = None
    more_is_better: bool = False

    @property
    def median(self) -> float:
        """Return the figure to quote."""
        return median(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 90 % interval of the median, by resampling with a fixed seed."""
        draw = random.Random(0)
        size = len(self.values)
        medians = sorted(
            median(draw.choices(self.values, k=size)) for _ in range(RESAMPLES)
        )
        return medians[RESAMPLES // 20], medians[-RESAMPLES // 20]

    def document(self) -> dict[str, object]:
        """Return the figure as it stands in a result document."""
        low, high = min(self.values), max(self.values)
        body: dict[str, object] = {
            "median": round(self.median, 4),
            "minimum": round(low, 4),
            "maximum": round(high, 4),
            "interval_90": [round(bound, 4) for bound in self.interval],
            "count": len(self.values),
            "unit": self.unit,
        }
        if self.reach is not None:
            body["reach"] = self.reach
            over = self.median - self.reach
            body["reached"] = over >= 0 if self.more_is_better else over <= 0
        if self.beyond is not None:
            body["beyond"] = self.beyond
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a verified run of a scenario found."""

    figures: Mapping[str, Figure]
    parameters: Mapping[str, object]
    notes: tuple[str, ...] = field(default=())


class Scenario(Protocol):
    """One question. `needs_ray` asks the harness for a local Ray."""

    name: str
    needs_ray: bool

    def setup(self, harness: Harness) -> None:
        """Prepare everything the clock must not see."""

    def measure(self) -> None:
        """Warm up, repeat, keep every value."""

    def verify(self) -> None:
        """Raise AssertionError when what was measured did not really happen."""

    def result(self) -> Result:
        """Return the figures of a verified run."""

    def teardown(self) -> None:
        """Leave nothing behind."""
