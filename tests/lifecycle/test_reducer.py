"""The proof: every invariant of contract 5 in every reachable state, every row applied."""

from collections import defaultdict

import pytest

from django_ray.lifecycle.events import Callback, Command
from django_ray.lifecycle.shape import SHAPES
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.vocabulary import (
    OPEN_OUTPUTS,
    REUSE_SAFE_OUTPUTS,
    ActionKind,
    CallbackKind,
    CommandKind,
    EffectState,
    GraphDisposition,
    InvocationState,
    OutputState,
    SessionState,
)
from tests.lifecycle.entries import all_entries
from tests.lifecycle.universe import universe, walk

pytestmark = pytest.mark.xdist_group("lifecycle universe")

NEW_WORK = {
    ActionKind.VALIDATE,
    ActionKind.PREPARE,
    ActionKind.ADMIT,
    ActionKind.SUBMIT,
    ActionKind.CONSUME_OUTPUT,
}
ENDS = {SessionState.REJECTED, SessionState.TORN_DOWN, SessionState.QUARANTINED}


@pytest.fixture(scope="module")
def nodes():
    return universe().nodes


@pytest.fixture(scope="module")
def edges():
    return universe().edges


@pytest.fixture(scope="module")
def within(edges):
    """Return the edges that stay within one invocation, or before the first."""
    return [edge for edge in edges if number(edge.before) == number(edge.after)]


def number(state):
    return None if state.invocation is None else state.invocation.number


def outputs(state):
    return () if state.invocation is None else state.invocation.outputs


def shape(state):
    return (
        state.state,
        InvocationState.NONE if state.invocation is None else state.invocation.state,
        None if state.pending is None else state.pending.kind,
    )


def test_the_walk_reaches_every_state_there_is(nodes, edges, capsys):
    states = {node.state for node in nodes}
    with capsys.disabled():
        print(
            f"\nlifecycle: {len(states):,} reachable states, {len(nodes):,} with their "
            f"deadlines, {len(edges):,} transitions"
        )
    assert {state.state for state in states} == set(SessionState)
    phases = {state.invocation.state for state in states if state.invocation}
    assert phases == set(InvocationState) - {InvocationState.NONE}
    assert {slot for state in states for slot in outputs(state)} == set(OutputState)


def test_every_row_of_every_table_is_applied():
    assert all_entries() - universe().entries == set()


def test_the_table_of_shapes_is_what_is_reachable_and_nothing_else(nodes):
    facts = defaultdict(lambda: (set(), set(), set(), set()))
    for node in nodes:
        graphs, effects, outcomes, slots = facts[shape(node.state)]
        graphs.add(node.state.graph)
        effects.add(node.state.effect)
        outcomes.add(node.state.outcome is not None)
        slots.update(outputs(node.state))
    assert facts.keys() == SHAPES.keys()
    for key, (graphs, effects, outcomes, slots) in facts.items():
        expected = (
            {True, False} if SHAPES[key].outcome is None else {SHAPES[key].outcome}
        )
        assert (graphs, effects, outcomes, slots) == (
            SHAPES[key].graphs,
            SHAPES[key].effects,
            expected,
            SHAPES[key].outputs,
        ), key


def test_fallback_is_allowed_only_before_prepare_was_issued(edges):
    for edge in edges:
        prepares = edge.event.kind is CommandKind.PREPARATION_REQUESTED
        assert not edge.after.fallback_open or (
            edge.before.fallback_open
            and not prepares
            and edge.after.graph is GraphDisposition.UNPREPARED
            and edge.after.state is not SessionState.PREPARING
        )
    assert any(
        edge.event.kind is CallbackKind.VALIDATION_REJECTED and edge.after.fallback_open
        for edge in edges
    )


def test_effects_may_have_started_from_the_moment_submit_was_issued(within):
    for edge in within:
        submits = edge.event.kind is CommandKind.SUBMISSION_REQUESTED and not edge.late
        started = edge.before.effect is EffectState.MAY_HAVE_STARTED or submits
        assert (edge.after.effect is EffectState.MAY_HAVE_STARTED) == started


def test_no_output_leaves_a_terminal_state(within):
    for edge in within:
        for before, after in zip(
            outputs(edge.before), outputs(edge.after), strict=False
        ):
            assert before in OPEN_OUTPUTS or after is before


def test_at_most_one_action_is_pending(edges):
    for edge in edges:
        pending, issued = edge.after.pending, edge.transition.action
        assert issued is None or issued is pending
        if edge.before.pending is not None and pending is not edge.before.pending:
            superseded = edge.after.completed == edge.before.completed
            assert superseded or edge.after.completed >= edge.before.pending.token
            assert not (superseded and isinstance(edge.event, Callback))


def test_a_token_is_used_once(edges):
    for edge in edges:
        assert edge.after.issued >= edge.before.issued
        if edge.transition.action is not None:
            assert edge.transition.action.token == edge.after.issued
            assert edge.after.issued > edge.before.issued
        if edge.after.completed != edge.before.completed:
            assert edge.after.completed > (edge.before.completed or 0)


def test_a_primary_outcome_once_set_is_never_replaced_within_its_invocation(within):
    for edge in within:
        if edge.before.outcome is not None:
            assert edge.after.outcome is edge.before.outcome


def test_reusable_implies_all_slots_reuse_safe_and_a_positive_health_check(edges):
    for edge in edges:
        if edge.after.graph is GraphDisposition.REUSABLE:
            assert REUSE_SAFE_OUTPUTS.issuperset(outputs(edge.after))
            assert (
                edge.before.graph is GraphDisposition.REUSABLE
                or edge.event.kind is CallbackKind.HEALTHY
            )


def test_after_the_outer_deadline_or_a_cancellation_no_new_work_is_issued(edges):
    for edge in edges:
        stopped = edge.late or not edge.before.admission_open
        cancels = edge.event.kind is CommandKind.CANCELLATION_REQUESTED
        if (stopped or cancels) and edge.transition.action is not None:
            assert edge.transition.action.kind not in NEW_WORK
        if edge.late or cancels:
            assert not edge.after.admission_open
        assert edge.before.admission_open or not edge.after.admission_open


def test_every_sequence_of_callbacks_ends_with_no_pending_action(nodes, edges):
    answers = defaultdict(set)
    for edge in edges:
        if isinstance(edge.event, Callback):
            answers[edge.source].add(edge.target)
    finished, path = set(), set()
    stack = [(node, False) for node in nodes]
    while stack:
        node, left = stack.pop()
        if left:
            path.discard(node)
            finished.add(node)
        elif node not in finished:
            assert node not in path, "callbacks can go in a circle"
            assert (node.state.pending is None) == (not answers[node])
            path.add(node)
            stack.append((node, True))
            stack += [(after, False) for after in answers[node] - finished]


def test_some_sequence_ends_the_session_with_every_declared_output_terminal(
    nodes, edges
):
    sources = defaultdict(set)
    for edge in edges:
        sources[edge.target].add(edge.source)
    ending = {
        node
        for node in nodes
        if node.state.state in ENDS and not OPEN_OUTPUTS & set(outputs(node.state))
    }
    queue = list(ending)
    while queue:
        for source in sources[queue.pop()] - ending:
            ending.add(source)
            queue.append(source)
    assert ending == set(nodes)


def test_a_terminal_invocation_has_an_outcome_and_no_open_output(nodes):
    for node in nodes:
        invocation = node.state.invocation
        if invocation is not None and invocation.state is InvocationState.TERMINAL:
            assert node.state.outcome is not None
            assert not OPEN_OUTPUTS & set(invocation.outputs)


def test_snapshots_of_all_reachable_states_stay_within_16384_bytes(nodes):
    for state in {node.state for node in nodes}:
        assert len(lifecycle_snapshot(state)) <= 16_384


def test_an_interrupting_command_never_dispatches_past_a_pending_action(edges):
    for edge in edges:
        if isinstance(edge.event, Command) and edge.before.pending is not None:
            assert edge.event.kind in (
                CommandKind.CANCELLATION_REQUESTED,
                CommandKind.OWNER_LOST,
                CommandKind.OUTER_DEADLINE_EXPIRED,
            )


@pytest.mark.deep
def test_with_every_list_of_cleanup_codes_the_invariants_of_codes_hold(capsys):
    count = 0

    def visit(edge):
        nonlocal count
        count += 1
        before, after = edge.before.cleanup, edge.after.cleanup
        assert len(after) <= 8
        if number(edge.before) == number(edge.after):
            assert after[: len(before)] == before or (
                len(before) == 8 and after[:7] == before[:7]
            )

    nodes = walk(visit, set().add, codes=True, ids=("first",), counts=(1,))
    with capsys.disabled():
        print(f"\nlifecycle: {len(nodes):,} states with codes, {count:,} transitions")
