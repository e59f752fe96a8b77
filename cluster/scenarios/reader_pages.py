"""What does a reader cost at 25,000 nodes, against the bare keyset SQL by psycopg?

Each question is asked of the product's service, authorization and snapshot included, and of
one prepared statement that fetches the same rows and nothing else. The two take turns. The
number of statements is counted at 10 nodes and at 25,000.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, LiteralString

from cluster import runs
from cluster.harness import Harness
from cluster.measure import seconds
from cluster.scenario import Figure, Result
from django_ray.protocol import canonical
from django_ray.protocol.vocabulary import NodeState

if TYPE_CHECKING:
    import uuid

    from django.contrib.auth.models import User

    from django_ray.readers.changes import Changes
    from django_ray.readers.details import NodeRow
    from django_ray.readers.nodes import FoundNode
    from django_ray.readers.page import Page
    from django_ray.readers.run import Unavailable

    type Answer = Page[NodeRow] | Changes | FoundNode | Unavailable | None

ROWS: LiteralString = """
SELECT ordinal, node_key, node_id, stage, state, detail_revision, record
FROM django_ray_node_detail WHERE run_id = %(run)s AND"""
BARE: dict[str, LiteralString] = {
    "by_ordinal": f"{ROWS} ordinal > 99 ORDER BY ordinal LIMIT 101",
    "largest_page": f"{ROWS} ordinal > -1 ORDER BY ordinal LIMIT 257",
    "failed": f"{ROWS} ordinal > -1 AND state = 4 ORDER BY ordinal LIMIT 101",
    "by_prefix": (
        f"{ROWS} ordinal > -1 AND node_id LIKE '1.layer39[%%'"
        " ORDER BY ordinal LIMIT 101"
    ),
    "newest": f"{ROWS} true ORDER BY detail_revision DESC, ordinal LIMIT 101",
    "single": f"{ROWS} node_key = %(key)s",
    "changes": (
        f"{ROWS} ordinal > -1 AND detail_revision > 1 ORDER BY ordinal LIMIT 257"
    ),
}
"""The rows of each question and nothing else: one row more says whether there are more."""

FILTERED = ("failed", "by_prefix", "newest", "changes")
MARK_MS = 5.0
FILTERED_MARK_MS = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Nodes of the run, how many of them fail, and how often each question is asked."""

    nodes: int = 25_000
    few: int = 10
    failed: int = 3
    repeats: int = 60


class ReaderPages:
    __doc__ = __doc__

    name = "reader_pages"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.pairs: dict[str, tuple[list[int], list[int]]] = {}
        self.statements: dict[str, tuple[int, int]] = {}

    def setup(self, harness: Harness) -> None:
        """Publish a run of many nodes and one of few; fail three nodes of each."""
        from django.contrib.auth.models import User

        self.conn = harness.connect()
        self.viewer = User.objects.create_superuser("reader_pages")
        self.large = self._published(self.parameters.nodes)
        self.small = self._published(self.parameters.few)
        self.conn.execute("ANALYZE")

    def _published(self, nodes: int) -> runs.Mind:
        mind = runs.Mind(self.conn, runs.execution())
        mind.register(runs.layered(nodes, 4 * nodes))
        mind.publish()
        step = nodes // self.parameters.failed
        failed = range(0, step * self.parameters.failed, step)
        mind.move(failed, NodeState.FAILED, 1)
        mind.publish()
        return mind

    def measure(self) -> None:
        """Ask the service and the bare statement in turn; the first pair warms up."""
        questions = ask_all(runs.public_id(self.large.identity), self.viewer)
        run, key = self.large.begun.run_pk, canonical.node_key(NODE)
        for name, ask in questions.items():
            bare = self._bare(name, run, key)
            self.pairs[name] = ordinals_of(ask()), [_int(row[0]) for row in bare()]
            ours, theirs = [], []
            for _ in range(self.parameters.repeats):
                ours.append(1_000 * seconds(ask))
                theirs.append(1_000 * seconds(bare))
            self._keep(name, ours, theirs)
        few = ask_all(runs.public_id(self.small.identity), self.viewer)
        for name, ask in questions.items():
            self.statements[name] = _counted(ask), _counted(few[name])

    def _bare(
        self, name: str, run: int, key: bytes
    ) -> Callable[[], list[tuple[object, ...]]]:
        statement = BARE[name]
        cursor = self.conn.cursor(binary=True)

        def fetch() -> list[tuple[object, ...]]:
            return cursor.execute(
                statement, {"run": run, "key": key}, prepare=True
            ).fetchall()

        return fetch

    def _keep(self, name: str, ours: list[float], theirs: list[float]) -> None:
        self.figures[f"ratio_{name}"] = Figure(
            values=tuple(a / b for a, b in zip(ours, theirs, strict=True)),
            unit="x bare SQL",
            reach=4.0,
            beyond=2.0,
        )
        mark = FILTERED_MARK_MS if name in FILTERED else MARK_MS
        self.figures[f"reader_{name}"] = Figure(
            values=tuple(ours), unit="ms", reach=mark
        )
        self.figures[f"bare_{name}"] = Figure(values=tuple(theirs), unit="ms")

    def verify(self) -> None:
        """Both found the same rows; statements do not depend on the nodes; all is sound."""
        for name, (ours, theirs) in self.pairs.items():
            assert ours == theirs[: len(ours)], name
            assert ours, name
        for name, (large, small) in self.statements.items():
            assert large == small, (name, large, small)
        for mind in (self.large, self.small):
            runs.require_sound(mind.identity.run_id)

    def result(self) -> Result:
        """Return the ratios, both times, and the statements of each question."""
        for name, (large, _) in self.statements.items():
            self.figures[f"statements_{name}"] = Figure(
                values=(float(large),), unit="statements"
            )
        return Result(figures=self.figures, parameters=asdict(self.parameters))

    def teardown(self) -> None:
        """The database goes with the harness."""


NODE = "1.layer0[part-000003]"


def ask_all(
    public_id: "uuid.UUID", viewer: "User"
) -> dict[str, "Callable[[], Answer]"]:
    """Return the questions, each asked of the product's own service."""
    from django_ray.readers import services
    from django_ray.readers.changes import ChangesQuery
    from django_ray.readers.nodes import NodeQuery, NodesQuery

    first = services.nodes(public_id, viewer, NodesQuery())
    cursor = getattr(first, "next_cursor", None)
    queries = {
        "by_ordinal": NodesQuery(cursor=cursor),
        "largest_page": NodesQuery(limit=256),
        "failed": NodesQuery(state=(NodeState.FAILED,)),
        "by_prefix": NodesQuery(prefix="1.layer39["),
        "newest": NodesQuery(order="newest"),
    }
    asked: dict[str, Callable[[], Answer]] = {
        name: partial(services.nodes, public_id, viewer, query)
        for name, query in queries.items()
    }
    asked["single"] = partial(services.node, public_id, viewer, NodeQuery(id=NODE))
    asked["changes"] = partial(
        services.changes, public_id, viewer, ChangesQuery(since=1)
    )
    return asked


def ordinals_of(answer: "Answer") -> list[int]:
    """Return which nodes an answer holds."""
    node = getattr(answer, "node", None)
    rows = [node] if node is not None else getattr(answer, "items", [])
    return [row.ordinal for row in rows]


def _counted(ask: Callable[[], object]) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        ask()
    return len(queries)


def _int(value: object) -> int:
    return int(str(value))


def scenario() -> ReaderPages:
    """Return the scenario with its default parameters."""
    return ReaderPages(Parameters())
