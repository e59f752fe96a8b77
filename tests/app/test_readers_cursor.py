"""A cursor is good for the very question it was made of, and for nothing else."""

import itertools
import random
import uuid

import msgspec
import pytest
from django.core.signing import Signer, b64_decode, b64_encode
from django.test import override_settings

from django_ray.errors import InvalidCursor, ReadError
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import DetailAvailability, NodeState
from django_ray.readers import cursor
from django_ray.readers.graph import GraphQuery
from django_ray.readers.nodes import NodesQuery
from django_ray.readers.run import Unavailable
from django_ray.readers.runs import RunsQuery
from django_ray.readers.services import nodes, runs, topology_edges, topology_nodes
from tests.app import published, stored
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(conn):
    return Published(conn, 20, 30)


def ask(run, root, **asked):
    return nodes(run.public_id, root, NodesQuery(**{"limit": 5, **asked}))


def first(run, root, **asked):
    return ask(run, root, **asked).next_cursor


def refused(run, root, text, **asked):
    with pytest.raises(InvalidCursor) as caught:
        ask(run, root, cursor=text, **asked)
    assert isinstance(caught.value, ReadError)
    return str(caught.value)


def test_a_cursor_goes_on_where_its_page_ended(run, root):
    page = ask(run, root, cursor=first(run, root))
    assert [row.ordinal for row in page.items] == [5, 6, 7, 8, 9]


def test_a_cursor_may_be_used_again(run, root):
    text = first(run, root)
    assert ask(run, root, cursor=text) == ask(run, root, cursor=text)


def test_a_cursor_says_nothing_internal_and_its_binding_is_keyed(run, root):
    text = first(run, root)
    said = said_by(text)
    assert said.run_id == run.mind.identity.run_id
    assert (said.revision, said.topology_version, said.detail_revision) == (1, 1, 1)
    assert (said.after, said.returned) == ((4,), 5)
    with override_settings(SECRET_KEY="another"):
        assert first(run, root) != text
        assert said.binding != cursor.binding(run.mind.identity, str(root.pk))


def said_by(text):
    """Return what a cursor says to anybody who looks: it is signed, not sealed."""
    payload = text.rpartition(":")[0].encode()
    return msgspec.json.decode(b64_decode(payload), type=cursor.Cursor)


@pytest.mark.parametrize(
    "change",
    [
        {"limit": 6},
        {"limit": 256},
        {"order": "newest"},
        {"stage": 0},
        {"prefix": "1"},
        {"state": (NodeState.PENDING,)},
    ],
    ids=lambda change: next(iter(change)) + str(next(iter(change.values()))),
)
def test_another_question_refuses_the_cursor(run, root, change):
    refused(run, root, first(run, root), **change)


def test_limits_above_the_cap_are_the_same_limit(conn, root):
    run = Published(conn, 300)
    text = first(run, root, limit=1_000)
    assert ask(run, root, limit=256, cursor=text).returned == 44


def test_the_order_of_states_in_a_filter_is_no_other_filter(run, root):
    text = first(run, root, state=(NodeState.PENDING, NodeState.RUNNING))
    same = (NodeState.RUNNING, NodeState.PENDING, NodeState.RUNNING)
    assert ask(run, root, state=same, cursor=text).returned == 5


def test_another_run_another_user_and_another_list_refuse_the_cursor(conn, run, root):
    text = first(run, root)
    other = Published(conn, 20, 30)
    texts = {refused(other, root, text)}
    admin = published.User.objects.create_superuser("admin")
    texts.add(refused(run, admin, text))
    for read in (topology_nodes, topology_edges):
        with pytest.raises(InvalidCursor) as caught:
            read(run.public_id, root, GraphQuery(limit=5, cursor=text))
        texts.add(str(caught.value))
    with pytest.raises(InvalidCursor) as caught:
        runs(root, RunsQuery(limit=5, cursor=text))
    assert texts == {str(caught.value)}


def test_a_retired_revision_is_expired_and_says_which(run, root):
    text = first(run, root)
    run.move([1], "RUNNING")
    found = ask(run, root, cursor=text)
    assert isinstance(found, Unavailable)
    part = found.run
    assert part.detail.availability is DetailAvailability.EXPIRED
    assert str(part.run_id) == run.mind.identity.run_id
    assert (part.revision, part.detail_revision, part.topology_version) == (1, 1, 1)


def test_a_topology_cursor_outlives_changes_of_detail(run, root):
    query = GraphQuery(limit=5)
    text = topology_nodes(run.public_id, root, query).next_cursor
    run.move([1], "RUNNING")
    found = topology_nodes(run.public_id, root, GraphQuery(limit=5, cursor=text))
    assert [row.ordinal for row in found.items] == [5, 6, 7, 8, 9]


def test_a_retry_expires_the_cursor_of_the_run_before(run, root):
    text = first(run, root)
    run.retry()
    part = ask(run, root, cursor=text).run
    assert part.detail.availability is DetailAvailability.EXPIRED
    assert (part.attempt, str(part.run_id)) == (1, run.mind.identity.run_id)
    # Of that attempt it is good still.
    assert ask(run, root, attempt=1, cursor=text).returned == 5


def test_before_the_first_claim_every_cursor_is_refused(run, root):
    text = first(run, root)
    queued = stored.make_row(state="QUEUED", run_id=None, attempt_number=0)
    with pytest.raises(InvalidCursor):
        nodes(queued.public_id, root, NodesQuery(limit=5, cursor=text))


def test_a_key_that_may_still_be_used_opens_what_it_signed(run, root):
    text = first(run, root)
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["tests-only"]):
        page = ask(run, root, cursor=text)
        assert [row.ordinal for row in page.items] == [5, 6, 7, 8, 9]
        fresh = page.next_cursor
    with override_settings(SECRET_KEY="new"):
        refused(run, root, text)
        assert ask(run, root, cursor=fresh).returned == 5


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 0},
        {"schema": 2},
        {"binding": "0" * 64},
        {"binding": ""},
        {"run_id": str(uuid.UUID(int=1))},
        {"run_id": "no uuid"},
        {"query": "0" * 64},
        {"after": ()},
        {"after": (1, 2, 3, 4)},
        {"after": (-1,)},
        {"returned": -1},
    ],
    ids=str,
)
def test_a_signed_cursor_of_another_shape_or_binding_is_refused(run, root, change):
    said = said_by(first(run, root))
    changed = msgspec.structs.replace(said, **change)
    refused(run, root, signed(canonical.encode(changed)))


@pytest.mark.parametrize("payload", [b"", b"null", b"{}", b"[]", b"\xff", b"[1" * 500])
def test_signed_bytes_that_are_no_cursor_are_refused(run, root, payload):
    refused(run, root, signed(payload))


def signed(payload):
    return Signer(salt=cursor.SALT).sign(b64_encode(payload).decode())


@pytest.mark.parametrize("size", [V1.cursor - 1, V1.cursor, V1.cursor + 1, 65_536])
def test_a_text_of_any_size_is_refused(run, root, size):
    refused(run, root, "a" * size)
    refused(run, root, signed(b"a" * size))


def test_no_cursor_is_larger_than_its_limit(run, root):
    worst = cursor.Cursor(
        schema=1,
        binding="f" * 64,
        run_id=str(uuid.UUID(int=2**128 - 1)),
        revision=2**63 - 1,
        topology_version=2**63 - 1,
        detail_revision=2**63 - 1,
        query="f" * 64,
        after=(2**63 - 1,) * 3,
        returned=2**63 - 1,
    )
    assert len(cursor.sign(worst)) <= V1.cursor


def manipulations(text, other):
    """Yield every bit flipped, every cut, joins, and texts of chance."""
    data = text.encode()
    for place, bit in itertools.product(range(len(data)), range(8)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        yield flipped.decode("utf-8", "surrogateescape")
    for place in range(len(text)):
        yield text[:place]
        yield text[place + 1 :]
        yield text[:place] + text[place + 1 :]
        yield text[:place] + other[place:] if other[place:] != text[place:] else ""
    yield text + text
    yield f"{text}:{other}"
    yield from (f"{text} ", f" {text}", f"{text}=", f"{text}\x00", f"{text}\n")
    chance = random.Random(7)
    while True:
        size = chance.choice((1, 10, len(text), 2_000, 65_536))
        letters = chance.choices(text + "\x00\ud800é", k=size)
        yield "".join(letters)


def attack(run, root, count):
    text, other = first(run, root), first(run, root, limit=6)
    said = set()
    tried = 0
    for forged in itertools.islice(manipulations(text, other), count):
        if forged == text:
            continue
        said.add(refused(run, root, forged))
        tried += 1
    assert len(said) == 1
    return tried


def test_forged_cursors_get_one_fixed_refusal(run, root):
    assert attack(run, root, 400) > 350


@pytest.mark.deep
def test_ten_thousand_forged_cursors_get_one_fixed_refusal(run, root):
    assert attack(run, root, 10_200) >= 10_000
