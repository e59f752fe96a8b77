"""Summaries: of one piece with their publication, alone where no detail is kept."""

from dataclasses import replace

import pytest

from django_ray.errors import IntegrityFault
from django_ray.progress.delta import Fenced, Moved, Published, Revisions
from django_ray.protocol import summary
from django_ray.protocol.summary import FINAL_REVISION, Terminal
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ReportingPolicy,
    WorkflowState,
)
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


ENDED = helpers.ended(3)
GOES_ON = {
    "ended_at_ms": None,
    "expires_at_ms": None,
    "state": WorkflowState.RUNNING,
    "terminal": None,
}


def test_an_end_that_is_whole_is_published_with_its_expiry(conn, admin):
    book = Book.loaded(conn, 3)
    book.commit(conn, helpers.resummarized(book.publication(expires_at_ms=3), **ENDED))
    stored = admin.execute("SELECT expires_at FROM django_ray_run").fetchone()
    assert stored[0].timestamp() == 0.003


@pytest.mark.parametrize(
    "changes",
    [
        {"terminal": None},
        {"terminal": None, "state": WorkflowState.RUNNING},
        {**GOES_ON, "ended_at_ms": 2},
        {**GOES_ON, "expires_at_ms": 3},
        GOES_ON,
        {"state": WorkflowState.RUNNING},
        {"state": WorkflowState.SUCCEEDED},
        {"ended_at_ms": None},
        {"expires_at_ms": None},
        {"expires_at_ms": 4},
        {"terminal": Terminal(derived=True, outcome=WorkflowState.FAILED, reason="")},
    ],
    ids=str,
)
def test_an_end_half_said_or_the_lifecycles_own_is_refused(conn, admin, changes):
    book = Book.loaded(conn, 3)
    publication = book.publication(expires_at_ms=3)
    publication = helpers.resummarized(publication, **{**ENDED, **changes})
    refused(conn, admin, book, publication)


# A summary alone


def alone(book, **extra):
    """Compose the next publication of a policy that keeps no detail."""
    return helpers.resummarized(
        book.publication(**extra),
        detail=summary.Detail(
            availability=DetailAvailability.OMITTED_BY_POLICY,
            complete=False,
            reasons=(),
        ),
        policy=ReportingPolicy.summary,
    )


def test_a_summary_alone_becomes_visible_under_its_revision(conn, admin):
    book = Book.open(conn)
    publication = helpers.resummarized(
        alone(book, events=b"[]", expires_at_ms=5_000),
        **helpers.ended(5_000),
    )
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
        publication = alone(book)
        with round_trips(conn) as counted:
            publish_summary(conn, *book.args, publication)
        book.settle(publication)
    assert counted == [5]


def test_a_summary_alone_attaches_no_storage(conn, admin):
    book = Book.open(conn)
    grown = book.growth(conn, 3)
    bare = alone(book)
    candidate = replace(
        helpers.resummarized(bare, topology_version=1),
        candidate=grown.candidate,
        after=Revisions(summary=1, topology=1),
    )
    revised = replace(
        helpers.resummarized(bare, detail_revision=1),
        after=Revisions(summary=1, detail=1),
    )
    available = summary.Detail(
        availability=DetailAvailability.AVAILABLE, complete=True, reasons=()
    )
    before = picture(admin)
    for publication in (
        grown,
        candidate,
        revised,
        replace(bare, rows=helpers.rows({0: "PENDING"}, fresh=1)),
        replace(bare, stages=b"{}"),
        helpers.resummarized(bare, manifest_id=1),
        helpers.resummarized(bare, detail=available),
        helpers.resummarized(bare, retained_nodes=1),
        helpers.resummarized(bare, retained_edges=1),
    ):
        with pytest.raises(IntegrityFault):
            publish_summary(conn, *book.args, publication)
    assert picture(admin) == before
    assert isinstance(publish_summary(conn, *book.args, bare), Published)


def test_a_summary_alone_never_detaches_published_detail(conn, admin):
    book = Book.loaded(conn, 3)
    stands, before = book.base, picture(admin)
    book.base, book.topology, book.manifest_id = Revisions(summary=1), None, None
    outcome = publish_summary(conn, *book.args, alone(book))
    assert outcome == Moved(stands)
    assert picture(admin) == before


@pytest.mark.parametrize("state", ["CLAIMED", "SUCCEEDED", "RECONCILE"])
def test_a_summary_alone_of_a_run_that_is_not_running_changes_nothing(
    conn, admin, unaudited, state
):
    unaudited.append("it ends without an attempt")
    book = Book.open(conn)
    admin.execute("UPDATE django_ray_execution SET state = %s", (state,))
    before = picture(admin)
    assert publish_summary(conn, *book.args, alone(book)) == Fenced("task")
    assert picture(admin) == before


def test_a_summary_alone_under_an_older_writer_epoch_changes_nothing(conn, admin):
    book = Book.open(conn)
    begin(conn, book.identity, 7)
    before = picture(admin)
    outcome = publish_summary(conn, *book.args, alone(book))
    assert outcome == Fenced("writer_epoch")
    assert picture(admin) == before
