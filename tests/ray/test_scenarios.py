"""The load scenarios in a small form: each verifies by its own audit."""

from contextlib import ExitStack

import pytest

from cluster.scenarios import flood, ingest, latency, million
from tests.cluster.here import Here

pytestmark = [
    pytest.mark.ray,
    pytest.mark.deep,
    pytest.mark.django_db(transaction=True),
]


@pytest.mark.parametrize(
    "scenario",
    [
        million.Million(million.Parameters(nodes=2_000, edges=4_001, window=64)),
        ingest.Ingest(
            ingest.Parameters(nodes=500, producers=2, frames=4, events=200, rounds=1)
        ),
        latency.Latency(
            latency.Parameters(nodes=500, leaves=2, pause_s=0.8, reports=4)
        ),
        flood.Flood(
            flood.Parameters(processes=4, flood_s=2.0, held_s=1.0, nodes=100, tasks=4)
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_a_small_form_verifies_and_has_figures(ray_cluster, scenario):
    with ExitStack() as stack:
        stack.callback(scenario.teardown)
        scenario.setup(Here(stack))
        scenario.measure()
        scenario.verify()

        assert scenario.result().figures
