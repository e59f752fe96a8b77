"""Every reachable state, under every order of the deadlines: the walk of the proof.

A deadline matters in two ways only: whether it is earlier than `outer`, and whether it has
passed when it is looked at. So the walk decides neither before the reducer looks. A `Node`
is a state whose times and tokens are made canonical, with what was decided so far and can
be looked at again; whenever the reducer comes to need a decision, it is taken each way.
Together that is what all orders of the seven deadlines and the clock would give.
"""

from collections import deque
from dataclasses import dataclass, replace
from functools import cache

from django_ray.lifecycle import events
from django_ray.lifecycle.actions import ISSUES
from django_ray.lifecycle.callbacks import ANSWERS
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import Transition
from django_ray.lifecycle.shape import is_known
from django_ray.lifecycle.state import seal
from django_ray.lifecycle.terms import (
    INVOCATION_STAGES,
    SESSION_STAGES,
    InvocationDeadlines,
    LifecycleDeadlines,
)
from django_ray.lifecycle.vocabulary import (
    ActionKind,
    CallbackKind,
    CommandKind,
    InvocationState,
    RejectionCode,
    SessionState,
)
from tests.lifecycle.entries import applied_rows
from tests.lifecycle.making import session

IDS = ("first", "second")
BEFORE, NOW = 1_000, 2_000
"""The time of a node, and of every event that comes to it."""
OUTER_OPEN, OUTER_PASSED = 5_000, 500

LATER = "not earlier than outer"
EARLIER = "earlier than outer, not passed"
PASSED = "earlier than outer, passed"

type Stage = tuple[str, bool]
"""A deadline's name, and whether it is the invocation's own."""

CANONICAL = LifecycleDeadlines(**dict.fromkeys(SESSION_STAGES, 0))
CANONICAL_OWN = InvocationDeadlines(**dict.fromkeys(INVOCATION_STAGES, 0))


@dataclass(frozen=True, slots=True)
class Node:
    """A canonical state, whether `outer` has passed, and the stages decided on."""

    state: object
    outer_passed: bool
    stages: frozenset[tuple[Stage, str]]


@dataclass(frozen=True, slots=True)
class Edge:
    """One accepted event, with the concrete state it met."""

    source: Node
    before: object
    event: object
    transition: Transition
    target: Node

    @property
    def after(self):
        return self.transition.state

    @property
    def late(self):
        return self.event.observed_at >= self.before.deadlines.outer


@dataclass(frozen=True, slots=True)
class Universe:
    """What the walk found; the first node is NEW. `entries` are the rows that
    were applied, `rejections` the codes of the events that were not accepted."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    entries: frozenset[str]
    rejections: frozenset[str]


@cache
def universe():
    """Walk once a process, all lists of cleanup codes as one: no transition reads them."""
    edges, rejections = [], set()
    with applied_rows() as entries:
        nodes = walk(edges.append, rejections.add)
    return Universe(nodes, tuple(edges), frozenset(entries), frozenset(rejections))


def walk(visit, refuse, *, codes=False, ids=IDS, counts=(1, 2)):
    """Visit every edge, tell every code of refusal; return every node.

    `codes` tells lists of cleanup codes apart; `ids` are the invocations that are admitted,
    each with any of the `counts` of outputs.
    """
    start = canonical(session(), False, {}, codes)
    seen, queue = {start: start}, deque([start])
    while queue:
        node = queue.popleft()
        concrete.cache_clear()
        for maker in makers(node.state, ids, counts):
            for fields in answers(node, maker, codes):
                if isinstance(fields, RejectionCode):
                    refuse(fields)
                    continue
                source, before, event, result, target = fields
                if target not in seen:
                    seen[target] = target
                    queue.append(target)
                visit(Edge(source, before, event, result, seen[target]))
    return tuple(seen)


def makers(state, ids, counts):
    """Return makers of all events that `state` accepts at some time."""
    made = [
        lambda s, _, kind=kind: events.command(s, kind, NOW)
        for kind in CommandKind
        if kind.name not in ("ADMISSION_REQUESTED", "CONSUMPTION_REQUESTED")
    ]
    number = 0 if state.last_invocation is None else state.last_invocation.number
    if number < len(ids):
        made += [
            lambda s, own, outputs=outputs: events.admission(
                s, NOW, invocation_id=ids[number], outputs=outputs, deadlines=own
            )
            for outputs in counts
        ]
    made += [
        lambda s, _, output=output: events.consumption(s, NOW, output=output)
        for output in range(max(counts))
    ]
    if state.pending is not None:
        kinds = (*ANSWERS[state.pending.kind], CallbackKind.DEADLINE_EXPIRED)
        proving = (CallbackKind.CHANNEL_ERROR, CallbackKind.SUBMISSION_TIMED_OUT)
        made += [
            lambda s, _, kind=kind, proof=proof: events.answer(
                s.pending, kind, NOW, not_started=proof
            )
            for kind in kinds
            for proof in ((False, True) if kind in proving else (False,))
        ]
    return made


def answers(node, maker, codes):
    """Yield the fields of an edge, or a code, for every way in which the event goes."""
    for outer_passed in (True,) if node.outer_passed else (False, True):
        known = dict(node.stages)
        pending = node.state.pending
        stage = None if pending is None else stage_of(pending.kind)
        if stage in known:
            undecided = [
                (known | {stage: choice}, {stage})
                for choice in choices(known[stage], outer_passed)
            ]
        else:
            undecided = [(known, set())]
        while undecided:
            stages, decided = undecided.pop()
            before, own = concrete(node, outer_passed, frozenset(stages.items()))
            event = maker(before, own)
            result = reduce_lifecycle(before, event)
            if not isinstance(result, Transition):
                yield result.code
                continue
            stage = None if result.action is None else stage_of(result.action.kind)
            if stage is not None and stage not in decided:
                undecided += [
                    (stages | {stage: choice}, decided | {stage})
                    for choice in choices(stages.get(stage), outer_passed)
                ]
                continue
            target = canonical(result.state, outer_passed, stages, codes)
            yield node, before, event, result, target


def stage_of(kind):
    """Return the deadline of an action; None where it is `outer` itself."""
    issue = ISSUES[kind]
    return None if issue.stage == "outer" else (issue.stage, issue.own)


def choices(status, outer_passed):
    """Return what may be decided of a stage, given what was decided before."""
    if status is None:
        return (LATER, PASSED) if outer_passed else (LATER, EARLIER, PASSED)
    if status == EARLIER:
        return (PASSED,) if outer_passed else (EARLIER, PASSED)
    return (status,)


@cache
def concrete(node, outer_passed, decided):
    """Return the node's state, and own deadlines, with times that say what was decided.

    The reducer would examine this state whole at every event: it is examined here once.
    """
    stages = dict(decided)
    outer = OUTER_OPEN
    if outer_passed:
        outer = OUTER_PASSED if node.outer_passed else NOW

    def time(stage):
        return {
            None: outer + 1,
            LATER: outer + (0 if stage[1] else 1),
            EARLIER: NOW + 1,
            PASSED: min(NOW, outer - 1),
        }[stages.get(stage)]

    shared = {name: time((name, False)) for name in SESSION_STAGES}
    deadlines = LifecycleDeadlines(**shared | {"outer": outer})
    own = InvocationDeadlines(
        **{name: time((name, True)) for name in INVOCATION_STAGES}
    )
    state, invocation, pending = node.state, node.state.invocation, node.state.pending
    if state.in_progress is not None:
        invocation = replace(invocation, deadlines=own)
    if pending is not None:
        stage = stage_of(pending.kind)
        limit = outer if stage is None else min(outer, time(stage))
        pending = replace(pending, deadline=limit)
    known = replace(state, deadlines=deadlines, invocation=invocation, pending=pending)
    assert is_known(known), known
    return seal(known), own


def canonical(state, outer_passed, stages, codes):
    """Return the node of a state: no times, three tokens, only what still matters."""
    issued = 5 if state.issued else 0
    completed, pending, invocation = state.completed, state.pending, state.invocation
    if completed is not None:
        completed = 5 if completed == state.issued else 4
    if pending is not None:
        pending = replace(pending, token=5, deadline=0)
    if invocation is not None:
        invocation = replace(invocation, deadlines=CANONICAL_OWN)
    matter = mattering(state)
    return Node(
        replace(
            state,
            deadlines=CANONICAL,
            invocation=invocation,
            pending=pending,
            issued=issued,
            completed=completed,
            cleanup=state.cleanup if codes else (),
            observed_at=BEFORE,
        ),
        outer_passed,
        frozenset(
            (stage, status) for stage, status in stages.items() if stage in matter
        ),
    )


OWN_STAGES = {
    InvocationState.ADMITTING: "admission",
    InvocationState.SUBMITTING: "submission",
    InvocationState.RUNNING: "result",
    InvocationState.CONSUMING: "result",
    InvocationState.CANCELLING: "cancellation",
    InvocationState.DRAINING: "drain",
    InvocationState.CHECKING_HEALTH: "drain",
}


def mattering(state):
    """Return the stages that were looked at and can be looked at again."""
    matter = set()
    if state.state not in (SessionState.TORN_DOWN, SessionState.REJECTED):
        matter.add(("teardown", False))
    pending = state.pending
    if pending is not None and pending.kind is ActionKind.DRAIN_SESSION:
        matter.add(("drain", False))
    invocation = state.in_progress
    tearing = pending is not None and pending.kind is ActionKind.TEARDOWN
    if invocation is not None and not tearing:
        matter.add((OWN_STAGES.get(invocation.state), True))
    return matter
