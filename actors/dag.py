"""Walks a Ray DAG into a plan: its calls in topological order, and their arguments.

Nothing is executed here. The walk uses an explicit stack over what each node was bound
with, so that depth and width cost the same; a node used twice is one node. Calls are tasks
and methods of actors. Inputs, outputs and the making of an actor are none: what depends on
them depends on what they hold.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ray import ObjectRef
from ray.dag import (
    CollectiveOutputNode,
    DAGNode,
    FunctionNode,
    InputAttributeNode,
    InputNode,
    MultiOutputNode,
)
from ray.dag.class_node import ClassMethodNode, ClassNode

from actors import ids, internals, leaf, values
from actors.internals import Actor, Options
from actors.values import Reference, Values
from django_ray.errors import GraphRefused


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One task of the graph; `after` holds the places of the calls it waits for.

    `before` is the place of the call that the same actor is given just before this one:
    it orders their submission, and is no dependency. `nested` says that nodes stand among
    the arguments, `hidden` that some are inside objects other than lists, tuples and dicts.
    """

    node: FunctionNode | ClassMethodNode
    path: str
    name: str | None
    after: tuple[int, ...]
    nested: bool
    hidden: bool
    references: tuple[Reference, ...]
    returns: int
    before: int | None = None

    @property
    def label(self) -> str:
        """Return what people read: the name given by options, else the path."""
        return self.path if self.name is None else self.name


@dataclass(slots=True, eq=False)
class Plan:
    """A graph's calls, each behind everything it depends on.

    `values` holds what is known of each node: of inputs from the start, of a call once it
    is submitted and until `forget`. `kept` are the calls the result needs.
    """

    root: DAGNode
    calls: list[Call] = field(default_factory=list)
    kept: tuple[int, ...] = ()
    values: Values = field(default_factory=Values)

    def arguments(self, place: int) -> tuple[Sequence[object], dict[str, object]]:
        """Return what the call is submitted with: references in the place of nodes."""
        call = self.calls[place]
        if not call.nested:
            return call.node.get_args(), call.node.get_kwargs()
        return self.values.arguments(call.node, call.hidden)

    def actor(self, node: ClassMethodNode) -> Actor:
        """Return the actor whose method is called, made if it is the graph's own."""
        on = internals.parent(node)
        return self.values.actor(on) if isinstance(on, ClassNode) else on

    def set(self, place: int, value: object) -> None:
        """Note what a submitted call will give: a reference, or a list of them."""
        self.values.set(self.calls[place].node, value)

    def forget(self, place: int) -> None:
        """Let go of a call's value."""
        self.values.forget(self.calls[place].node)

    def result(self) -> object:
        """Return what the root stands for, as references."""
        return self.values.result(self.root)


def plan(root: object, inputs: tuple[object, ...]) -> Plan:
    """Return the plan of a graph given its inputs; raise GraphRefused for what cannot run.

    Refused are what is no Ray DAG, collective nodes, a dependent of a streaming generator,
    an input without a node for it, and a node for it without an input.
    """
    if not isinstance(root, DAGNode):
        raise GraphRefused("what is given is no Ray DAG made by bind()")
    order = ordered(root)
    if bool(inputs) != any(isinstance(node, InputNode) for node in order):
        raise GraphRefused("inputs and an InputNode are given together or not at all")
    return _planned(root, order, inputs)


def outline(root: object) -> Plan:
    """Return the plan of a graph whose one input comes later, again and again.

    Refused are what is no Ray DAG, and what `plan` refuses whatever the input is.
    """
    if not isinstance(root, DAGNode):
        raise GraphRefused("what is given is no Ray DAG made by bind()")
    return _planned(root, ordered(root), None)


def _planned(
    root: DAGNode, order: list[DAGNode], inputs: tuple[object, ...] | None
) -> Plan:
    planner = _Planner(Plan(root), inputs)
    for node in order:
        planner.add(node)
    planner.plan.kept = planner.sources[id(root)]
    return planner.plan


def ordered(root: DAGNode) -> list[DAGNode]:
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


class _Planner:
    """Adds nodes to a plan in their order; `sources` are the calls that each stands on."""

    def __init__(self, made: Plan, inputs: tuple[object, ...] | None) -> None:
        self.plan = made
        self.sources: dict[int, tuple[int, ...]] = {}
        self._inputs = inputs
        self._streams: set[int] = set()
        self._last: dict[object, int] = {}
        self._constructed: dict[int, list[Reference]] = {}

    def add(self, node: DAGNode) -> None:
        """Add the next node; refuse one of a kind that cannot run."""
        if isinstance(node, FunctionNode):
            self._place(node, self._function(node))
        elif isinstance(node, CollectiveOutputNode):
            raise GraphRefused("a collective node runs in compiled graphs only")
        elif isinstance(node, ClassMethodNode):
            if node.class_method_call is None:
                self._place(node, self._method(node))
            else:
                self.sources[id(node)] = self.sources[id(node.class_method_call)]
        elif isinstance(node, InputNode):
            given = self._inputs
            self._give(node, None if given is None else values.whole(given))
        elif isinstance(node, InputAttributeNode):
            given = self._inputs
            self._give(node, None if given is None else values.part(node, given))
        elif isinstance(node, MultiOutputNode):
            self.sources[id(node)] = self._union(internals.upstream(node))
        elif isinstance(node, ClassNode):
            self.sources[id(node)] = self._union(internals.upstream(node))
            self._constructed[id(node)] = self._references(node, bound(node))
        else:
            raise GraphRefused("a node is of a kind that is not supported")

    def _give(self, node: DAGNode, value: object) -> None:
        self.plan.values.set(node, value)
        self.sources[id(node)] = ()

    def _place(self, node: DAGNode, call: Call) -> None:
        if not self._streams.isdisjoint(call.after):
            raise GraphRefused("a node depends on a streaming generator")
        place = len(self.plan.calls)
        if call.returns == leaf.STREAMING:
            self._streams.add(place)
        self.plan.calls.append(call)
        self.sources[id(node)] = (place,)

    def _function(self, node: FunctionNode) -> Call:
        body, options = internals.body(node), internals.options(node)
        upstream, held = internals.upstream(node), bound(node)
        seen = {id(item) for item in held if isinstance(item, DAGNode)}
        return Call(
            node=node,
            path=ids.path(body),
            name=ids.name(options),
            after=self._union(upstream),
            nested=bool(upstream),
            hidden=any(id(source) not in seen for source in upstream),
            references=tuple(self._references(node, held)),
            returns=leaf.returns(body, options),
        )

    def _method(self, node: ClassMethodNode) -> Call:
        on, name = internals.parent(node), node.get_method_name()
        options = internals.options(node)
        held = bound(node)
        data = [item for item in held if isinstance(item, DAGNode)]
        # What it was bound with holds its actor and the call before as well, which are no
        # arguments of it, but may be among those too.
        hidden = _hidden(held)
        data += hidden
        found = self._references(node, held)
        if isinstance(on, ClassNode):
            written = internals.users_class(on)
            path = f"{written.__module__}.{written.__qualname__}.{name}"
            after = self._union([*data, on])
            found += self._constructed[id(on)]
            returns = _returns(getattr(written, name), options)
            key: object = id(on)
        else:
            path = f"{internals.class_path(on)}.{name}"
            after = self._union(data)
            returns = leaf.number(options.get("num_returns"))
            key = internals.identity(on)
        before = self._last.get(key)
        self._last[key] = len(self.plan.calls)
        return Call(
            node=node,
            path=ids.shown(path),
            name=ids.name(options),
            after=after,
            nested=bool(data),
            hidden=bool(hidden),
            references=tuple(found),
            returns=returns,
            before=before,
        )

    def _references(self, node: DAGNode, held: list[object]) -> list[Reference]:
        """Return the references a node was bound with, those in its inputs too."""
        found = [item for item in held if isinstance(item, ObjectRef)]
        for source in internals.upstream(node):
            if isinstance(source, InputNode | InputAttributeNode):
                found.extend(values.references(self.plan.values.of(source)))
        return found

    def _union(self, nodes: Sequence[DAGNode]) -> tuple[int, ...]:
        sources = self.sources
        if len(nodes) == 1:
            return sources[id(nodes[0])]
        return tuple(sorted({place for node in nodes for place in sources[id(node)]}))


def bound(node: DAGNode) -> list[object]:
    """Return what stands among a node's arguments, containers walked."""
    return list(values.leaves([*node.get_args(), *node.get_kwargs().values()]))


def _hidden(held: list[object]) -> list[DAGNode]:
    """Return the nodes inside objects other than lists, tuples and dicts."""
    rest = [
        item
        for item in held
        if not isinstance(item, DAGNode) and type(item) not in values.ATOMS
    ]
    return internals.hidden(rest) if rest else []


def _returns(method: Callable[..., object], options: Options) -> int:
    """Return how many values a method returns by its options, its author, or its kind."""
    number = options.get("num_returns", internals.method_returns(method))
    generates = inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(
        method
    )
    return leaf.number("streaming" if number is None and generates else number)
