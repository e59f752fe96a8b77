"""Every private call of Ray on its compiled graphs, one test each.

As with `internals`, Ray promises nothing of these: they are those of the releases that it
names.
"""

import re
from typing import TYPE_CHECKING, Protocol, cast

import ray
from ray._private import worker
from ray.exceptions import RayTaskError

from actors.internals import Actor

if TYPE_CHECKING:
    from ray.dag import DAGNode
    from ray.dag.compiled_dag_node import CompiledDAG
    from ray.experimental.compiled_dag_ref import CompiledDAGRef


class Serialized(Protocol):
    """One value ready for a channel, which takes it as it is."""

    @property
    def total_bytes(self) -> int:
        """Return how many bytes the value's data has."""
        ...

    @property
    def metadata(self) -> bytes:
        """Return what says how to read them."""
        ...


def serialize(value: object) -> Serialized:
    """Return a value ready for a channel; raise TypeError for one that cannot travel."""
    context = worker.global_worker.get_serialization_context()  # type: ignore[no-untyped-call]
    return cast(Serialized, context.serialize(value))


def size(packed: Serialized) -> int:
    """Return how much of a buffer a value fills. Ray makes the buffer larger past it."""
    return packed.total_bytes + len(packed.metadata)


def compile_graph(root: "DAGNode", buffer_bytes: int) -> "CompiledDAG":
    """Compile a graph of live actors for one execution at a time."""
    compiled: CompiledDAG = root.experimental_compile(
        _buffer_size_bytes=buffer_bytes, _max_inflight_executions=1
    )
    return compiled


def execute(
    graph: "CompiledDAG", packed: Serialized, timeout_s: float
) -> "list[CompiledDAGRef]":
    """Write one input to the graph's channels and return a reference for each output.

    A channel that still holds the last input is waited for, so long; then some of the
    channels may have taken this one, and RayChannelTimeoutError is raised.
    """
    graph._submit_timeout = timeout_s
    refs = graph.execute(packed)
    return refs if isinstance(refs, list) else [refs]


def settle(ref: "CompiledDAGRef", timeout_s: float) -> object:
    """Return what one output of an execution gives: a value, or the error of a method.

    The error is a RayTaskError, or another of Ray's where it cannot be unpickled here, or
    the value cannot. It is returned and not raised, so that no error of a user is taken
    for one of the engine.
    """
    ref._ray_get_called = True
    ref._dag._execute_until(ref._execution_index, ref._channel_index, timeout_s)
    (value,) = ref._dag._get_execution_results(ref._execution_index, ref._channel_index)
    return value


def finish(graph: "CompiledDAG", timeout_s: float) -> None:
    """Read what an execution whose error came first has left in the other channels."""
    reader = graph._dag_output_fetcher
    if reader is not None:
        reader._consume_leftover_channels_if_needed(timeout_s)


def raised_in(error: RayTaskError) -> int | None:
    """Return the process in which a compiled method raised, None where it is not told.

    On its way the error loses all but its text, whose first line is Ray's own.
    """
    found = re.match(r"[^\n]*\(pid=(\d+), ip=", str(error))
    return None if found is None else int(found[1])


def as_its_cause(error: RayTaskError) -> BaseException:
    """Return an error that is of its cause's class as well, as Ray itself raises it."""
    return cast(BaseException, error.as_instanceof_cause())  # type: ignore[no-untyped-call]


def can_travel(error: BaseException) -> bool:
    """Claim that another process can be given an error."""
    try:
        ray.cloudpickle.loads(ray.cloudpickle.dumps(error))  # type: ignore[no-untyped-call]
    except Exception:
        # The error is the user's class, and so is how it is pickled.
        return False
    return True


def let_go(ref: "CompiledDAGRef") -> None:
    """Spend an output without a look, so that letting go of it waits for nothing."""
    ref._ray_get_called = True


def is_live(graph: "CompiledDAG") -> bool:
    """Claim that a compiled graph is watched: no participant has ended its loop."""
    watched: bool = graph._monitor.is_alive()
    return watched and not graph.is_teardown


def loops(graph: "CompiledDAG") -> "list[ray.ObjectRef[object]]":
    """Return references that end with the participants' loops, in error where one died."""
    return list(graph.worker_task_refs.values())


def proxy(graph: "CompiledDAG") -> Actor:
    """Return the actor that Ray makes for the driver of each compiled graph."""
    return cast(Actor, graph._proxy_actor)


def give_up(graph: "CompiledDAG") -> None:
    """Let a graph whose participants are gone be collected without a second teardown."""
    graph._is_teardown = True
