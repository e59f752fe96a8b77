"""Runs that were really published, for the tests of readers: a collector's mind in line."""

from contextlib import contextmanager

import psycopg
from django.contrib.auth.models import User

from cluster import runs
from django_ray.models.executions import RayTaskExecution
from django_ray.progress.graph import Graph
from django_ray.protocol import frames
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NodeState
from django_ray.storage import pool
from tests.storage import helpers


class Published:
    """One run as its collector sees it, and its execution as readers do."""

    def __init__(self, conn, nodes=0, edges=0, *, graph=None):
        self.mind = runs.Mind(conn, runs.execution())
        self.nodes = graph or (runs.layered(nodes, edges) if nodes else [])
        self.mind.register(self.nodes)
        if self.nodes:
            self.mind.publish()

    @property
    def row(self):
        return RayTaskExecution.objects.get(pk=self.mind.identity.task_execution_pk)

    @property
    def public_id(self):
        return self.row.public_id

    @property
    def run_pk(self):
        return self.mind.begun.run_pk

    def move(self, ordinals, state, **error):
        """Apply one state to many nodes, and publish."""
        now = runs.now_ms()
        failure = frames.Failure(**error) if error else None
        for ordinal in ordinals:
            self.mind.model.apply(
                frames.State(
                    ordinal, 0, 1, NodeState(state), now, now - 5, "h1", 0, failure
                ),
                now,
            )
        self.mind.publish()

    def end(self, outcome="SUCCEEDED"):
        now = runs.now_ms()
        self.mind.model.apply(frames.End(outcome, now), now)
        self.mind.publish()

    def retry(self):
        """Let the execution be claimed again: the next attempt has another run."""
        row = self.row
        row.attempts.create(
            attempt_number=row.attempt_number,
            execution_generation=row.execution_generation,
            run_id=row.run_id,
            worker="worker-1",
            state="FAILED",
            claimed_at=row.started_at,
            terminal_summary=row.progress_summary,
            error_class="ValueError",
            error_text="Traceback\n  File '/secret/place.py'\nValueError: no",
        )
        row.attempt_number += 1
        row.execution_generation += 1
        row.run_id = helpers.uuid.uuid4()
        row.progress_summary = None
        row.save()


def chain(nodes):
    """Return a graph in which each node needs the one before."""
    graph = Graph(V1)
    needs = [{ordinal - 1} if ordinal else set() for ordinal in range(nodes)]
    return [
        graph.register(f"1.layer0[part-{n:06d}]", "leaf", "leaf", needs[n])[1]
        for n in range(nodes)
    ]


@contextmanager
def writer():
    """Open a connection as the collector's pool does."""
    with psycopg.connect(helpers.dsn(), autocommit=True) as conn:
        pool.configure(conn)
        yield conn


def root():
    return User.objects.create_superuser("root")


def nobody():
    return User.objects.create_user("nobody")


def every(read, query_type, **asked):
    """Return all items of a paged service, page by page."""
    found, pages, cursor = [], 0, None
    while True:
        page = read(query_type(cursor=cursor, **asked))
        found.extend(page.items)
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            return found, pages
