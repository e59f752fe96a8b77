import pytest

from django_ray.protocol.vocabulary import NodeState
from django_ray.readers.changes import BEFORE_ALL, ChangesQuery
from django_ray.readers.services import changes
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


class Follower:
    """A client as the rule of `changes` describes him, and nothing else."""

    def __init__(self, run, root, limit=256):
        self.run, self.root, self.limit = run, root, limit
        self.following = {"since": 0, "after": BEFORE_ALL, "began": None}
        self.rows = {}

    def ask(self):
        query = ChangesQuery(limit=self.limit, **self.following)
        answer = changes(self.run.public_id, self.root, query)
        for row in answer.items:
            known = self.rows.get(row.ordinal)
            if known is None or known.detail_revision <= row.detail_revision:
                self.rows[row.ordinal] = row
        self.following = {
            "since": answer.next.since,
            "after": answer.next.after,
            "began": answer.next.began,
        }
        return answer

    def round(self):
        while self.ask().more:
            pass

    @property
    def states(self):
        return {ordinal: row.state.value for ordinal, row in self.rows.items()}


@pytest.fixture
def run(conn):
    return Published(conn, 600)


def test_since_0_everything_is_loaded(run, root):
    client = Follower(run, root)
    answers = [client.ask(), client.ask(), client.ask()]
    assert [answer.more for answer in answers] == [True, True, False]
    assert [answer.returned for answer in answers] == [256, 256, 88]
    assert client.states == dict.fromkeys(range(600), "PENDING")


def test_afterwards_only_what_changed_is_told(run, root):
    client = Follower(run, root)
    client.round()
    run.move([5, 400], "RUNNING")
    answer = client.ask()
    assert [row.ordinal for row in answer.items] == [5, 400]
    assert not answer.more
    assert client.ask().items == ()


def test_what_changes_behind_a_round_is_told_by_the_next(run, root):
    client = Follower(run, root)
    client.ask()
    run.move([5], "RUNNING")
    client.round()
    assert client.states[5] == "PENDING"
    client.round()
    assert client.states[5] == "RUNNING"


def test_a_client_that_asks_in_any_rhythm_ends_with_what_is_stored(run, root):
    client = Follower(run, root, limit=50)
    wanted = dict.fromkeys(range(600), "PENDING")
    for step in range(30):
        moved = range(step * 20, step * 20 + 20)
        state = "FAILED" if step % 3 else "SUCCEEDED"
        run.move(moved, state)
        wanted.update(dict.fromkeys(moved, state))
        client.ask()
    client.round()
    client.round()
    assert client.states == wanted


def test_a_revision_ahead_of_the_run_gets_nothing_and_the_run_to_see_why(run, root):
    answer = changes(run.public_id, root, ChangesQuery(since=10**6))
    assert (answer.items, answer.more) == ((), False)
    assert answer.next.since == answer.run.detail_revision == 1
    assert str(answer.run.run_id) == run.mind.identity.run_id


def test_a_row_says_everything_of_its_node(run, root):
    run.move([7], "FAILED", kind="ValueError", text="no")
    (row,) = changes(run.public_id, root, ChangesQuery(since=1)).items
    assert (row.ordinal, row.id, row.state) == (7, run.nodes[7].id, NodeState.FAILED)
    assert (row.detail.error.kind, row.detail.error.text) == ("ValueError", "no")
    assert row.detail.host == "h1"
