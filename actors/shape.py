"""Which graphs can be compiled, what their methods are, and their actors made for good.

A compiled graph is methods of actors that its own `build_graph` makes: each takes the
session's one input or what other methods gave, at the top level of its arguments, and
gives one value. What holds beyond that is Ray's to run dynamically.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ray.dag import DAGNode, InputNode, MultiOutputNode
from ray.dag.class_node import ClassMethodNode, ClassNode

from actors import dag, functions, internals
from actors.dag import Call, Plan
from actors.internals import Actor
from django_ray.errors import GraphRefused
from django_ray.lifecycle.terms import MAXIMUM_OUTPUTS


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A graph that can be compiled: its plan, and the place of the call behind each slot."""

    plan: Plan
    outputs: tuple[int, ...]

    @property
    def calls(self) -> list[Call]:
        """Return the graph's methods, each behind everything it depends on."""
        return self.plan.calls


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A graph on live actors: its root gives a list with a value for each slot.

    `actors` are its participants, each once; `places` is the actor of each call by index.
    """

    root: MultiOutputNode
    actors: tuple[Actor, ...]
    places: tuple[int, ...]


def check(root: object, outputs: int) -> Shape:
    """Return the shape of a graph, without making anything; raise GraphRefused for others."""
    plan = dag.outline(root)
    order = dag.ordered(cast(DAGNode, root))
    inputs = [node for node in order if isinstance(node, InputNode)]
    if len(inputs) != 1:
        raise GraphRefused("a compiled graph has exactly one InputNode")
    for node in order:
        _check_kind(node, root)
    slots = _slots(root)
    if not 1 <= len(slots) <= MAXIMUM_OUTPUTS or len(slots) != outputs:
        raise GraphRefused(
            f"the graph has {len(slots):,} outputs, and {outputs:,} are declared"
        )
    for call in plan.calls:
        _check_call(call)
    places = {id(call.node): place for place, call in enumerate(plan.calls)}
    found = tuple(places.get(id(slot), -1) for slot in slots)
    if -1 in found or len(set(found)) < len(found):
        raise GraphRefused("each output of a compiled graph is a method of its own")
    _check_leaves(plan.calls, found)
    return Shape(plan, found)


def _check_kind(node: DAGNode, root: object) -> None:
    if isinstance(node, ClassNode):
        if internals.upstream(node):
            raise GraphRefused("an actor of a compiled graph is made of plain values")
        if not functions.is_ours(internals.options(node)):
            raise GraphRefused("an actor of a compiled graph ends with its session")
    elif isinstance(node, MultiOutputNode):
        if node is not root:
            raise GraphRefused("a compiled graph has its outputs at its root alone")
    elif not isinstance(node, InputNode | ClassMethodNode):
        raise GraphRefused("a compiled graph holds methods of actors alone")


def _slots(root: object) -> Sequence[object]:
    if isinstance(root, MultiOutputNode):
        return root.get_args()
    return [root]


def _check_call(call: Call) -> None:
    node = cast(ClassMethodNode, call.node)
    args, kwargs = node.get_args(), node.get_kwargs()
    given = sum(isinstance(arg, DAGNode) for arg in args)
    deep = sum(isinstance(item, DAGNode) for item in dag.bound(node))
    if call.hidden or deep > given or call.references:
        raise GraphRefused("a compiled method takes nodes as whole arguments alone")
    if any(isinstance(value, DAGNode) for value in kwargs.values()):
        raise GraphRefused("a compiled method takes nodes by position alone")
    if not given:
        raise GraphRefused("a compiled method depends on the input or another method")
    if call.returns != 1:
        raise GraphRefused("a compiled method gives one value")
    on = internals.parent(node)
    if not isinstance(on, ClassNode):
        if not internals.is_own(on):
            raise GraphRefused("an actor of a compiled graph is made by build_graph")
        return
    method = getattr(internals.users_class(on), node.get_method_name())
    if inspect.iscoroutinefunction(method):
        raise GraphRefused("a compiled method is not a coroutine")


def _check_leaves(calls: list[Call], outputs: tuple[int, ...]) -> None:
    used = {source for call in calls for source in call.after} | set(outputs)
    if len(used) < len(calls):
        raise GraphRefused("every method of a compiled graph leads to an output")


def bind(shape: Shape) -> Bound:
    """Return the graph on live actors; those that it only describes are made here."""
    actors: dict[bytes, Actor] = {}
    places: list[int] = []
    made: dict[int, DAGNode] = {}
    with InputNode() as given:
        for call in shape.calls:
            node = cast(ClassMethodNode, call.node)
            actor = shape.plan.actor(node)
            key = internals.identity(actor)
            actors.setdefault(key, actor)
            places.append(list(actors).index(key))
            args = [_replaced(arg, made, given) for arg in node.get_args()]
            method = getattr(actor, node.get_method_name())
            made[id(node)] = method.bind(*args, **node.get_kwargs())
        slots = [made[id(shape.calls[place].node)] for place in shape.outputs]
        root = MultiOutputNode(slots)
    return Bound(root, tuple(actors.values()), tuple(places))


def _replaced(arg: object, made: dict[int, DAGNode], given: InputNode) -> object:
    if not isinstance(arg, DAGNode):
        return arg
    return given if isinstance(arg, InputNode) else made[id(arg)]
