"""What does an invocation cost through owner, reducer and adapter, against a bare graph?

The same two methods of two actors, compiled twice: by a run's owner, reported and published
as in life, and by an actor that only executes and gets. Both are called once an invocation
from this process, in turns, since an idle compiled graph burns a core for each of its
actors. What the owner takes inside its own process is a figure of its own.
"""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, cast

import ray
from ray.dag import DAGNode, InputNode, MultiOutputNode

from actors import compiled_internals
from cluster import live, runs
from cluster.harness import Harness
from cluster.scenario import Figure, Result
from django_ray.lifecycle.budgets import Deadlines
from django_ray.protocol.vocabulary import SelectionPolicy

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.experimental.compiled_dag_ref import CompiledDAGRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Invocations a block; blocks of each side, the first of which is the warm-up."""

    invocations: int = 1_000
    blocks: int = 5
    window: int = 4


class Part:
    """Gives what it gets."""

    def same(self, value: object) -> object:
        """Return the value."""
        return value


def graph() -> DAGNode:
    """Return two methods of two actors, one behind the other."""
    return _chain([part() for _ in range(2)])


def part() -> "ActorHandle[Part]":
    """Start an actor that takes no CPU from the others."""
    return live.process(Part)


def _chain(actors: "Iterable[ActorHandle[Part]]") -> DAGNode:
    with InputNode() as given:
        node: DAGNode = given
        for actor in actors:
            node = getattr(actor, "same").bind(node)  # noqa: B009 (its type knows no bind)
    return node


class Bare:
    """The baseline's actor: compiles, executes, gets."""

    def __init__(self) -> None:
        root = MultiOutputNode([graph()])
        self._graph = compiled_internals.compile_graph(root, 1_000_000)

    def invoke(self, value: object) -> object:
        """Send one input through the graph."""
        (ref,) = cast("list[CompiledDAGRef]", self._graph.execute(value))
        return cast(object, ref.get())

    def inside(self, count: int) -> float:
        """Return the seconds of so many invocations without a call between them."""
        begun = time.perf_counter()
        for number in range(count):
            self.invoke(number)
        return time.perf_counter() - begun

    def close(self) -> None:
        """Tear the graph down."""
        self._graph.teardown(kill_actors=True)


class Remote(Protocol):
    """A method of a live actor."""

    @property
    def remote(self) -> object: ...


class Invoked(Protocol):
    """A compiled session of `workflow`, as far as it is used here."""

    def invoke(self, value: object) -> object: ...


class OwnerInvocations:
    __doc__ = __doc__

    name = "owner_invocations"
    needs_ray = True

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.last: dict[str, object] = {}

    def setup(self, harness: Harness) -> None:
        """Make a run of its own, whose strategy is the compiled one."""
        self.conn = harness.connect()
        self.identity = runs.execution()
        told = runs.settings(self.identity, strategy=SelectionPolicy.compiled_graph)
        self.coordinator, self.producer = live.coordinator(told, self.parameters.window)
        live.await_writer(self.identity, self.conn)

    def measure(self) -> None:
        """Take blocks in turn, each side compiled anew for its block, outside the clock."""
        ours: list[float] = []
        bare: list[float] = []
        within: list[float] = []
        for _ in range(self.parameters.blocks + 1):
            bare.append(self._bare(within))
            ours.append(self._ours())
        count = self.parameters.invocations
        pairs = list(zip(ours, bare, within, strict=True))[1:]
        self.figures["ratio"] = Figure(
            values=tuple(each[0] / each[1] for each in pairs),
            unit="x bare graph",
            reach=2.0,
            beyond=1.3,
        )
        for place, key in enumerate(("invocation", "bare", "bare_inside")):
            self.figures[key] = Figure(
                values=tuple(1e6 * each[place] / count for each in pairs),
                unit="us an invocation",
            )

    def _bare(self, within: list[float]) -> float:
        actor, count = live.process(Bare), self.parameters.invocations
        call = _calls(actor.invoke)
        ray.get(call(0))
        took = _block(lambda number: ray.get(call(number)), count)
        within.append(cast(float, ray.get(_calls(actor.inside)(count))))
        ray.get(_calls(actor.close)())
        ray.kill(actor)
        return took

    def _ours(self) -> float:
        from actors import session

        with ExitStack() as stack:
            opened = stack.enter_context(
                session.opened(
                    self.coordinator,
                    graph,
                    outputs=1,
                    deadlines=Deadlines(),
                    effects=None,
                    buffer_bytes=1_000_000,
                    idle_s=60.0,
                )
            )
            held: Invoked = opened
            held.invoke(0)
            return _block(held.invoke, self.parameters.invocations)

    def verify(self) -> None:
        """Every invocation gave its input, one session a block is stored, and is sound."""
        blocks, count = self.parameters.blocks + 1, self.parameters.invocations
        assert self.coordinator.end("SUCCEEDED", None), "the end was not committed"
        said = live.committed(self.conn, self.identity)
        assert said is not None
        assert said.node_counts.succeeded == said.discovered_nodes == 2 * blocks
        assert said.session is not None
        told = json.loads(bytes(said.session))
        assert told["session_state"] == "TORN_DOWN", told
        assert told["invocation"] == count + 1, told
        assert runs.require_sound(self.identity.run_id) == 2 * blocks

    def result(self) -> Result:
        """Return the ratio, and what each side took for an invocation."""
        return Result(figures=self.figures, parameters=asdict(self.parameters))

    def teardown(self) -> None:
        """End the collector."""
        self.producer.stop()
        live.end_collectors()


def _calls(method: object) -> "Callable[..., ray.ObjectRef[object]]":
    return cast("Callable[..., ray.ObjectRef[object]]", cast(Remote, method).remote)


def _block(invoke: Callable[[object], object], count: int) -> float:
    begun = time.perf_counter()
    for number in range(count):
        given = invoke(number)
        if given != number:
            raise AssertionError(f"{given} came for {number}")
    return time.perf_counter() - begun


def scenario() -> OwnerInvocations:
    """Return the scenario with its default parameters."""
    return OwnerInvocations(Parameters())
