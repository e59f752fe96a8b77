"""The one execution that all actors of a race reach for, and what each does with it.

It is in its second attempt. The first ended and is kept; of the second, two collectors were
begun, so that the older one is stale, a larger topology is staged, and its expiry is
malformed: due while it runs. It is made once by the product's functions, and put back as it
was before every interleaving.
"""

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import LiteralString

import msgspec

from cluster import runs
from cluster.interleave import Connection
from django_ray import conf
from django_ray.maintenance import cleanup, removal
from django_ray.maintenance.candidates import Kind, Target
from django_ray.maintenance.removal import Removed
from django_ray.models.executions import RayTaskExecution
from django_ray.progress.delta import (
    Delta,
    Fenced,
    Moved,
    Outcome,
    Publication,
    Revisions,
)
from django_ray.progress.pages import Candidate
from django_ray.protocol import frames, summary
from django_ray.protocol.vocabulary import NodeState, WorkflowState
from django_ray.storage import load, publish, stage
from django_ray.tasks import transitions
from django_ray.tasks.outcome import lost
from django_ray.tasks.transitions import Held, Reconciling, Recorded, Retrying, Stale

NODES, GROWN, MORE = 4, 7, 9
MARKS = ("stale", "foreign", "new", "heir", "promoter", "grower")
"""What each writer says in the record of node 0; the first two must never be read."""

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OWNER = "race"
DATABASE = "default"
BATCH = 100

OF_RUNS: LiteralString = (
    "run_id IN (SELECT id FROM django_ray_run WHERE execution_id = %(id)s)"
)
TABLES: Mapping[LiteralString, LiteralString] = {
    "execution": "id = %(id)s",
    "attempt": "execution_id = %(id)s",
    "lease": "execution_id = %(id)s",
    "run": "execution_id = %(id)s",
    "manifest": OF_RUNS,
    "page": OF_RUNS,
    "node_detail": OF_RUNS,
    "stages": OF_RUNS,
}

MOMENTARY: LiteralString = (
    "CASE WHEN to_jsonb(t) ? 'body' THEN '{id,created_at}' ELSE '{created_at}' END"
)
"""What differs between two equal orders: when a topology was staged, and the key of a page,
which nothing names."""

MALFORM: LiteralString = """
UPDATE django_ray_run SET expires_at = %(due)s WHERE run_id = %(run_id)s
"""


class World:
    """The execution, and the publications that wait to be written."""

    def __init__(self, admin: Connection) -> None:
        self._admin = admin
        execution = self._enqueued()
        self.pk, self.public_id = execution.pk, execution.public_id
        self.earlier, mind = self._attempt_of(execution)
        self._foreign = _told(mind, "foreign")
        self._foreign_begun = mind.begun
        self._end(self.earlier, WorkflowState.FAILED)
        RayTaskExecution.objects.filter(pk=self.pk).update(state="QUEUED")
        self.held, self._mind = self._attempt_of(execution)
        self._publications = {
            mark: _told(self._mind, mark) for mark in ("stale", "new", "heir")
        }
        self.base = self._mind.draft.base
        begun = load.begin(admin, self.held.identity, 7)
        assert isinstance(begun, load.Begun)
        self._run_pk, self.epoch = begun.run_pk, begun.writer_epoch
        self._publications["promoter"] = self._promotion()
        self._growth, self._candidate = self._grown(MORE, "grower")
        admin.execute(MALFORM, {"due": BEGAN, "run_id": self.held.identity.run_id})
        self.took_over = False
        self.due = BEGAN + dt.timedelta(days=7)
        self._now = self.due + dt.timedelta(days=1)
        self._save()

    def restore(self) -> None:
        """Put every row back as it was."""
        self.took_over = False
        self._admin.execute(self._again, prepare=False)

    def remove(self) -> None:
        """Leave nothing of the execution behind."""
        RayTaskExecution.objects.filter(pk=self.pk).delete()

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that a race writes to."""
        return tuple(f"django_ray_{table}" for table in TABLES)

    def fingerprint(self) -> str:
        """Return a digest of every row as it is now."""
        row = self._admin.execute(self._digest, {"id": self.pk}).fetchone()
        assert row is not None
        return str(row[0])

    # What the actors do

    def write_stale(self, conn: Connection) -> Outcome:
        """Publish as the run's older collector."""
        return self._publish(conn, self.epoch - 1, self._publications["stale"])

    def write_foreign(self, conn: Connection) -> Outcome:
        """Publish as a collector of the first attempt."""
        begun = self._foreign_begun
        identity = self.earlier.identity
        return publish.publish(
            conn, identity, begun.run_pk, begun.writer_epoch, self._foreign
        )

    def write_new(self, conn: Connection) -> Outcome:
        """Publish as the run's newest collector."""
        return self._publish(conn, self.epoch, self._publications["new"])

    def promote(self, conn: Connection) -> Outcome:
        """Publish the staged topology as the newest collector."""
        outcome = self._publish(conn, self.epoch, self._publications["promoter"])
        return self._heed(conn, outcome)

    def stage(self, conn: Connection) -> stage.Staged | Fenced | Moved:
        """Stage a still larger topology as the newest collector."""
        return stage.stage(
            conn, self.held.identity, self._run_pk, self.epoch, self._candidate
        )

    def grow(self, conn: Connection) -> Outcome:
        """Stage a still larger topology as the newest collector, and publish it."""
        staged = self.stage(conn)
        if not isinstance(staged, stage.Staged):
            return self._heed(conn, staged)
        publication = self._mind.draft.publication(
            self._growth, staged.manifest_id, runs.now_ms()
        )
        return self._heed(conn, self._publish(conn, self.epoch, publication))

    def take_over(self, conn: Connection) -> Outcome | load.Begun:
        """Begin as a collector that was restarted, and publish.

        One that finds another topology than it knows would hear its coordinator first.
        """
        begun = load.begin(conn, self.held.identity, 7)
        if isinstance(begun, Fenced):
            return begun
        self.took_over = True
        publication = self._publications["heir"]
        if begun.revisions.topology != publication.base.topology:
            return begun
        publication = _rebased(publication, begun.revisions)
        return self._publish(conn, begun.writer_epoch, publication)

    def time_out(self) -> Recorded | Retrying | Reconciling | Stale:
        """End the run as its worker does, long enough ago for its detail to be due."""
        return self._end(self.held, WorkflowState.TIMED_OUT)

    def clean_up(self) -> str:
        """Remove the run's detail as cleanup does, once it has found it due."""
        target = Target(
            execution_pk=self.pk,
            run_pk=self._run_pk,
            run_id=self.held.identity.run_id,
            rows=NODES,
        )
        removed = Removed()
        removal.remove(
            Kind.expired_runs, DATABASE, target, self._now, BATCH, to=removed
        )
        return _told_of(removed.items)

    def sweep(self) -> str:
        """Make a whole pass of cleanup; the first attempt is due at any time."""
        report = cleanup.clean(
            using=DATABASE, now=self._now, delete=True, batch_size=BATCH
        )
        assert not report.diagnostics, report.diagnostics
        return _told_of(sum(swept.removed.items for swept in report.swept))

    # How it was made

    def _enqueued(self) -> RayTaskExecution:
        return RayTaskExecution.objects.create(
            task_path="cluster.races",
            backend="default",
            queue_name=f"race-{uuid.uuid4()}",
            options=msgspec.to_builtins(conf.Settings().options),
            enqueued_at=BEGAN,
        )

    def _attempt_of(self, execution: RayTaskExecution) -> tuple[Held, runs.Mind]:
        """Claim and start the next attempt, and publish a chain of nodes at work."""
        held = transitions.claim(
            owner=OWNER,
            cluster="here",
            backends=[execution.backend],
            queues=[execution.queue_name],
            lease=dt.timedelta(days=1),
            now=BEGAN,
        )
        assert held is not None
        transitions.start(held.identity, now=BEGAN, again=False)
        mind = runs.Mind(self._admin, held.identity)
        mind.register(_chain(0, NODES))
        mind.move(range(NODES), NodeState.RUNNING, 1)
        mind.publish()
        return held, mind

    def _end(
        self, held: Held, state: WorkflowState
    ) -> Recorded | Retrying | Reconciling | Stale:
        return transitions.fail(held, state, lost("race"), reason="race", now=BEGAN)

    def _promotion(self) -> Publication:
        """Stage a larger topology, and compose the publication of it."""
        growth, self._candidate = self._grown(GROWN, "promoter")
        staged = self.stage(self._admin)
        assert isinstance(staged, stage.Staged)
        mind = self._mind
        publication = mind.draft.publication(growth, staged.manifest_id, runs.now_ms())
        mind.model.restore(growth)
        return publication

    def _grown(self, nodes: int, mark: str) -> tuple[Delta, Candidate]:
        """Prepare the delta of a larger graph and its topology, without writing either."""
        self._mind.register(_chain(NODES, nodes))
        _say(self._mind, mark)
        growth = self._mind.model.take(runs.now_ms() + 10_000)
        assert growth is not None
        candidate = self._mind.draft.candidate(growth)
        assert candidate is not None
        return growth, candidate

    def _heed[T: Outcome](self, conn: Connection, outcome: T) -> T:
        """Remove what was staged, as a collector does that was fenced off."""
        if isinstance(outcome, Fenced):
            stage.discard(conn, self._run_pk, self.epoch)
        return outcome

    def _publish(
        self, conn: Connection, epoch: int, publication: Publication
    ) -> Outcome:
        return publish.publish(
            conn, self.held.identity, self._run_pk, epoch, publication
        )

    def _save(self) -> None:
        """Copy every row aside, and compose the statements that bring them back."""
        again = ["BEGIN", f"DELETE FROM django_ray_execution WHERE id = {self.pk}"]
        for table, where in TABLES.items():
            self._admin.execute(
                f"CREATE TEMP TABLE saved_{table} AS "
                f"SELECT * FROM django_ray_{table} WHERE {where}",
                {"id": self.pk},
                prepare=False,
            )
            again.append(f"INSERT INTO django_ray_{table} SELECT * FROM saved_{table}")
        self._again = "; ".join([*again, "COMMIT"]).encode()
        rows = " UNION ALL ".join(
            f"SELECT '{table}' || (to_jsonb(t) - ({MOMENTARY})::text[])::text "
            f"FROM django_ray_{table} AS t WHERE {where}"
            for table, where in TABLES.items()
        )
        self._digest = (
            f"SELECT md5(string_agg(r, '|' ORDER BY r)) FROM ({rows}) AS t (r)".encode()
        )


def _told_of(removed: int) -> str:
    return "removed" if removed else "spared"


def _chain(start: int, stop: int) -> list[frames.Node]:
    return [
        frames.Node(n, f"1.leaf[{n}]", "leaf", "leaf", (n - 1, 1) if n else ())
        for n in range(start, stop)
    ]


def _say(mind: runs.Mind, mark: str) -> None:
    """Let node 0 report a mark, and end one more node."""
    at = MARKS.index(mark) + 1
    mind.model.apply(
        frames.Progress(0, 0, 1, at, runs.now_ms(), 1, 2, mark), runs.now_ms()
    )
    mind.move([at % (NODES - 1) + 1], NodeState.SUCCEEDED, 1)


def _told(mind: runs.Mind, mark: str) -> Publication:
    """Compose what a writer would publish on the present base, without writing it."""
    _say(mind, mark)
    delta = mind.model.take(runs.now_ms())
    assert delta is not None
    assert mind.draft.candidate(delta) is None
    publication = mind.draft.publication(delta, None, delta.taken_ms)
    mind.model.restore(delta)
    return publication


def _rebased(publication: Publication, base: Revisions) -> Publication:
    """Return the publication on another base of the same topology."""
    after = Revisions(
        summary=base.summary + 1, detail=base.detail + 1, topology=base.topology
    )
    said = msgspec.structs.replace(
        summary.decode(publication.summary),
        revision=after.summary,
        detail_revision=after.detail,
    )
    return replace(publication, base=base, after=after, summary=summary.encode(said))
