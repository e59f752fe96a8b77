"""Is there an order of statements in which a stale write, a mixed reading or a half-ended run gets through?

A stale and a new writer, a lifecycle transition, cleanup and a reader, on real connections,
step by statement: every interleaving of every two that can meet, and of every three with a
writer; all five by seeds. After each, every invariant of storage is judged. The same again on
PostgreSQL 15, where this machine has one and the first server is another.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass

from cluster import services
from cluster.harness import Harness
from cluster.scenario import Figure, Result

OLDEST = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """How far a race is driven; `oldest` asks for the second server too."""

    triples: bool = True
    seeds: int = 2_000
    oldest: bool = True


class FenceRace:
    __doc__ = __doc__

    name = "fence_race"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.notes: list[str] = []
        self.counts: Counter[str] = Counter()
        self.stack = contextlib.ExitStack()

    def setup(self, harness: Harness) -> None:
        """Make the execution, and connect everybody."""
        # The models cannot be imported before the harness has set Django up.
        from cluster import cast

        self.cast = cast
        self.version = int(harness.server_version) // 10_000
        self.race = cast.Race(harness.url)
        self.stack.callback(self.race.close)

    def measure(self) -> None:
        """Play it all here, and beside it on the oldest server there may be."""
        other = self._elsewhere()
        for pair in self.cast.pairs():
            self._every("pairs", pair)
        for three in self.cast.triples() if self.parameters.triples else ():
            self._every("triples", three)
        self.counts["seeds"] = self.race.seeds(range(self.parameters.seeds))
        self._keep(f"pg{self.version}", {**self.counts, "waits": self.race.waits})
        self.notes.append(
            f"pg{self.version}: {len(self.race.judge.judged)} different ends"
        )
        if other is not None:
            self._hear(other)

    def _every(self, kind: str, names: tuple[str, ...]) -> None:
        number = self.race.every(names)
        self.counts[kind] += number
        print(f"{' + '.join(names)}: {number}", file=sys.stderr, flush=True)

    def _keep(self, server: str, counts: dict[str, int]) -> None:
        for key, number in counts.items():
            unit = "waiting, by move" if key == "waits" else "interleavings"
            self.figures[f"{server}_{key}"] = Figure(values=(float(number),), unit=unit)

    def _elsewhere(self) -> "subprocess.Popen[str] | None":
        """Start this scenario on PostgreSQL 15, if this is another."""
        if not self.parameters.oldest or self.version == OLDEST:
            return None
        url = self.stack.enter_context(services.installed_postgresql(OLDEST))
        if url is None:
            self.notes.append(
                f"no PostgreSQL {OLDEST} on this machine: not tried there"
            )
            return None
        other = subprocess.Popen(
            [sys.executable, "-m", "cluster", "run", self.name, "--json"],
            env={**os.environ, "DATABASE_URL": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stack.callback(other.wait)
        self.stack.callback(other.terminate)
        return other

    def _hear(self, other: "subprocess.Popen[str]") -> None:
        said, _ = other.communicate()
        assert other.returncode == 0, f"It does not hold on PostgreSQL {OLDEST}."
        document = json.loads(said.splitlines()[-1])
        for key, figure in document["figures"].items():
            self.figures[key] = Figure(values=(figure["median"],), unit=figure["unit"])
        self.notes.extend(document["notes"])

    def verify(self) -> None:
        """Both ends of each race were seen: none was decided before it began."""
        answers = self.race.answers
        for writer in ("new", "promoter", "heir"):
            race = answers[writer, "lifecycle"]
            assert race[f"{writer} Published"], race
            assert race[f"{writer} Fenced"], race
        due = answers["lifecycle", "cleanup"]
        assert due["cleanup removed"], due
        assert due["cleanup spared"], due
        for stale in self.cast.STALE:
            for race in answers.values():
                assert not race[f"{stale} Published"], race
        assert self.race.waits, "nobody ever waited for a lock"

    def result(self) -> Result:
        """Return how many interleavings were played and judged, by server."""
        return Result(
            figures=self.figures,
            parameters=asdict(self.parameters),
            notes=tuple(self.notes),
        )

    def teardown(self) -> None:
        """Let everybody leave, and stop the other server."""
        self.stack.close()


def scenario() -> FenceRace:
    """Return the scenario with its default parameters."""
    return FenceRace(Parameters())
