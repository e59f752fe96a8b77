"""Model and draft against a naive model: a list, a dictionary and a loop."""

from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec import UNSET

from django_ray.protocol import frames
from django_ray.protocol.limits import V1
from django_ray.protocol.records import decode_detail
from django_ray.protocol.vocabulary import (
    NODE_STATES,
    TERMINAL_NODE_STATES,
    NodeState,
    TruncationReason,
)
from tests.progress.making import Run, end, limits, node, preview, progress, state

PROFILES = (
    V1,
    limits(retained_nodes=5, retained_edges=6, page_items=2),
    limits(detail_encoded=1_800, page_items=3),
    limits(topology_encoded=500, page_encoded=120),
    # Beside the stage row and the like there are 2,600 bytes for this run.
    limits(
        page_encoded=400,
        page_decoded=400,
        stage_row=2_000,
        session_snapshot=0,
        bequest=0,
        events=1,
        event_encoded=200,
        run_encoded=2_000 + 201 + 800 + 2_600,
    ),
)

RANK = {name: min(code, 3) for code, name in enumerate(NODE_STATES)}
OMISSIONS = {TruncationReason.detail_size_limit, TruncationReason.run_size_limit}


class Naive:
    """One node as a dictionary of what it last was told."""

    def __init__(self, record: frames.Node) -> None:
        self.record = record
        self.state = {"try": 1, "state": NodeState.PENDING}
        self.reports: dict[int, dict[str, object]] = {}
        self.previews: dict[int, bytes] = {}

    def told(self, record: frames.State) -> None:
        key = (record.try_, RANK[record.state])
        if key <= (self.state["try"], RANK[self.state["state"]]):
            return
        if record.try_ != self.state["try"]:
            self.state = {}
        kept = self.state
        kept.pop("error", None)
        kept |= {"try": record.try_, "state": record.state}
        if record.started_ms is not None:
            kept["started_ms"] = record.started_ms
        if record.state is NodeState.RUNNING:
            kept.setdefault("started_ms", record.at_ms)
        if record.state is NodeState.SUBMITTED:
            kept["submitted_ms"] = record.at_ms
        if record.state in TERMINAL_NODE_STATES:
            kept["ended_ms"] = record.at_ms
        if record.error is not None:
            kept["error"] = record.error.text

    def reported(self, record: frames.Progress) -> None:
        begun = self.state["try"]
        key = (record.try_, record.sequence)
        # Of tries not begun yet the latest report of all stands for them.
        rivals = [
            (try_, kept["sequence"])
            for try_, kept in self.reports.items()
            if try_ == record.try_ or (try_ > begun and record.try_ > begun)
        ]
        if record.try_ < begun or any(key <= rival for rival in rivals):
            return
        if record.try_ > begun:
            for try_, _ in rivals:
                del self.reports[try_]
        self.reports[record.try_] = {
            "sequence": record.sequence,
            "message": record.message,
        }

    def shown(self, record: frames.Preview) -> None:
        begun = self.state["try"]
        # Of tries not begun yet the latest stands for them, and of each try the first.
        if record.try_ > begun:
            ahead = [try_ for try_ in self.previews if try_ > begun]
            if any(record.try_ <= try_ for try_ in ahead):
                return
            for try_ in ahead:
                del self.previews[try_]
        self.previews.setdefault(record.try_, record.value)

    def now(self) -> dict[str, object]:
        found = {**self.state, **self.reports.get(self.state["try"], {"sequence": 0})}
        if self.state["try"] in self.previews:
            found["preview"] = self.previews[self.state["try"]]
        return found


def flat(record: bytes) -> dict[str, object]:
    """Return a stored row as the naive model keeps it."""
    detail = decode_detail(record)
    found = {
        name: getattr(detail, name)
        for name in ("started_ms", "submitted_ms", "ended_ms", "message", "error")
    }
    found |= {"try": detail.try_, "state": detail.state, "sequence": detail.sequence}
    if hasattr(detail.error, "text"):
        found["error"] = detail.error.text
    if detail.preview is not UNSET:
        found["preview"] = bytes(detail.preview)
    return {name: value for name, value in found.items() if value is not UNSET}


class Machine(RuleBasedStateMachine):
    @initialize(chosen=st.sampled_from(PROFILES))
    def begin(self, chosen):
        self.run = Run(chosen)
        self.nodes: list[Naive] = []
        self.sequence = 0

    @rule(data=st.data(), number=st.integers(1, 4))
    def register(self, data, number):
        for _ in range(number):
            ordinal = len(self.nodes)
            sources = (
                data.draw(st.sets(st.integers(0, ordinal - 1), max_size=3))
                if (ordinal)
                else set()
            )
            runs = [value for source in sorted(sources) for value in (source, 1)]
            record = node(ordinal, *runs)
            self.run.apply(record)
            self.nodes.append(Naive(record))

    @precondition(lambda self: self.nodes)
    @rule(
        data=st.data(),
        name=st.sampled_from(NODE_STATES),
        try_=st.integers(1, 3),
        error=st.sampled_from(("", "no", "x" * 300)),
    )
    def tell(self, data, name, try_, error):
        ordinal = data.draw(st.integers(0, len(self.nodes) - 1))
        failure = frames.Failure("ValueError", error) if error else None
        record = state(ordinal, name, self.run.now, try_=try_, error=failure)
        self.run.apply(record)
        self.nodes[ordinal].told(record)

    @precondition(lambda self: self.nodes)
    @rule(
        data=st.data(),
        try_=st.integers(1, 3),
        back=st.integers(0, 2),
        size=st.sampled_from((1, 150, 700)),
    )
    def report(self, data, try_, back, size):
        ordinal = data.draw(st.integers(0, len(self.nodes) - 1))
        self.sequence += 1
        sequence = max(self.sequence - back, 1)
        record = progress(ordinal, sequence, try_=try_, message="m" * size)
        self.run.apply(record)
        self.nodes[ordinal].reported(record)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), try_=st.integers(1, 3), size=st.sampled_from((1, 250)))
    def show(self, data, try_, size):
        ordinal = data.draw(st.integers(0, len(self.nodes) - 1))
        self.sequence += 1
        record = preview(ordinal, b'"%d%s"' % (self.sequence, b"p" * size), try_=try_)
        self.run.apply(record)
        self.nodes[ordinal].shown(record)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def resend(self, data):
        ordinal = data.draw(st.integers(0, len(self.nodes) - 1))
        self.run.apply(self.nodes[ordinal].record)

    @rule(ms=st.sampled_from((50, 1_000, 5_000)))
    def wait(self, ms):
        self.run.now += ms

    @rule()
    def publish(self):
        self.run.publish()
        self.compare()

    @rule(how=st.sampled_from(("fail", "refuse", "lose")))
    def fail(self, how):
        getattr(self.run, how)()

    @invariant()
    def the_counts_add_up(self):
        if hasattr(self, "run") and self.run.store.summary:
            assert self.run.store.read().node_counts.total <= len(self.nodes)

    def compare(self):
        store = self.run.store
        if not store.summary:
            return
        read = store.read()
        for name in NODE_STATES:
            told = sum(each.state["state"] is name for each in self.nodes)
            assert read.node_counts.of(name) == told
        assert sorted(store.rows) == list(range(read.retained_nodes))
        assert [each.id for each in store.nodes()] == [
            each.record.id for each in self.nodes[: read.retained_nodes]
        ]
        every = [
            (each.record.ordinal, source)
            for each in self.nodes
            for source in each.record.dependencies[::2]
        ]
        assert read.discovered_edges == len(every)
        assert store.edges() == every[: read.retained_edges]
        self.compare_rows(read)

    def compare_rows(self, read):
        store = self.run.store
        marked = False
        for ordinal, row in store.rows.items():
            found, told = flat(row.record), self.nodes[ordinal].now()
            assert found["state"] is told["state"]
            if found != told:
                marked = True
                lost = {name for name in told if found.get(name) != told[name]}
                assert lost <= {"message", "error", "preview", "sequence"}
        assert marked <= bool(OMISSIONS & set(read.detail.reasons))
        used = sum(len(row.record) for row in store.rows.values())
        assert used <= self.run.limits.detail_encoded

    def teardown(self):
        if not hasattr(self, "run"):
            return
        self.run.apply(end(at_ms=self.run.now))
        self.run.publish()
        self.compare()
        read = self.run.store.read()
        if not read.detail.reasons:
            assert read.retained_nodes == len(self.nodes)
            assert read.detail.complete or not self.nodes
        assert self.run.publish() is None


Machine.TestCase.settings = profile(
    max_examples=60, stateful_step_count=30, deadline=None
)
test_model_and_draft_agree_with_a_naive_model = Machine.TestCase
