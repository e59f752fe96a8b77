"""Walks a Ray DAG into a plan: its calls in topological order, and their arguments.

Nothing is executed and nothing is pickled here. The walk uses an explicit stack over what
each node was bound with, so that depth and width cost the same; a node used twice is one
node. Input and output nodes are no calls: what depends on them depends on what they hold.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import ray
from ray.dag import (
    CollectiveOutputNode,
    DAGNode,
    FunctionNode,
    InputAttributeNode,
    InputNode,
    MultiOutputNode,
)
from ray.dag.class_node import ClassMethodNode, ClassNode
from ray.dag.input_node import DAGInputData

from actors import internals, leaf
from actors.internals import Body
from django_ray.errors import GraphRefused, LimitExceeded, ProtocolError
from django_ray.protocol import text
from django_ray.protocol.limits import V1

Reference = ray.ObjectRef[object]

SOUGHT = (ray.ObjectRef, DAGNode)
ID_PATH = 200
"""Bytes of a callable's path in an id of ours, so that no id we make is too long."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One task of the graph; `after` holds the places of the calls it waits for.

    `nested` says that nodes stand among its arguments, `hidden` that some are inside
    objects other than lists, tuples and dicts.
    """

    node: FunctionNode
    path: str
    name: str | None
    after: tuple[int, ...]
    nested: bool
    hidden: bool
    references: tuple[Reference, ...]

    @property
    def label(self) -> str:
        """Return what people read: the name given by options, else the path."""
        return self.path if self.name is None else self.name


@dataclass(slots=True, eq=False)
class Plan:
    """A graph's calls, each behind everything it depends on.

    `values` holds by node identity what is known of it: of inputs from the start, of a
    call once it is submitted and until `forget`. `kept` are the calls the result needs.
    """

    root: DAGNode
    calls: list[Call] = field(default_factory=list)
    kept: tuple[int, ...] = ()
    values: dict[int, object] = field(default_factory=dict)

    def arguments(self, place: int) -> tuple[Sequence[object], dict[str, object]]:
        """Return what the call is submitted with: references in the place of nodes."""
        call = self.calls[place]
        args, kwargs = call.node.get_args(), call.node.get_kwargs()
        if not call.nested:
            return args, kwargs
        hidden = call.hidden
        return (
            [self._filled(arg, hidden) for arg in args],
            {key: self._filled(arg, hidden) for key, arg in kwargs.items()},
        )

    def set(self, place: int, value: object) -> None:
        """Note what a submitted call will give: a reference, or a list of them."""
        self.values[id(self.calls[place].node)] = value

    def forget(self, place: int) -> None:
        """Let go of a call's value."""
        self.values.pop(id(self.calls[place].node), None)

    def result(self) -> object:
        """Return what the root stands for, as references."""
        return self._value(self.root)

    def _value(self, node: DAGNode) -> object:
        if isinstance(node, MultiOutputNode):
            return [self._filled(output, False) for output in node.get_args()]
        return self.values[id(node)]

    def _filled(self, value: object, hidden: bool) -> object:
        """Replace nodes in exact lists, tuples and dicts; look into others by pickling."""
        if isinstance(value, DAGNode):
            return self._value(value)
        if type(value) is list:
            return [self._filled(item, hidden) for item in value]
        if type(value) is tuple:
            return tuple(self._filled(item, hidden) for item in value)
        if type(value) is dict:
            return {
                self._filled(key, hidden): self._filled(item, hidden)
                for key, item in value.items()
            }
        if not hidden or value is None or type(value) in ATOMS:
            return value
        return internals.replace(value, self._value)


ATOMS = frozenset((bool, int, float, str, bytes, ray.ObjectRef))
"""Kinds of argument that can hide no node."""


def plan(root: object, inputs: tuple[object, ...]) -> Plan:
    """Return the plan of a graph given its inputs; raise GraphRefused for what cannot run.

    Refused are what is no Ray DAG, actors and collective nodes, a dependent of a streaming
    generator, an input without a node for it, and a node for it without an input.
    """
    if not isinstance(root, DAGNode):
        raise GraphRefused("what is given is no Ray DAG made by bind()")
    order = _order(root)
    made = Plan(root)
    if bool(inputs) != any(isinstance(node, InputNode) for node in order):
        raise GraphRefused("inputs and an InputNode are given together or not at all")
    sources: dict[int, tuple[int, ...]] = {}
    streams: set[int] = set()
    for node in order:
        if isinstance(node, FunctionNode):
            call = _call(made, node, sources)
            if not streams.isdisjoint(call.after):
                raise GraphRefused("a node depends on a streaming generator")
            place = len(made.calls)
            if leaf.returns(internals.body(node), internals.options(node)) < 0:
                streams.add(place)
            made.calls.append(call)
            sources[id(node)] = (place,)
        elif isinstance(node, InputNode):
            made.values[id(node)] = _whole(inputs)
            sources[id(node)] = ()
        elif isinstance(node, InputAttributeNode):
            made.values[id(node)] = _part(node, inputs)
            sources[id(node)] = ()
        elif isinstance(node, MultiOutputNode):
            sources[id(node)] = _union(node, sources)
        else:
            raise GraphRefused(_refusal(node))
    made.kept = sources[id(root)]
    return made


@functools.lru_cache(maxsize=64)
def path(body: Body) -> str:
    """Return a callable's path as a label."""
    module = getattr(body, "__module__", "")
    name = getattr(body, "__qualname__", type(body).__name__)
    return text.label(f"{module}.{name}", V1.label)


def identify(
    calls: Sequence[Call], prefix: str, redacted: Callable[[str], str]
) -> list[str]:
    """Return the calls' ids; raise GraphRefused for a malformed or repeated one.

    A name stands as it is given but for secrets; a path is numbered by first visit.
    Contract 4.10.
    """
    visits: dict[str, int] = {}
    ids: list[str] = []
    for call in calls:
        if call.name is None:
            label = text.label(call.path, ID_PATH)
            number = visits.get(label, 0)
            visits[label] = number + 1
            ids.append(f"{prefix}{label}#{number}")
        else:
            ids.append(require_id(redacted(f"{prefix}{call.name}")))
    if len(set(ids)) != len(ids):
        raise GraphRefused("two nodes of the graph have one id")
    return ids


def require_id(value: str) -> str:
    """Return a node id as it is; raise GraphRefused, which never quotes it."""
    try:
        return text.require_line(value, "node_id", V1.node_id)
    except LimitExceeded as exc:
        raise GraphRefused(
            f"a node id is {exc.actual:,} bytes; the limit is {exc.limit:,}"
        ) from exc
    except ProtocolError as exc:
        raise GraphRefused(
            "a node id holds control characters or unpaired surrogates"
        ) from exc


def references(value: object) -> Iterator[Reference]:
    """Yield the references in a value and in its lists, tuples and dicts."""
    return (item for item in _visible(value) if isinstance(item, ray.ObjectRef))


def _visible(value: object) -> Iterator[Reference | DAGNode]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, SOUGHT):
            yield item
        elif type(item) is list or type(item) is tuple:
            stack.extend(item)
        elif type(item) is dict:
            stack.extend(item)
            stack.extend(item.values())


def _order(root: DAGNode) -> list[DAGNode]:
    """Return every node once, behind what it was bound with."""
    placed: dict[int, DAGNode] = {}
    opened = {id(root)}
    stack = [(root, iter(internals.upstream(root)))]
    while stack:
        node, waiting = stack[-1]
        for source in waiting:
            key = id(source)
            if key in placed:
                continue
            if key in opened:
                raise GraphRefused("the graph has a cycle")
            opened.add(key)
            stack.append((source, iter(internals.upstream(source))))
            break
        else:
            stack.pop()
            placed[id(node)] = node
    return list(placed.values())


def _call(made: Plan, node: FunctionNode, sources: dict[int, tuple[int, ...]]) -> Call:
    options = internals.options(node)
    name = options.get("name")
    upstream = internals.upstream(node)
    seen: set[int] = set()
    found: list[Reference] = []
    for item in _visible([*node.get_args(), *node.get_kwargs().values()]):
        if isinstance(item, DAGNode):
            seen.add(id(item))
        else:
            found.append(item)
    for source in upstream:
        if isinstance(source, InputNode | InputAttributeNode):
            found.extend(references(made.values[id(source)]))
    return Call(
        node=node,
        path=path(internals.body(node)),
        name=name if isinstance(name, str) else None,
        after=_union(node, sources),
        nested=bool(upstream),
        hidden=any(id(source) not in seen for source in upstream),
        references=tuple(found),
    )


def _union(node: DAGNode, sources: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    upstream = internals.upstream(node)
    if len(upstream) == 1:
        return sources[id(upstream[0])]
    return tuple(sorted({place for each in upstream for place in sources[id(each)]}))


def _whole(inputs: tuple[object, ...]) -> object:
    return inputs[0] if len(inputs) == 1 else DAGInputData(*inputs)  # type: ignore[no-untyped-call]


def _part(node: InputAttributeNode, inputs: tuple[object, ...]) -> object:
    """Return one part of the input, taken as the graph's author wrote it."""
    whole, key = _whole(inputs), node.key
    if isinstance(key, str) and internals.accessor(node) == "__getattr__":
        return getattr(whole, key)
    return whole[key]  # type: ignore[index]


def _refusal(node: DAGNode) -> str:
    if isinstance(node, CollectiveOutputNode):
        return "a collective node runs in compiled graphs only"
    if isinstance(node, ClassNode | ClassMethodNode):
        return "actors in a graph are not supported"
    return "a node is of a kind that is not supported"
