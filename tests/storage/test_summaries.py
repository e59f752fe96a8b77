"""Summaries: of one piece with their publication, alone where no detail is kept."""

from dataclasses import replace

import pytest

from django_ray.errors import IntegrityFault
from django_ray.progress.delta import Fenced, Moved, Published, Revisions
from django_ray.protocol import summary
from django_ray.protocol.summary import FINAL_REVISION
from django_ray.storage.load import begin
from django_ray.storage.publish import publish
from django_ray.storage.summaries import publish_summary
from tests.storage import helpers
from tests.storage.helpers import Book, picture, refused, round_trips


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": 1},
        {"revision": 3},
        {"detail_revision": 1},
        {"detail_revision": None},
        {"topology_version": None},
        {"topology_version": 2},
        {"manifest_id": None},
        {"manifest_id": 2**40},
        {
            "run": summary.Run(
                attempt_number=1,
                execution_generation=1,
                run_id="00000000-0000-4000-8000-000000000000",
                task_execution_pk=1,
            )
        },
    ],
    ids=str,
)
def test_a_summary_that_says_other_than_its_publication_is_refused(
    conn, admin, changes
):
    book = Book.loaded(conn, 5)
    publication = book.publication({1: "RUNNING"})
    refused(conn, admin, book, helpers.resummarized(publication, **changes))


def test_detail_that_changes_under_its_old_revision_is_refused(conn, admin):
    book = Book.loaded(conn, 5)
    publication = book.publication({1: "RUNNING"})
    publication = replace(publication, after=replace(publication.after, detail=1))
    refused(conn, admin, book, helpers.resummarized(publication, detail_revision=1))


def test_a_topology_version_without_a_candidate_is_refused(conn, admin):
    book = Book.loaded(conn, 5)
    publication = book.publication()
    publication = replace(publication, after=replace(publication.after, topology=2))
    refused(conn, admin, book, helpers.resummarized(publication, topology_version=2))


@pytest.mark.parametrize("version", [0, 1])
def test_a_candidate_whose_version_does_not_rise_is_refused(conn, admin, version):
    book = Book.loaded(conn, 5)
    publication = replace(book.publication(), candidate=helpers.candidate(version, 5))
    refused(conn, admin, book, publication)


@pytest.mark.parametrize("revision", [FINAL_REVISION - 1, FINAL_REVISION])
def test_the_last_revision_is_the_lifecycles_alone(conn, admin, revision, unaudited):
    book = Book.open(conn)
    unaudited.append("the summary before it is not stored")
    admin.execute("UPDATE django_ray_run SET summary_revision = %s", (revision - 1,))
    book.base = Revisions(summary=revision - 1)
    publication = book.publication()
    if revision < FINAL_REVISION:
        assert isinstance(publish(conn, *book.args, publication), Published)
    else:
        refused(conn, admin, book, publication)


# A summary alone


def test_a_summary_alone_becomes_visible_under_its_revision(conn, admin):
    book = Book.open(conn)
    publication = book.publication(events=b"[]", expires_at_ms=5_000)
    assert publish_summary(conn, *book.args, publication) == Published(0, 0)
    stored = admin.execute(
        "SELECT e.progress_summary, r.summary_revision, r.events, "
        "extract(epoch FROM r.expires_at)::int "
        "FROM django_ray_execution AS e JOIN django_ray_run AS r ON r.execution_id = e.id"
    ).fetchone()
    assert stored == (publication.summary, 1, b"[]", 5)


def test_a_summary_alone_takes_five_round_trips(conn, admin):
    book = Book.open(conn)
    for _ in range(2):
        publication = book.publication()
        with round_trips(conn) as counted:
            publish_summary(conn, *book.args, publication)
        book.settle(publication)
    assert counted == [5]


def test_a_summary_alone_attaches_no_storage(conn, admin):
    book = Book.open(conn)
    with_rows = book.growth(conn, 3)
    alone = book.publication()
    pointing = helpers.resummarized(alone, manifest_id=1)
    rolled = replace(alone, stages=b"{}")
    before = picture(admin)
    for publication in (with_rows, pointing, rolled):
        with pytest.raises(IntegrityFault):
            publish_summary(conn, *book.args, publication)
    assert picture(admin) == before


def test_a_summary_alone_never_detaches_published_detail(conn, admin):
    book = Book.loaded(conn, 3)
    stands, before = book.base, picture(admin)
    book.base, book.topology, book.manifest_id = Revisions(summary=1), None, None
    outcome = publish_summary(conn, *book.args, book.publication())
    assert outcome == Moved(stands)
    assert picture(admin) == before


@pytest.mark.parametrize("state", ["CLAIMED", "SUCCEEDED", "RECONCILE"])
def test_a_summary_alone_of_a_run_that_is_not_running_changes_nothing(
    conn, admin, state
):
    book = Book.open(conn)
    admin.execute("UPDATE django_ray_execution SET state = %s", (state,))
    before = picture(admin)
    assert publish_summary(conn, *book.args, book.publication()) == Fenced("task")
    assert picture(admin) == before


def test_a_summary_alone_under_an_older_writer_epoch_changes_nothing(conn, admin):
    book = Book.open(conn)
    begin(conn, book.identity, 7)
    before = picture(admin)
    outcome = publish_summary(conn, *book.args, book.publication())
    assert outcome == Fenced("writer_epoch")
    assert picture(admin) == before
