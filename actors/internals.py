"""Every private call of Ray, one test each.

Ray promises nothing of these, so whoever walks a graph calls `require` first, and the
version it names is the one their tests have run on. Nothing else in the project reaches
behind Ray's public names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import ray
from ray import _raylet
from ray._private import worker
from ray.actor import ActorHandle, ActorMethod
from ray.exceptions import GetTimeoutError
from ray.experimental import get_local_object_locations, internal_kv

from django_ray.errors import ConfigurationError

if TYPE_CHECKING:
    from ray.dag import DAGNode, FunctionNode, InputAttributeNode
    from ray.dag.class_node import ClassMethodNode, ClassNode

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


def is_own(actor: Actor) -> bool:
    """Claim that this process made the actor by this very handle."""
    made: bool = actor._ray_original_handle
    return made


def call(actor: Actor, function: Callable[..., object]) -> "ray.ObjectRef[object]":
    """Call a function with an actor's instance, beside the loop of a compiled graph."""
    method = cast("Callable[[str], ActorMethod]", actor.__getattr__)("__ray_call__")
    called = method.remote(function)  # type: ignore[no-untyped-call]
    return cast("ray.ObjectRef[object]", called)
