"""Staging: one candidate a run, bounded, and nothing of a stale writer's."""

import os
import zlib
from dataclasses import replace
from threading import Event

import pytest

from django_ray.errors import IntegrityFault, StorageUnavailable
from django_ray.progress.delta import Fenced, Moved
from django_ray.progress.pages import seal
from django_ray.storage.load import begin
from django_ray.storage.stage import Staged, discard, stage
from tests.storage import helpers
from tests.storage.helpers import Book, await_blocked, hook, picture


def counts(admin):
    return admin.execute(
        "SELECT (SELECT count(*) FROM django_ray_manifest WHERE NOT published),"
        " (SELECT count(*) FROM django_ray_manifest WHERE published),"
        " (SELECT count(*) FROM django_ray_page)"
    ).fetchone()


def test_a_candidate_is_stored_and_points_nowhere_yet(conn, admin):
    book = Book.open(conn)
    staged = stage(conn, *book.args, helpers.candidate(1, 300))
    assert isinstance(staged, Staged)
    assert counts(admin) == (1, 0, 4)
    said = admin.execute("SELECT progress_summary FROM django_ray_execution").fetchone()
    assert said == (None,)


def test_at_most_one_pending_topology_per_run(conn, admin):
    book = Book.open(conn)
    for version, nodes in enumerate((300, 10, 700), 1):
        stage(conn, *book.args, helpers.candidate(version, nodes))
    assert counts(admin) == (1, 0, 6)


def test_a_candidate_in_place_of_an_earlier_one_keeps_the_published_pages(conn, admin):
    book = Book.loaded(conn, 300)
    stage(conn, *book.args, helpers.candidate(2, 900))
    stage(conn, *book.args, helpers.candidate(3, 310))
    # Nodes 0-255 and edges to 1-256 are shared, the two tails are each its own.
    assert counts(admin) == (1, 1, 6)


def test_a_full_page_is_stored_once_however_the_graph_grows(conn, admin):
    book = Book.loaded(conn, 257)
    first = admin.execute(
        "SELECT id FROM django_ray_page WHERE item_count = 256 ORDER BY id"
    ).fetchall()
    book.commit(conn, book.growth(conn, 300))
    again = admin.execute(
        "SELECT id FROM django_ray_page WHERE item_count = 256 ORDER BY id"
    ).fetchall()
    assert again == first
    assert len(first) == 2


def test_a_page_stored_by_another_zlib_is_the_same_page(conn, admin):
    book = Book.open(conn)
    offered = helpers.candidate(1, 300)
    stage(conn, *book.args, offered)
    page = offered.pages[0]
    plain = replace(page, encoding="identity", body=zlib.decompress(page.body))
    other = helpers.of_pages(2, [plain, *offered.pages[1:]], 300, 299)
    staged = stage(conn, *book.args, other)
    publication = book.publication(
        dict.fromkeys(range(300), "PENDING"),
        fresh=300,
        staged=(other, staged.manifest_id),
    )
    assert book.commit(conn, publication).rows == 300


@pytest.mark.parametrize("promoted", [True, False])
def test_a_page_of_another_zlib_that_is_not_offered_counts_as_it_is_stored(
    conn, promoted
):
    book = Book.open(conn)
    own = helpers.candidate(1, 300)
    page = own.pages[0]
    denser = replace(page, body=zlib.compress(zlib.decompress(page.body), 9))
    assert len(denser.body) != len(page.body)
    states = dict.fromkeys(range(300), "PENDING")
    first = helpers.of_pages(1, [denser, *own.pages[1:]], 300, 299)
    staged = stage(conn, *book.args, first)
    if promoted:
        whole = (first, staged.manifest_id)
        book.commit(conn, book.publication(states, fresh=300, staged=whole))
        states = {}

    # Its writer holds that page to be stored, in the size that its own zlib makes of it.
    grown = helpers.candidate(2, 301)
    told = replace(grown, pages=grown.pages[1:])
    again = stage(conn, *book.args, told)
    publication = book.publication(
        {**states, 300: "PENDING"},
        fresh=len(states) + 1,
        staged=(told, again.manifest_id),
    )
    assert book.commit(conn, publication).rows == 301


@pytest.mark.parametrize("state", ["CLAIMED", "RECONCILE", "SUCCEEDED", "LOST"])
def test_staging_by_a_run_that_is_not_running_stores_nothing(
    conn, admin, unaudited, state
):
    unaudited.append("it ends without an attempt")
    book = Book.open(conn)
    admin.execute("UPDATE django_ray_execution SET state = %s", (state,))
    before = picture(admin)
    assert stage(conn, *book.args, helpers.candidate(1, 3)) == Fenced("task")
    assert picture(admin) == before


@pytest.mark.parametrize(
    "field", ["task_execution_pk", "attempt_number", "execution_generation", "run_id"]
)
def test_staging_compares_each_of_the_four_fields(conn, admin, field):
    book, other = Book.open(conn), Book.open(conn)
    value = getattr(other.identity, field)
    if field in ("attempt_number", "execution_generation"):
        value += 1
    stale = replace(book.identity, **{field: value})
    before = picture(admin)
    outcome = stage(conn, stale, *book.args[1:], helpers.candidate(1, 3))
    assert outcome == Fenced("task")
    assert picture(admin) == before


def test_staging_under_an_older_writer_epoch_stores_nothing(conn, admin):
    book = Book.open(conn)
    begin(conn, book.identity, 7)
    before = picture(admin)
    assert stage(conn, *book.args, helpers.candidate(1, 3)) == Fenced("writer_epoch")
    assert picture(admin) == before


@pytest.mark.parametrize("version", [1, 2])
def test_a_version_that_is_published_already_is_answered_with_the_revisions(
    conn, admin, version
):
    book = Book.loaded(conn, 3)
    book.commit(conn, book.growth(conn, 5))
    before = picture(admin)
    outcome = stage(conn, *book.args, helpers.candidate(version, 9))
    assert outcome == Moved(book.base)
    assert picture(admin) == before


def test_a_run_that_goes_stale_during_the_write_leaves_nothing(
    conn, connect, admin, unaudited
):
    unaudited.append("it ends without an attempt")
    book = Book.open(conn)

    def lose(_):
        admin.execute("UPDATE django_ray_execution SET state = 'LOST'")

    slow = hook(connect(), 3, lose)
    assert stage(slow, *book.args, helpers.candidate(1, 300)) == Fenced("task")
    assert counts(admin) == (0, 0, 0)


def test_a_writer_that_goes_stale_during_the_write_leaves_nothing(conn, connect, admin):
    book, newer = Book.open(conn), connect()
    slow = hook(connect(), 3, lambda _: begin(newer, book.identity, 7))
    outcome = stage(slow, *book.args, helpers.candidate(1, 300))
    assert outcome == Fenced("writer_epoch")
    assert counts(admin) == (0, 0, 0)


def test_staging_holds_no_lock_that_a_lifecycle_transition_waits_for(
    conn, connect, admin
):
    book, lifecycle = Book.open(conn), connect()
    seen = []

    def transit(_):
        with lifecycle.transaction(force_rollback=True):
            lifecycle.execute("SELECT 1 FROM django_ray_execution FOR UPDATE NOWAIT")
            seen.append("locked")

    slow = hook(connect(), 3, transit)
    assert isinstance(stage(slow, *book.args, helpers.candidate(1, 3)), Staged)
    assert seen == ["locked"]


def test_two_writers_that_stage_at_once_leave_one_candidate(
    conn, connect, admin, aside
):
    book, second = Book.open(conn), connect()
    waiting = []

    def race(_):
        other = helpers.candidate(2, 600)
        waiting.append(aside(stage, second, *book.args, other))
        await_blocked(admin, second)

    slow = hook(connect(), 3, race)
    stage(slow, *book.args, helpers.candidate(1, 300))
    assert isinstance(waiting[0].result(), Staged)
    assert counts(admin) == (1, 0, 6)


def test_a_stale_writer_that_stages_and_a_publication_do_not_deadlock(
    conn, connect, admin, aside
):
    book = Book.open(conn)
    publication = book.growth(conn, 300)
    reached, go_on = Event(), Event()

    def pause(_):
        reached.set()
        assert go_on.wait(10)

    slow, publishing = hook(connect(), 4, pause), connect()
    staging = aside(stage, slow, *book.args, helpers.candidate(2, 310))
    assert reached.wait(10)
    # Holds task and run, and waits for the candidate that the other is replacing, whose
    # foreign keys are checked when it commits.
    blocked = aside(book.commit, publishing, publication)
    await_blocked(admin, publishing)
    go_on.set()
    assert isinstance(staging.result(), Staged)
    with pytest.raises(IntegrityFault):
        blocked.result()


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 5])
def test_staging_killed_between_statements_leaves_nothing(
    conn, connect, admin, kill, at
):
    book = Book.loaded(conn, 10)
    stage(conn, *book.args, helpers.candidate(2, 20))
    dying, before = hook(connect(), at, kill), picture(admin)
    with pytest.raises(StorageUnavailable):
        stage(dying, *book.args, helpers.candidate(3, 300))
    assert picture(admin) == before


@pytest.mark.parametrize(
    "manifest",
    [
        {"digest": bytes(32)},
        {"node_count": 4},
        {"edge_count": 1},
        {"digests": ()},
        {"version": 0},
    ],
    ids=str,
)
def test_a_manifest_that_contradicts_itself_is_not_staged(conn, admin, manifest):
    book = Book.open(conn)
    offered = helpers.candidate(1, 3)
    offered = replace(offered, manifest=replace(offered.manifest, **manifest))
    before = picture(admin)
    with pytest.raises(IntegrityFault):
        stage(conn, *book.args, offered)
    assert picture(admin) == before


@pytest.mark.parametrize("past", [-1, 0, 1])
def test_every_page_stored_is_within_its_encoded_cap(conn, admin, past, unaudited):
    book = Book.open(conn)
    unaudited.append("the page does not parse")
    page = replace(
        seal("nodes", 1, b"[1]"), body=os.urandom(262_144 + past), encoding="identity"
    )
    offered = helpers.of_pages(1, [page], 1, 0)
    if past <= 0:
        assert isinstance(stage(conn, *book.args, offered), Staged)
    else:
        with pytest.raises(IntegrityFault):
            stage(conn, *book.args, offered)
        assert counts(admin) == (0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"decoded_size": 1_048_576}, True),
        ({"decoded_size": 1_048_577}, False),
        ({"decoded_size": 0}, False),
        ({"item_count": 256}, True),
        ({"item_count": 257}, False),
        ({"item_count": 0}, False),
        ({"kind": "arrows"}, False),
        ({"encoding": "zstd"}, False),
        ({"digest": b"short"}, False),
    ],
    ids=str,
)
def test_every_page_stored_is_within_its_bounds(conn, admin, changes, fits, unaudited):
    book = Book.open(conn)
    unaudited.append("the page is none")
    page = replace(seal("nodes", 1, b"[1]"), **changes)
    offered = helpers.of_pages(1, [page], 1, 0)
    if fits:
        assert isinstance(stage(conn, *book.args, offered), Staged)
    else:
        with pytest.raises(IntegrityFault):
            stage(conn, *book.args, offered)


@pytest.mark.parametrize("past", [0, 1])
def test_a_run_with_its_candidate_is_within_the_cap_of_a_run(
    conn, admin, past, unaudited
):
    book = Book.open(conn)
    unaudited.append("the pages are noise")
    page = seal("nodes", 1, b"[1]")
    room = 33_554_432 - sum(len(each.body) for each in helpers.candidate(1, 3).pages)
    admin.execute("UPDATE django_ray_run SET detail_bytes = 8388608")
    room -= 8_388_608
    pages = [
        replace(page, digest=bytes([n]) * 32, body=bytes(262_144), encoding="identity")
        for n in range(room // 262_144)
    ]
    _store(admin, book.begun.run_pk, pages, room - 262_144 * len(pages) + past)
    if past <= 0:
        assert isinstance(stage(conn, *book.args, helpers.candidate(2, 3)), Staged)
    else:
        with pytest.raises(IntegrityFault):
            stage(conn, *book.args, helpers.candidate(2, 3))


def _store(admin, run_pk, pages, last):
    """Store pages as if a manifest had been published with them."""
    rows = [(page.digest, page.body) for page in pages] + [(b"l" * 32, bytes(last))]
    for digest, body in rows:
        admin.execute(
            "INSERT INTO django_ray_page (run_id, digest, kind, item_count, encoding,"
            " encoded_size, decoded_size, body, created_at)"
            " VALUES (%s, %s, 'nodes', 1, 'identity', %s, 3, %s, now())",
            (run_pk, digest, len(body), body),
        )
    admin.execute(
        "INSERT INTO django_ray_manifest (run_id, topology_version, published,"
        " node_count, edge_count, page_count, encoded_bytes, decoded_bytes,"
        " page_digests, digest, created_at)"
        " VALUES (%s, 1, true, 1, 0, %s, 1, 1, %s, %s, now())",
        (run_pk, len(rows), b"".join(digest for digest, _ in rows), bytes(32)),
    )


def test_a_fenced_writer_removes_its_candidate(conn, admin):
    book = Book.loaded(conn, 3)
    stage(conn, *book.args, helpers.candidate(2, 300))
    discard(conn, book.begun.run_pk, book.begun.writer_epoch)
    assert counts(admin) == (0, 1, 2)


def test_a_fenced_writer_leaves_a_newer_writers_candidate(conn, admin):
    book = Book.open(conn)
    newer = Book.open(conn, book.identity)
    stage(conn, *newer.args, helpers.candidate(1, 3))
    before = picture(admin)
    discard(conn, book.begun.run_pk, book.begun.writer_epoch)
    assert picture(admin) == before
