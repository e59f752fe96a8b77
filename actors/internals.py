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
from ray.exceptions import GetTimeoutError

from django_ray.errors import ConfigurationError

if TYPE_CHECKING:
    from ray.dag import DAGNode, FunctionNode, InputAttributeNode

RELEASES = "2.60."
"""The releases whose private names these are."""

Body = Callable[..., object]
Options = Mapping[str, object]

RAW = b"RAW"
"""Ray's mark of a value that is plain bytes; an error's mark is a number."""


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


def upstream(node: "DAGNode") -> "list[DAGNode]":
    """Return the nodes `node` was bound with, containers included, with duplicates."""
    nodes: list[DAGNode] = node._upstream_nodes
    return nodes


def body(node: "FunctionNode") -> Body:
    """Return the user's function of a node."""
    function: Body = node._body
    return function


def options(node: "FunctionNode") -> Options:
    """Return a node's options uncopied: their identity says which nodes share them."""
    bound: Options = node._bound_options
    return bound


def accessor(node: "InputAttributeNode") -> str:
    """Return `__getattr__` or `__getitem__`: how the node takes its part of the input."""
    method: str = node._accessor_method
    return method


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
    """Claim that an ended ref holds an error, without fetching or unpickling its value.

    None when the value lies in another node's store, where only fetching it would tell.
    """
    try:
        (held,) = _core().get_objects([ref], 0)
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
