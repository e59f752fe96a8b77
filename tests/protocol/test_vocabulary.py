import enum

import pytest

from django_ray.protocol import vocabulary

# Contract 3, spelled and ordered as there.
CONTRACT = {
    "NodeState": "PENDING SUBMITTED RUNNING SUCCEEDED FAILED CANCELLED SKIPPED",
    "ExecutionState": "QUEUED CLAIMED RUNNING RETRY_WAIT RECONCILE SUCCEEDED FAILED "
    "CANCELLED TIMED_OUT LOST",
    "WorkflowState": "RUNNING SUCCEEDED FAILED CANCELLED TIMED_OUT LOST",
    "DetailAvailability": "NOT_REPORTED AVAILABLE TRUNCATED OMITTED_BY_POLICY DISABLED "
    "EXPIRED MISSING CORRUPT",
    "TruncationReason": "node_count_limit edge_count_limit record_size_limit "
    "topology_size_limit detail_size_limit run_size_limit terminal_state_unreported",
    "ReportingPolicy": "full summary terminal_only disabled",
    "ExecutionStrategy": "dynamic compiled_graph",
    "SelectionPolicy": "dynamic compiled_graph automatic",
    "Effects": "read_only declared",
}


@pytest.mark.parametrize("name", CONTRACT)
def test_a_vocabulary_is_the_contract_s(name):
    members = getattr(vocabulary, name).__members__
    assert [member.value for member in members.values()] == CONTRACT[name].split()
    assert list(members) == CONTRACT[name].split()


def test_every_vocabulary_is_in_the_table():
    found = {
        name
        for name, kind in vars(vocabulary).items()
        if isinstance(kind, type)
        and issubclass(kind, enum.StrEnum)
        and kind is not enum.StrEnum
    }
    assert found == set(CONTRACT)


def test_the_ended_states_are_ended():
    assert {
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "SKIPPED",
    } == vocabulary.TERMINAL_NODE_STATES
    assert {
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "TIMED_OUT",
        "LOST",
    } == vocabulary.TERMINAL_EXECUTION_STATES


def test_a_states_code_is_its_place_and_all_ends_have_one_rank():
    assert [vocabulary.CODES[state] for state in vocabulary.NODE_STATES] == [*range(7)]
    assert [vocabulary.RANKS[state] for state in vocabulary.NODE_STATES] == [
        *(0, 1, 2),
        *(3, 3, 3, 3),
    ]
