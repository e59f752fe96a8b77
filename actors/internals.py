"""Every private call of Ray, one test each.

Ray promises nothing of these, so whoever walks a graph calls `require` first, and the
version it names is the one their tests have run on. Nothing else in the project reaches
behind Ray's public names.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import ray
from ray import _raylet
from ray._private import worker
from ray.actor import ActorHandle, ActorMethod
from ray.exceptions import GetTimeoutError, RayTaskError
from ray.experimental import get_local_object_locations, internal_kv

from django_ray.errors import ConfigurationError

if TYPE_CHECKING:
    from ray.dag import DAGNode, FunctionNode, InputAttributeNode
    from ray.dag.class_node import ClassMethodNode, ClassNode
    from ray.dag.compiled_dag_node import CompiledDAG
    from ray.experimental.compiled_dag_ref import CompiledDAGRef

RELEASES = "2.60."
"""The releases whose private names these are."""

COMPILED_RELEASES = ("2.60.0",)
"""The releases on which compiled graphs were tried: their ways differ by the patch."""

Body = Callable[..., object]
Options = Mapping[str, object]

Actor = ActorHandle[object]

RAW = b"RAW"
"""Ray's mark of a value that is plain bytes; an error's mark is a number."""

LOOK_BYTES = 1024 * 1024
LOOK_MS = 10_000
"""A value on another machine is fetched to see whether it is an error when it is not
larger, and for no longer. Larger ones pass for what they mostly are: a success."""

NAMESPACE = b"django_ray"
"""Where `remember` keeps runs in the cluster's own store of keys."""


class Held(Protocol):
    """One value as the owner's memory holds it, not unpickled."""

    @property
    def data(self) -> memoryview | None:
        """Return the value's bytes."""
        ...

    @property
    def metadata(self) -> bytes:
        """Return what says how to read them."""
        ...


class Core(Protocol):
    """What is used of Ray's core worker."""

    def get_current_task_attempt_number(self) -> int: ...

    def get_current_root_detached_actor_id(self) -> ray.ActorID: ...

    def object_exists(self, ref: object, memory_only: bool) -> bool: ...

    def get_objects(
        self, refs: Sequence[object], timeout_ms: int
    ) -> Sequence[Held | None]: ...


def _core() -> Core:
    # Ray sets the attribute when a process joins a cluster; no annotation declares it.
    return cast(Core, vars(worker.global_worker)["core_worker"])


def require(version: str) -> None:
    """Raise ConfigurationError unless `version` is a release this module was tested on."""
    if not version.startswith(RELEASES):
        raise ConfigurationError("django_ray runs workflows on Ray 2.60 only.")


def attempt() -> int:
    """Return which of Ray's own attempts at the current task this is, from 0."""
    return _core().get_current_task_attempt_number()


def root_actor() -> bytes | None:
    """Return the id of the detached actor that all work of this process stems from."""
    root = _core().get_current_root_detached_actor_id()
    return None if root.is_nil() else root.binary()


def remember(actor: bytes, run: bytes) -> None:
    """Tell every process of the cluster, on demand, what an actor's run is."""
    internal_kv._internal_kv_put(actor, run, namespace=NAMESPACE)


def recall(actor: bytes) -> bytes | None:
    """Return what is remembered of an actor; one call to the cluster's head."""
    known: bytes | None = internal_kv._internal_kv_get(actor, namespace=NAMESPACE)
    return known


def forget(actor: bytes) -> None:
    """Remember nothing of an actor any more."""
    internal_kv._internal_kv_del(actor, namespace=NAMESPACE)


def identity(actor: Actor) -> bytes:
    """Return an actor's id."""
    found: ray.ActorID = actor._actor_id
    return found.binary()


def upstream(node: "DAGNode") -> "list[DAGNode]":
    """Return the nodes `node` was bound with, containers included, with duplicates."""
    nodes: list[DAGNode] = node._upstream_nodes
    return nodes


def body(node: "FunctionNode | ClassNode") -> Body:
    """Return the user's function of a node, or the class as Ray has changed it."""
    function: Body = node._body
    return function


def users_class(node: "ClassNode") -> type:
    """Return the class of a node as its author wrote it."""
    written: type = node._body.__ray_actor_class__
    return written


def parent(node: "ClassMethodNode") -> "ClassNode | Actor":
    """Return what a method is called on: an actor of the graph, or a live one."""
    return cast("ClassNode | Actor", node._parent_class_node)


def bound(method: object) -> tuple[Actor, str, Options] | None:
    """Return actor, name and options of a live actor's method; None of anything else."""
    given: Options = {}
    if not isinstance(method, ActorMethod):
        # What `.options(…)` of a method gives; nothing but these two is in it.
        given = getattr(method, "_options", given)
        method = getattr(method, "_actor_method", None)
    if not isinstance(method, ActorMethod):
        return None
    told = {"num_returns": method._num_returns, **given}
    return method._actor, method._method_name, told


def class_path(actor: Actor) -> str:
    """Return the path of a live actor's class."""
    written = actor._ray_actor_creation_function_descriptor
    return f"{written.module_name}.{written.class_name}"


def method_returns(body: Callable[..., object]) -> int | str | None:
    """Return how many values `@ray.method` says that a method returns."""
    number: int | str | None = getattr(body, "__ray_num_returns__", None)
    return number


def options(node: "DAGNode") -> Options:
    """Return a node's options uncopied: their identity says which nodes share them."""
    bound: Options = node._bound_options
    return bound


def accessor(node: "InputAttributeNode") -> str:
    """Return `__getattr__` or `__getitem__`: how the node takes its part of the input."""
    method: str = node._accessor_method
    return method


def hidden(value: object) -> "list[DAGNode]":
    """Return the nodes anywhere in a value, found by pickling it."""
    from ray.dag.py_obj_scanner import _PyObjScanner

    scanner: _PyObjScanner[DAGNode, object] = _PyObjScanner()
    try:
        return scanner.find_nodes(value)
    finally:
        scanner.clear()  # type: ignore[no-untyped-call]


def replace(value: object, found: "Callable[[DAGNode], object]") -> object:
    """Return a copy of any object with the nodes hidden in it replaced by `found`.

    The copy is made by pickling, as Ray's own execution makes it.
    """
    # Here, because a leaf imports this module and needs nothing of graphs.
    from ray.dag.py_obj_scanner import _PyObjScanner

    scanner: _PyObjScanner[DAGNode, object] = _PyObjScanner()
    try:
        nodes = scanner.find_nodes(value)
        if not nodes:
            return value
        replaced: object = scanner.replace_nodes({node: found(node) for node in nodes})
        return replaced
    finally:
        scanner.clear()  # type: ignore[no-untyped-call]


def raw(refs: Sequence["ray.ObjectRef[object]"]) -> list[bytes | None]:
    """Return the values of ended refs that are bytes in the owner's memory, else None.

    None is also said of an error and of a value in the object store: neither is looked
    at, nothing is fetched, nothing unpickled.
    """
    core = _core()
    inline = [ref for ref in refs if core.object_exists(ref, True)]
    if len(inline) == len(refs):
        return [_bytes(held) for held in core.get_objects(inline, 0)]
    values = dict(zip(inline, map(_bytes, core.get_objects(inline, 0)), strict=True))
    return [values.get(ref) for ref in refs]


def _bytes(held: Held | None) -> bytes | None:
    if held is None or held.metadata != RAW or held.data is None:
        return None
    return bytes(held.data)


def mark_seen(refs: Sequence["ray.ObjectRef[object]"]) -> None:
    """Keep Ray from logging the errors of ended refs, whose text may hold secrets.

    Ray logs in full every error that is let go without having been asked for.
    """
    core = _core()
    core.get_objects([ref for ref in refs if core.object_exists(ref, True)], 0)


def is_inline(ref: "ray.ObjectRef[object]") -> bool:
    """Claim that an ended ref's value is in its owner's memory: it is at most 100 KiB."""
    return _core().object_exists(ref, True)


def is_failure(ref: "ray.ObjectRef[object]") -> bool | None:
    """Claim that an ended ref holds an error, without unpickling its value.

    None when a large value lies on another machine, where only fetching it would tell.
    """
    try:
        (held,) = _core().get_objects([ref], 0)
    except GetTimeoutError:
        return _is_failure_elsewhere(ref)
    return held is not None and held.metadata.isdigit()


def _is_failure_elsewhere(ref: "ray.ObjectRef[object]") -> bool | None:
    size = get_local_object_locations([ref]).get(ref, {}).get("object_size")
    if size is None or size > LOOK_BYTES:
        return None
    try:
        (held,) = _core().get_objects([ref], LOOK_MS)
    except GetTimeoutError:
        return None
    return held is not None and held.metadata.isdigit()


def reread_credentials() -> None:
    """Make this process take Ray's authentication from its environment again."""
    _raylet.Config.initialize("")  # type: ignore[attr-defined]
    loader = _raylet.AuthenticationTokenLoader  # type: ignore[attr-defined]
    loader.instance().reset_cache()


class Unread:
    """Stands in the place of an argument over its process's bound: nobody has read it."""


def bound_arguments(limit: int) -> None:
    """Let no call hand this process an argument of over `limit` bytes, from now on.

    Ray copies the bytes of an argument out of the object store before the method sees
    them. A larger one becomes Unread instead, and no page of it is touched.
    """
    context = worker.global_worker.get_serialization_context()  # type: ignore[no-untyped-call]
    read = context._deserialize_object

    def bounded(data: memoryview | None, *rest: object) -> object:
        if data is not None and len(data) > limit:
            return Unread()
        return read(data, *rest)

    context._deserialize_object = bounded


class Serialized(Protocol):
    """One value ready for a channel, which takes it as it is."""

    @property
    def total_bytes(self) -> int:
        """Return how much of a buffer the value fills."""
        ...


def serialize(value: object) -> Serialized:
    """Return a value ready for a channel; raise TypeError for one that cannot travel."""
    context = worker.global_worker.get_serialization_context()  # type: ignore[no-untyped-call]
    return cast(Serialized, context.serialize(value))


def is_own(actor: Actor) -> bool:
    """Claim that this process made the actor by this very handle."""
    made: bool = actor._ray_original_handle
    return made


def compile_graph(root: "DAGNode", buffer_bytes: int) -> "CompiledDAG":
    """Compile a graph of live actors for one execution at a time."""
    compiled: CompiledDAG = root.experimental_compile(
        _buffer_size_bytes=buffer_bytes, _max_inflight_executions=1
    )
    return compiled


def settle(ref: "CompiledDAGRef", timeout_s: float) -> object:
    """Return what one output of an execution gives: a value, or the error of a method.

    The error is a RayTaskError. It is returned and not raised, so that no error of a user
    is taken for one of the engine.
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


def call(actor: Actor, function: Callable[..., object]) -> "ray.ObjectRef[object]":
    """Call a function with an actor's instance, beside the loop of a compiled graph."""
    method = cast("Callable[[str], ActorMethod]", actor.__getattr__)("__ray_call__")
    called = method.remote(function)  # type: ignore[no-untyped-call]
    return cast("ray.ObjectRef[object]", called)
