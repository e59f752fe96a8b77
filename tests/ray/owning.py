"""An owner inside the tests' own process, with a real engine."""

import itertools
import threading
import uuid
from contextlib import contextmanager

import ray

from actors import clock, compiled_internals
from actors.compiled_graph import CompiledGraphAdapter, Terms
from actors.owner import Owner, OwnerTerms
from django_ray.lifecycle import budgets
from django_ray.lifecycle.budgets import Deadlines
from tests.fakes import IDENTITY
from tests.ray.conftest import wait_until

NEVER_S = 3_600.0


class Diary:
    """Keeps what an owner reports."""

    def __init__(self):
        self.states = []
        self.began_ = []
        self.ended_ = []

    def moved(self, state):
        self.states.append(state)

    def began(self, number, at_ms):
        self.began_.append(number)

    def ended(self, states, at_ms, error):
        self.ended_.append(states)


class Shop:
    """An owner with its news, and the adapters it has made."""

    def __init__(self, build, *, outputs, deadlines, idle_s, buffer_bytes):
        self.news = Diary()
        self.made = []
        self.clock = clock.steady()
        numbers = itertools.count(1)

        def engine(like):
            terms = Terms(
                build,
                outputs,
                like,
                buffer_bytes=buffer_bytes,
                teardown_s=deadlines.teardown,
            )
            self.made.append(CompiledGraphAdapter(terms, self.clock))
            return self.made[-1]

        self.owner = Owner(
            OwnerTerms(
                run=IDENTITY,
                graph_key="graph",
                outputs=outputs,
                budgets=deadlines,
                outer_ms=budgets.outer(deadlines, self.clock()),
                idle_s=idle_s,
            ),
            engine,
            clock=self.clock,
            identify=lambda: f"id-{next(numbers)}",
            news=self.news,
        )

    def invoke(self, value):
        return self.owner.invoke(value, uuid.uuid4().hex)

    @property
    def state(self):
        return self.owner.state

    def facts(self):
        """The five facts that stay apart, and the session's state."""
        state = self.state
        return (
            state.state,
            state.outcome,
            state.effect,
            state.graph,
            state.retry,
            state.cleanup,
        )

    def actors(self):
        """The participants' ids, of the session that is prepared."""
        bound = self.made[-1]._bound
        return () if bound is None else bound.actors

    def kill(self, index):
        """Kill the process of one participant, and wait until Ray's monitor knows."""
        graph = self.made[-1]._graph
        ray.kill(self.actors()[index], no_restart=True)
        wait_until(lambda: not compiled_internals.is_live(graph))


@contextmanager
def owning(build, *, outputs=1, deadlines=None, idle_s=NEVER_S, buffer_bytes=1_000_000):
    """A prepared owner; in the end nothing of it is left, however the test went."""
    before = living()
    shop = Shop(
        build,
        outputs=outputs,
        deadlines=deadlines or Deadlines(),
        idle_s=idle_s,
        buffer_bytes=buffer_bytes,
    )
    try:
        shop.prepared = shop.owner.prepare()
        yield shop
    finally:
        shop.owner.close()
    wait_until(lambda: not living() - before, 20)
    assert not [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("CompiledGraph") or thread.name == "compiled-teardown"
    ]


def living():
    """The ids of the actors of this job that are not dead."""
    listed = ray._private.state.actors()
    mine = ray.get_runtime_context().get_job_id()
    return {
        key
        for key, actor in listed.items()
        if actor["State"] != "DEAD" and actor["JobID"] == mine
    }
