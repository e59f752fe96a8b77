"""What do 200 browsers that poll one changing run cost them, and the one who writes it?

In pairs, in turn: the run publishes at a fixed rate while nobody looks, and while every
browser, a user of its own, asks for its summary at the page's pace. Then it stands still.
"""

import time
from dataclasses import asdict, dataclass
from statistics import median, quantiles

from cluster import runs
from cluster.browsing import Polled, Service
from cluster.harness import Harness
from cluster.measure import seconds
from cluster.scenario import Figure, Result
from django_ray.protocol.vocabulary import NodeState

LEARN_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """How many look, and what the run publishes how often."""

    browsers: int = 200
    nodes: int = 5_000
    changed: int = 250
    interval_s: float = 0.25
    phase_s: float = 10.0
    pairs: int = 4


class ReadersLive:
    __doc__ = __doc__

    name = "readers_live"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.alone: list[list[float]] = []
        self.beside: list[list[float]] = []
        self.changing: list[Polled] = []
        self.still: list[Polled] = []
        self.service: Service | None = None
        self.try_ = 1

    def setup(self, harness: Harness) -> None:
        """Publish the run; log the users in; start server and browsers."""
        from django.contrib.auth.models import User
        from django.test import Client
        from django.urls import reverse

        self.mind = runs.Mind(harness.connect(), runs.execution())
        self.mind.register(
            runs.layered(self.parameters.nodes, 4 * self.parameters.nodes)
        )
        self.mind.publish()
        cookies = []
        for number in range(self.parameters.browsers):
            client = Client()
            client.force_login(User.objects.create_superuser(f"browser-{number}"))
            cookies.append(
                "; ".join(f"{c.key}={c.value}" for c in client.cookies.values())
            )
        path = reverse("summary", args=[runs.public_id(self.mind.identity)])
        self.service = Service(path, cookies)

    def measure(self) -> None:
        """Publish with and without browsers, in turn; the first pair warms up."""
        asked = self.parameters
        assert self.service is not None
        for pair in range(asked.pairs + 1):
            alone = self._publish()
            self.service.begin(asked.phase_s)
            beside = self._publish()
            polled = self.service.polled()
            still = self._stand_still()
            if pair:
                self.alone.append(alone)
                self.beside.append(beside)
                self.changing.append(polled)
                self.still.append(still)

    def _stand_still(self) -> Polled:
        """Let every browser learn the last revision, then have them go on asking."""
        assert self.service is not None
        self.service.begin(LEARN_S)
        self.service.polled()
        self.service.begin(self.parameters.phase_s)
        return self.service.polled()

    def _publish(self) -> list[float]:
        """Publish at the fixed rate; return how long each publication took."""
        spent: list[float] = []
        states = (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED)
        due = time.perf_counter()
        until = due + self.parameters.phase_s
        while due < until:
            self.try_ += 1
            first = self.try_ * self.parameters.changed
            ordinals = sorted(
                (first + n) % self.parameters.nodes
                for n in range(self.parameters.changed)
            )
            self.mind.move(ordinals, states[self.try_ % 3], self.try_)
            time.sleep(max(0.0, due - time.perf_counter()))
            spent.append(seconds(self.mind.publish))
            due += self.parameters.interval_s
        return spent

    def verify(self) -> None:
        """Every browser was served, with bodies while the run changed; the run is sound."""
        asked = self.parameters
        for polled in self.changing:
            least = asked.browsers * (asked.phase_s - 2) / 2
            assert polled.statuses[200] > least, polled.statuses
        for polled in self.still:
            assert polled.statuses[304] >= asked.browsers, polled.statuses
        assert runs.require_sound(self.mind.identity.run_id) == asked.nodes

    def result(self) -> Result:
        """Return what the browsers waited, what they were sent, and the writer's ratio."""
        pairs = list(zip(self.beside, self.alone, strict=True))
        figures = {
            "errors": Figure(
                values=tuple(float(p.failed) for p in (*self.changing, *self.still)),
                unit="answers",
                reach=0.0,
            ),
            "changing_p99": Figure(
                values=tuple(_p99(p) for p in self.changing), unit="ms", reach=100.0
            ),
            "still_p99": Figure(
                values=tuple(_p99(p) for p in self.still), unit="ms", reach=100.0
            ),
            "still_unchanged": Figure(
                values=tuple(p.unchanged for p in self.still),
                unit="share of 304",
                reach=0.9,
                more_is_better=True,
            ),
            "writer_ratio": Figure(
                values=tuple(median(a) / median(b) for a, b in pairs),
                unit="x with nobody looking",
                reach=1.05,
            ),
            "changing_median": Figure(
                values=tuple(1_000 * median(p.seconds) for p in self.changing),
                unit="ms",
            ),
        }
        answers = sum(p.statuses.total() for p in (*self.changing, *self.still))
        return Result(
            figures=figures,
            parameters=asdict(self.parameters),
            notes=(f"{answers:,} answers",),
        )

    def teardown(self) -> None:
        """End server and browsers; the database goes with the harness."""
        if self.service is not None:
            self.service.close()


def _p99(polled: Polled) -> float:
    return 1_000 * quantiles(polled.seconds, n=100)[98]


def scenario() -> ReadersLive:
    """Return the scenario with its published parameters."""
    return ReadersLive(Parameters())
