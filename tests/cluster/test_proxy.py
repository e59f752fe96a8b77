"""The proxy: it passes everything on, and loses the answers it is told to lose."""

import psycopg
import pytest

from cluster.proxy import Link, Messages, Proxy
from tests.storage import helpers


@pytest.fixture
def through(db):
    """Open a proxy that loses what `answers` says in turn, and connect through it."""
    opened = []

    def connect(*answers):
        told = iter(answers)
        proxy = Proxy(helpers.dsn(), lambda: next(told))
        conn = psycopg.connect(proxy.dsn, autocommit=True)
        opened.append((proxy, conn))
        return proxy, conn

    yield connect
    for proxy, conn in opened:
        conn.close()
        proxy.close()


@pytest.fixture
def direct(db):
    with psycopg.connect(helpers.dsn(), autocommit=True) as conn:
        conn.execute("CREATE TABLE kept (n int)")
        yield conn
        conn.execute("DROP TABLE kept")


def kept(direct):
    return [n for (n,) in direct.execute("SELECT n FROM kept ORDER BY n")]


def test_a_commit_whose_answer_is_lost_is_done_and_reported_as_failed(through, direct):
    proxy, conn = through(True)
    with pytest.raises(psycopg.OperationalError), conn.transaction():
        conn.execute("INSERT INTO kept VALUES (1)")

    assert kept(direct) == [1]
    assert conn.broken
    assert proxy.lost == 1


def test_a_commit_that_is_not_chosen_is_answered(through, direct):
    proxy, conn = through(False, True)
    with conn.transaction():
        conn.execute("INSERT INTO kept VALUES (1)")
    with pytest.raises(psycopg.OperationalError), conn.transaction():
        conn.execute("INSERT INTO kept VALUES (2)")

    assert kept(direct) == [1, 2]
    assert proxy.lost == 1


def test_a_commit_that_the_server_refuses_is_answered_though_it_was_chosen(
    through, direct
):
    direct.execute(
        "ALTER TABLE kept ADD CONSTRAINT once UNIQUE (n) DEFERRABLE INITIALLY DEFERRED"
    )
    proxy, conn = through(True)
    with pytest.raises(psycopg.errors.UniqueViolation), conn.transaction():
        conn.execute("INSERT INTO kept VALUES (1), (1)")

    assert conn.execute("SELECT 1").fetchone() == (1,)
    assert kept(direct) == []
    assert proxy.lost == 0


def test_large_values_pass_both_ways(through):
    _, conn = through()
    value = b"x" * 8_000_000

    assert conn.execute("SELECT %s::bytea", (value,), binary=True).fetchone() == (
        value,
    )


def message(kind, body):
    return kind + (len(body) + 4).to_bytes(4) + body


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_messages_are_found_however_their_bytes_arrive(size):
    sent = [(b"Q", b"SELECT 1\0"), (b"S", b""), (b"d", b"x" * 300)]
    data = message(b"", b"start") + b"".join(message(*each) for each in sent)
    messages = Messages(begins_untyped=True)

    found = []
    for at in range(0, len(data), size):
        found += messages.read(data[at : at + size])

    assert found == [(b"", b"start"), *sent]


@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_no_byte_of_a_lost_answer_passes(size):
    link = Link(lambda: True)
    link.ask(message(b"", b"start") + message(b"Q", b"COMMIT\0"))
    answer = message(b"C", b"COMMIT\0") + message(b"Z", b"I")

    parts = [link.answer(answer[at : at + size]) for at in range(0, len(answer), size)]

    assert set(parts[:-1]) <= {b""}
    assert parts[-1] is None
