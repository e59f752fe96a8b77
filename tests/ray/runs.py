"""A run inside the tests' own process, and what its coordinator reports."""

import gc
import logging
import uuid
from contextlib import contextmanager

from actors.coordinator import Coordinator, activate
from django_ray.identity import RunIdentity
from django_ray.protocol import frames
from django_ray.protocol.limits import V1
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.vocabulary import (
    TERMINAL_NODE_STATES,
    NodeState,
    ReportingPolicy,
    SelectionPolicy,
)
from tests.fakes import FakeClock

WINDOW = 8


class Recorder:
    """Keeps all that a coordinator reports, and what the latest of it comes to."""

    def __init__(self, settles=True):
        self.declared = {}
        self.nodes = []
        self.states = []
        self.reports = []
        self.previews = []
        self.tasks = {}
        self.sessions = []
        self.ended = None
        self.waited_s = None
        self._settles = settles

    def declare(self, call, number):
        self.declared[call] = number

    def node(self, node):
        assert node.ordinal == len(self.nodes)
        self.nodes.append(node)

    def state(self, state):
        self.states.append(state)

    def task(self, ordinal, task_id):
        self.tasks[ordinal] = task_id

    def progress(self, progress):
        self.reports.append(progress)

    def preview(self, preview):
        self.previews.append(preview)

    def session(self, session):
        self.sessions.append(session)

    def end(self, end):
        self.ended = end

    def settle(self, timeout_s):
        self.waited_s = timeout_s
        return self._settles

    @property
    def ids(self):
        return [node.id for node in self.nodes]

    @property
    def latest(self):
        """The last state of each node, by id; a node without one is PENDING."""
        ids = self.ids
        latest = dict.fromkeys(ids, NodeState.PENDING)
        latest.update((ids[said.ordinal], said.state) for said in self.states)
        return latest

    @property
    def edges(self):
        """Pairs of ids, source before target."""
        return {
            (self.ids[first + step], node.id)
            for node in self.nodes
            for first, count in zip(
                node.dependencies[::2], node.dependencies[1::2], strict=True
            )
            for step in range(count)
        }

    def told(self, node_id, state):
        """The record by which a node came into a state."""
        ordinal = self.ids.index(node_id)
        (record,) = [
            said
            for said in self.states
            if said.ordinal == ordinal and said.state is state
        ]
        return record

    def count(self, state):
        return list(self.latest.values()).count(state)

    def require_exact(self):
        """Every node is submitted at most once and ends exactly once, in that order."""
        for node in self.nodes:
            said = [
                state.state for state in self.states if state.ordinal == node.ordinal
            ]
            assert said[:-1] in ([], [NodeState.SUBMITTED]), (node.id, said)
            assert said[-1] in TERMINAL_NODE_STATES, (node.id, said)


def settings(
    redact=(),
    run_id=None,
    policy=ReportingPolicy.full,
    limits=V1,
    strategy=SelectionPolicy.dynamic,
):
    return RunSettings(
        identity=RunIdentity(
            task_execution_pk=1,
            attempt_number=1,
            execution_generation=1,
            run_id=run_id or str(uuid.uuid4()),
        ),
        policy=policy,
        strategy=strategy,
        plan_fingerprint="0" * 64,
        started_at_ms=0,
        retention_days=7,
        limits=limits,
        redact=redact,
    )


def coordinator(recorder, *, max_in_flight=WINDOW, told=None):
    return Coordinator(
        told or settings(), recorder, max_in_flight=max_in_flight, clock=FakeClock()
    )


@contextmanager
def observed(*, max_in_flight=WINDOW, told=None, recorder=None):
    """A current run that reports to a recorder; it is exact when it has ended well."""
    recorder = recorder or Recorder()
    made = coordinator(recorder, max_in_flight=max_in_flight, told=told)
    with activate(made):
        yield recorder
    assert made.end("SUCCEEDED", None)
    assert isinstance(recorder.ended, frames.End)
    recorder.require_exact()


@contextmanager
def disabled():
    """A current run under the policy `disabled`: checked, not wrapped, not reported."""
    made = coordinator(None)
    with activate(made):
        yield made
    assert made.end("SUCCEEDED", None)


@contextmanager
def ray_log():
    """What Ray logs in this process meanwhile, as a list."""
    # What an earlier test left to the garbage is told now, and not in the list.
    gc.collect()
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("ray._private.worker")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
