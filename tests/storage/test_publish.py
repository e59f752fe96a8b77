"""Publication: visible in full or not at all, whatever races or dies."""

from dataclasses import replace
from threading import Event

import psycopg
import pytest

from django_ray.errors import StorageUnavailable
from django_ray.progress.delta import Fenced, Moved, Published, Revisions
from django_ray.protocol import summary
from django_ray.protocol.limits import V1
from django_ray.storage.load import begin
from django_ray.storage.publish import publish
from tests.storage import helpers
from tests.storage.helpers import (
    COMMIT,
    Book,
    await_blocked,
    hook,
    picture,
    refused,
    rollup,
    round_trips,
)

STALE = {
    "task_execution_pk": "DELETE FROM django_ray_execution WHERE id = %s",
    "attempt_number": "UPDATE django_ray_execution SET attempt_number = 9 WHERE id = %s",
    "execution_generation": "UPDATE django_ray_execution"
    " SET execution_generation = 9 WHERE id = %s",
    "run_id": "UPDATE django_ray_execution SET run_id = gen_random_uuid() WHERE id = %s",
    "lost": "UPDATE django_ray_execution SET state = 'LOST' WHERE id = %s",
    "reconcile": "UPDATE django_ray_execution SET state = 'RECONCILE' WHERE id = %s",
    "claimed": "UPDATE django_ray_execution SET state = 'CLAIMED' WHERE id = %s",
}


def totals(admin):
    return admin.execute(
        "SELECT r.detail_rows, r.detail_bytes, count(d), "
        "coalesce(sum(octet_length(d.record)), 0) FROM django_ray_run AS r "
        "LEFT JOIN django_ray_node_detail AS d ON d.run_id = r.id GROUP BY r.id"
    ).fetchone()


# What a reader sees


def test_a_publication_makes_rows_totals_topology_and_summary_visible(conn, admin):
    book = Book.open(conn)
    rolled = rollup((300, 0, 0, 0, 0, 0, 0))
    first = book.growth(conn, 300, stages=rolled, events=b"[]", session=b"{}")
    outcome = book.commit(conn, first)
    rows, size, counted, summed = totals(admin)
    assert (outcome.rows, outcome.bytes) == (rows, size) == (counted, summed)
    assert rows == 300
    stored = admin.execute("SELECT progress_summary FROM django_ray_execution")
    assert stored.fetchone()[0] == first.summary
    extras = admin.execute(
        "SELECT s.body, r.events, r.session FROM django_ray_run AS r "
        "JOIN django_ray_stages AS s ON s.run_id = r.id"
    ).fetchone()
    assert extras == (rolled, b"[]", b"{}")


def test_an_unchanged_extra_stays_as_it_was(conn, admin):
    book = Book.open(conn)
    book.commit(conn, book.publication(stages=rollup(), events=b"[]", session=b"[2]"))
    book.commit(conn, book.publication())
    extras = admin.execute(
        "SELECT s.body, r.events, r.session, r.expires_at FROM django_ray_run AS r "
        "JOIN django_ray_stages AS s ON s.run_id = r.id"
    ).fetchone()
    assert extras == (rollup(), b"[]", b"[2]", None)


def test_the_end_of_a_run_sets_when_its_detail_expires(conn, admin):
    book = Book.open(conn)
    at_ms = 1_700_000_000_123
    publication = book.publication(expires_at_ms=at_ms)
    book.commit(conn, helpers.resummarized(publication, **helpers.ended(at_ms)))
    at = admin.execute(
        "SELECT (extract(epoch FROM expires_at) * 1000)::int8 FROM django_ray_run"
    ).fetchone()
    assert at == (1_700_000_000_123,)


def test_a_changed_row_carries_the_revision_that_changed_it(conn, admin):
    book = Book.loaded(conn, 3)
    book.commit(conn, book.publication({1: "RUNNING"}))
    found = admin.execute(
        "SELECT ordinal, state, detail_revision FROM django_ray_node_detail ORDER BY 1"
    ).fetchall()
    assert found == [(0, 0, 1), (1, 2, 2), (2, 0, 1)]


def test_a_listener_is_told_the_revision_after_the_commit(conn, connect, admin):
    listener = connect()
    listener.execute("LISTEN django_ray")
    book = Book.open(conn)
    book.commit(conn, book.publication())
    public_id = admin.execute("SELECT public_id FROM django_ray_execution").fetchone()
    [told] = listener.notifies(timeout=5, stop_after=1)
    assert told.payload == f"{public_id[0]} 1"


def test_a_reader_never_sees_rows_of_one_publication_with_the_revision_of_another(
    conn, connect, admin, aside
):
    reader, book, done = connect(), Book.loaded(conn, 40), Event()

    def read():
        seen = []
        while not done.is_set():
            said, revisions = reader.execute(
                "SELECT e.progress_summary, (SELECT array_agg(DISTINCT detail_revision)"
                " FROM django_ray_node_detail) FROM django_ray_execution AS e"
            ).fetchone()
            seen.append(revisions == [summary.decode(said).detail_revision])
        return seen

    seen = aside(read)
    for turn in range(30):
        state = ("RUNNING", "SUCCEEDED")[turn % 2]
        book.commit(conn, book.publication(dict.fromkeys(range(40), state)))
    done.set()
    assert len(seen.result()) > 1
    assert all(seen.result())


def test_retained_totals_equal_the_rows(conn, admin):
    book = Book.loaded(conn, 20)
    for turn, message in enumerate(["x" * 500, "short", "y" * 2_000, "é" * 9]):
        states = dict.fromkeys(range(turn, 20, 3), "RUNNING")
        outcome = book.commit(conn, book.publication(states, message=message))
        assert (outcome.rows, outcome.bytes) == totals(admin)[:2] == totals(admin)[2:]


# The fence


@pytest.mark.parametrize("change", STALE)
def test_a_stale_writer_changes_nothing(conn, admin, change, unaudited):
    book = Book.loaded(conn, 5)
    unaudited.append(change)
    publication = book.publication({1: "RUNNING"}, stages=b"{}")
    admin.execute(STALE[change], (book.identity.task_execution_pk,))
    before = picture(admin)
    assert isinstance(publish(conn, *book.args, publication), Fenced)
    assert picture(admin) == before


@pytest.mark.parametrize(
    "field", ["task_execution_pk", "attempt_number", "execution_generation", "run_id"]
)
def test_publish_compares_each_of_the_four_fields(conn, admin, field):
    book = Book.loaded(conn, 2)
    other = helpers.execution(conn)
    value = getattr(other, field)
    if isinstance(value, int) and field != "task_execution_pk":
        value += 1
    stale = replace(book.identity, **{field: value})
    publication = helpers.resummarized(book.publication(), run=summary.run_of(stale))
    before = picture(admin)
    outcome = publish(conn, stale, *book.args[1:], publication)
    assert outcome == Fenced("task")
    assert picture(admin) == before


def test_publish_under_an_older_writer_epoch_changes_nothing(conn, connect, admin):
    book = Book.loaded(conn, 5)
    begin(connect(), book.identity, 7)
    before = picture(admin)
    outcome = publish(conn, *book.args, book.publication({1: "RUNNING"}))
    assert outcome == Fenced("writer_epoch")
    assert picture(admin) == before


def test_publish_into_another_runs_row_changes_nothing(conn, admin):
    book, other = Book.loaded(conn, 2), Book.loaded(conn, 2)
    before = picture(admin)
    outcome = publish(conn, book.identity, other.begun.run_pk, 1, book.publication())
    assert outcome == Fenced("writer_epoch")
    assert picture(admin) == before


@pytest.mark.parametrize(
    "base",
    [
        Revisions(summary=1, detail=2, topology=1),
        Revisions(summary=2, detail=1, topology=1),
        Revisions(summary=2, detail=2, topology=0),
    ],
)
def test_a_moved_base_is_answered_with_what_the_row_stands_on(conn, admin, base):
    book = Book.loaded(conn, 5)
    book.commit(conn, book.publication({1: "RUNNING"}))
    stands = book.base
    book.base = base
    book.topology = None
    before = picture(admin)
    outcome = publish(conn, *book.args, book.publication({2: "RUNNING"}))
    assert outcome == Moved(stands)
    assert picture(admin) == before


def test_a_commit_whose_answer_was_lost_is_found_by_its_base(conn, admin):
    book = Book.open(conn)
    lost = book.growth(conn, 600)
    publish(conn, *book.args, lost)
    outcome = publish(conn, *book.args, lost)
    assert outcome == Moved(lost.after)
    book.settle(lost)
    # The writer cannot know which rows were stored: it calls them fresh again.
    again = book.publication(dict.fromkeys(range(600), "RUNNING"), fresh=600)
    assert book.commit(conn, again).rows == 600


# Races


def test_a_lifecycle_transition_that_wins_the_row_fences_the_waiting_publication(
    conn, connect, admin, aside, unaudited
):
    book, lifecycle = Book.loaded(conn, 5), connect()
    unaudited.append("the summary is not derived here")
    publication = book.publication({1: "RUNNING"})
    with lifecycle.transaction():
        lifecycle.execute("UPDATE django_ray_execution SET state = 'SUCCEEDED'")
        waiting = aside(publish, conn, *book.args, publication)
        await_blocked(admin, conn)
    before = picture(admin)
    assert waiting.result() == Fenced("task")
    assert picture(admin) == before


def test_a_lifecycle_transition_that_rolls_back_lets_the_publication_pass(
    conn, connect, admin, aside
):
    book, lifecycle = Book.loaded(conn, 5), connect()
    publication = book.publication({1: "RUNNING"})
    with lifecycle.transaction(force_rollback=True):
        lifecycle.execute("UPDATE django_ray_execution SET state = 'SUCCEEDED'")
        waiting = aside(publish, conn, *book.args, publication)
        await_blocked(admin, conn)
    assert isinstance(waiting.result(), Published)


@pytest.mark.parametrize("at", [1, 2, COMMIT])
def test_a_lifecycle_transition_waits_for_a_publication_that_holds_the_row(
    conn, connect, admin, aside, at
):
    book, lifecycle = Book.loaded(conn, 5), connect()
    reached, go_on = Event(), Event()

    def pause(_):
        reached.set()
        assert go_on.wait(10)

    slow = hook(connect(), at, pause)
    publication = book.publication({1: "RUNNING"})
    running = aside(publish, slow, *book.args, publication)
    assert reached.wait(10)
    transition = aside(
        lifecycle.execute,
        "SELECT progress_summary FROM django_ray_execution FOR UPDATE",
    )
    await_blocked(admin, lifecycle)
    go_on.set()
    assert transition.result().fetchone()[0] == publication.summary
    assert isinstance(running.result(), Published)


def test_a_publication_waits_for_the_run_and_reads_it_as_it_was_left(
    conn, connect, admin, aside
):
    book, other = Book.loaded(conn, 5), connect()
    publication = book.publication({1: "RUNNING"})
    with other.transaction():
        other.execute("UPDATE django_ray_run SET writer_epoch = writer_epoch + 1")
        waiting = aside(publish, conn, *book.args, publication)
        await_blocked(admin, conn)
    before = picture(admin)
    assert waiting.result() == Fenced("writer_epoch")
    assert picture(admin) == before


def test_two_writers_of_one_base_leave_one_publication_and_its_totals(
    conn, connect, admin, aside
):
    book = Book.open(conn)
    publication = book.growth(conn, 50)
    slow_reached, go_on = Event(), Event()

    def pause(_):
        slow_reached.set()
        assert go_on.wait(10)

    # Stops with both locks held, before the writing statement inserts the rows.
    slow = hook(connect(), 4, pause)
    first = aside(publish, slow, *book.args, publication)
    assert slow_reached.wait(10)
    second = aside(publish, conn, *book.args, publication)
    await_blocked(admin, conn)
    go_on.set()
    assert isinstance(first.result(), Published)
    assert second.result() == Moved(publication.after)
    assert totals(admin)[:2] == totals(admin)[2:]


def test_a_new_writer_waits_for_the_old_ones_publication_and_continues_from_it(
    conn, connect, admin, aside
):
    book, newer = Book.loaded(conn, 5), connect()
    reached, go_on = Event(), Event()

    def pause(_):
        reached.set()
        assert go_on.wait(10)

    slow = hook(connect(), 2, pause)
    publication = book.publication({1: "RUNNING"})
    running = aside(publish, slow, *book.args, publication)
    assert reached.wait(10)
    beginning = aside(begin, newer, book.identity, 7)
    await_blocked(admin, newer)
    go_on.set()
    assert isinstance(running.result(), Published)
    assert beginning.result().revisions == publication.after
    book.settle(publication)
    assert publish(slow, *book.args, book.publication()) == Fenced("writer_epoch")


# Death between statements


@pytest.mark.parametrize(
    ("nodes", "at"),
    [
        *((50, at) for at in (0, 1, 2, 3, 4, COMMIT)),
        *((600, at) for at in (4, 5, COMMIT)),
    ],
)
def test_a_backend_killed_between_statements_leaves_nothing_of_it(
    conn, connect, admin, kill, storage_dsn, at, nodes
):
    book = Book.loaded(conn, 10)
    rolled = rollup((nodes, 0, 0, 0, 0, 0, 0))
    publication = book.growth(conn, nodes, stages=rolled, events=b"[]")
    dying = hook(connect(), at, kill)
    before = picture(admin)
    with pytest.raises(StorageUnavailable) as caught:
        publish(dying, *book.args, publication)
    assert picture(admin) == before
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not any(
        str(value) in str(caught.value)
        for value in psycopg.conninfo.conninfo_to_dict(storage_dsn).values()
        if len(str(value)) > 3
    )
    assert book.commit(conn, publication).rows == nodes


# What it costs


@pytest.mark.parametrize("changed", [1, 10, 2_500])
def test_a_publication_without_a_topology_takes_five_round_trips(conn, admin, changed):
    book = Book.loaded(conn, 2_500)
    states = dict.fromkeys(range(changed), "RUNNING")
    book.commit(conn, book.publication(states))
    with round_trips(conn) as counted:
        book.commit(conn, book.publication(states))
    assert counted == [5]


@pytest.mark.parametrize(("nodes", "trips"), [(100, 7), (600, 9), (3_000, 9)])
def test_a_publication_with_a_topology_takes_at_most_nine_round_trips(
    conn, admin, nodes, trips
):
    warm = Book.loaded(conn, 600)
    warm.commit(conn, warm.growth(conn, 620))
    book = Book.open(conn)
    publication = book.growth(conn, nodes)
    with round_trips(conn) as counted:
        book.commit(conn, publication)
    assert counted == [trips]


def test_an_update_of_a_state_stays_on_its_heap_page(conn, admin):
    # What earlier tests have left of their rows fills the pages of these.
    admin.execute("VACUUM django_ray_node_detail")
    book = Book.loaded(conn, 2_000)
    updated, hot = updates(conn, admin)
    for turn in range(8):
        state = ("RUNNING", "SUCCEEDED")[turn % 2]
        changed = dict.fromkeys(range(turn, 2_000, 40), state)
        book.commit(conn, book.publication(changed))
    later, later_hot = updates(conn, admin)
    assert later - updated == 8 * 50
    assert later_hot - hot >= 0.95 * (later - updated)


def updates(conn, admin):
    conn.execute("SELECT pg_stat_force_next_flush()")
    conn.execute("SELECT 1")
    return admin.execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
        "WHERE relname = 'django_ray_node_detail'"
    ).fetchone()


def test_no_changing_column_is_in_an_index(admin):
    found = admin.execute(
        "SELECT c.relname, a.attname FROM pg_index AS i "
        "JOIN pg_class AS c ON c.oid = i.indrelid "
        "JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey) "
        "WHERE c.relname IN ('django_ray_run', 'django_ray_node_detail')"
    ).fetchall()
    assert {column for _, column in found} == {
        *("id", "execution_id", "attempt_number", "execution_generation", "run_id"),
        *("ordinal", "node_key"),
    }


# Every byte stored is within section 2


@pytest.mark.parametrize(
    ("field", "cap"),
    [
        ("stages", V1.stage_row),
        ("session", V1.session_snapshot),
        ("events", V1.events * (V1.event_encoded + 1) + 2),
    ],
)
@pytest.mark.parametrize("past", [-1, 0, 1])
def test_every_extra_stored_is_within_its_cap(conn, admin, field, cap, past, unaudited):
    book = Book.open(conn)
    unaudited.append("the bytes are no events")
    publication = book.publication(**{field: b"x" * (cap + past)})
    if past <= 0:
        book.commit(conn, publication)
    else:
        refused(conn, admin, book, publication)


@pytest.mark.parametrize("past", [-1, 0, 1])
@pytest.mark.parametrize("fresh", [1, 300])
def test_every_record_stored_is_within_its_cap(conn, admin, past, fresh, unaudited):
    book = Book.open(conn)
    unaudited.append("the bytes are no record")
    publication = book.growth(conn, fresh)
    publication.rows.records[0] = b"x" * (V1.record + past)
    if past <= 0:
        assert book.commit(conn, publication).rows == fresh
    else:
        refused(conn, admin, book, publication)


@pytest.mark.parametrize("past", [-1, 0, 1])
def test_the_bytes_of_all_detail_are_within_their_cap(conn, admin, past, unaudited):
    book = Book.loaded(conn, 2)
    unaudited.append("the total is set by hand")
    publication = book.publication({0: "RUNNING"}, message="x" * 1_000)
    growth = len(publication.rows.records[0]) - len(
        helpers.rows({0: "PENDING"}).records[0]
    )
    admin.execute(
        "UPDATE django_ray_run SET detail_bytes = %s",
        (V1.detail_encoded - growth + past,),
    )
    if past <= 0:
        assert book.commit(conn, publication).bytes == V1.detail_encoded + past
    else:
        refused(conn, admin, book, publication)


def test_the_rows_of_all_detail_are_within_their_cap(conn, admin):
    book = Book.open(conn)
    publication = book.growth(conn, V1.retained_nodes)
    assert book.commit(conn, publication).rows == V1.retained_nodes


def test_one_row_more_than_the_cap_is_refused(conn, admin, unaudited):
    book = Book.loaded(conn, 2)
    unaudited.append("the total is set by hand")
    publication = book.growth(conn, 3)
    admin.execute("UPDATE django_ray_run SET detail_rows = %s", (V1.retained_nodes,))
    refused(conn, admin, book, publication)


def test_a_summary_above_its_cap_is_refused(conn, admin):
    book = Book.open(conn)
    refused(conn, admin, book, replace(book.publication(), summary=b" " * 16_385))
