"""The one place that makes metrics of Ray's, of those in `measures`.

Metrics only watch: what one of them raises is logged once, and the run goes on.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from ray.util import metrics

from actors.measures import BY_NAME, SECONDS, Kind, Metric
from actors.telling import ProducerTeller

logger = logging.getLogger(__name__)


class Instrument(Protocol):
    """One of Ray's metrics, called with a number and the labels."""

    def __call__(self, number: float, labels: dict[str, str]) -> None: ...


def make(metric: Metric) -> Instrument:
    """Make a metric of Ray's."""
    labels = (metric.label,) if metric.label else ()
    told: Callable[..., None]
    if metric.kind is Kind.counter:
        told = metrics.Counter(metric.name, metric.help, labels).inc
    elif metric.kind is Kind.gauge:
        told = metrics.Gauge(metric.name, metric.help, labels).set
    else:
        told = metrics.Histogram(metric.name, metric.help, [*SECONDS], labels).observe
    return cast("Instrument", told)


class RayMeter:
    """A `telling.Meter` of Ray's metrics, each made when it is told of first."""

    def __init__(self, make: Callable[[Metric], Instrument]) -> None:
        self._make = make
        self._made: dict[str, Instrument] = {}
        self._is_quiet = False

    def add(self, name: str, number: float, value: str = "") -> None:
        """Add to a counter."""
        if number > 0:
            self._tell(name, number, value)

    def set(self, name: str, number: float, value: str = "") -> None:
        """Set a gauge."""
        self._tell(name, number, value)

    def observe(self, name: str, number: float) -> None:
        """Add one observation to a histogram."""
        self._tell(name, number, "")

    def _tell(self, name: str, number: float, value: str) -> None:
        try:
            metric = BY_NAME[name]
            labels = {metric.label: metric.closed(str(value))} if metric.label else {}
            if name not in self._made:
                self._made[name] = self._make(metric)
            self._made[name](number, labels)
        except Exception:
            # Metrics are Ray's code: whatever they do, reporting goes on.
            if not self._is_quiet:
                self._is_quiet = True
                logger.warning("A metric could not be told.", exc_info=True)


@functools.cache
def meter() -> RayMeter:
    """Return where this process tells its metrics."""
    return RayMeter(make)


def of_producer() -> Callable[[Mapping[str, int]], None]:
    """Return whom a producer of this process tells its counts."""
    return ProducerTeller(meter()).tell
