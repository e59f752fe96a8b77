"""What is known of a graph's values, and arguments with references in the place of nodes.

Exact lists, tuples and dicts are walked; nodes inside any other object are found and
replaced in a copy made by pickling, as Ray's own execution does it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import ray
from ray.dag import DAGNode, InputAttributeNode, InputNode, MultiOutputNode
from ray.dag.class_node import ClassMethodNode, ClassNode
from ray.dag.input_node import DAGInputData

from actors import functions, internals
from actors.internals import Actor

Reference = ray.ObjectRef[object]

ATOMS = frozenset((type(None), bool, int, float, str, bytes, ray.ObjectRef))
"""Kinds of argument that can hide no node."""

CONTAINERS = frozenset((list, tuple, dict))
"""Kinds of argument that are walked."""


class Stream(tuple[Reference, ...]):
    """The references to all items of a stream."""

    __slots__ = ()


class Given:
    """A part of the graph's input in the graph's result: it is handed back as it is."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class _Filling:
    """One argument on its way to being filled: a container that stands in it twice is one."""

    __slots__ = ("_hidden", "_known", "_replace")

    def __init__(self, replace: Callable[[DAGNode], object], hidden: bool) -> None:
        self._replace = replace
        self._hidden = hidden
        self._known: dict[int, object] = {}

    def of(self, value: object) -> object:
        """Return what stands in a value's place."""
        if isinstance(value, DAGNode):
            return self._replace(value)
        kind = type(value)
        if kind in CONTAINERS:
            known = self._known.get(id(value))
            return self._copied(value) if known is None else known
        if not self._hidden or kind in ATOMS:
            return value
        return internals.replace(value, self._replace)

    def _copied(self, value: object) -> object:
        # Lists and dicts are known before they are filled: they may hold themselves.
        if isinstance(value, list):
            items: list[object] = []
            self._known[id(value)] = items
            items.extend(map(self.of, cast("list[object]", value)))
            return items
        if isinstance(value, dict):
            pairs: dict[object, object] = {}
            self._known[id(value)] = pairs
            for key, item in cast("dict[object, object]", value).items():
                pairs[self.of(key)] = self.of(item)
            return pairs
        several = tuple(map(self.of, cast("tuple[object, ...]", value)))
        self._known[id(value)] = several
        return several


class Values:
    """By node: of inputs what was given, of a call what its submission gave.

    An actor of the graph is made when it is first asked for; `actors` are those that are
    the graph's own, and so to be ended with its run.
    """

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self._known: dict[int, object] = {}
        self._kept: dict[int, Actor] | None = None

    def keep_in(self, kept: dict[int, Actor] | None) -> None:
        """Take the actors made before from `kept`, and leave those made now in it."""
        if kept is not None:
            self._known.update(kept)
            self._kept = kept

    def set(self, node: DAGNode, value: object) -> None:
        """Note what a node stands for."""
        self._known[id(node)] = value

    def forget(self, node: DAGNode) -> None:
        """Let go of a node's value."""
        self._known.pop(id(node), None)

    def of(self, node: DAGNode) -> object:
        """Return what stands in a node's place among arguments."""
        if isinstance(node, MultiOutputNode):
            return [self.filled(output, True) for output in node.get_args()]
        if isinstance(node, ClassMethodNode) and node.class_method_call is not None:
            several = cast("Sequence[object]", self.of(node.class_method_call))
            return several[node.output_idx or 0]
        if isinstance(node, ClassNode):
            return self.actor(node)
        return self._known[id(node)]

    def result(self, node: DAGNode) -> object:
        """Return what a root stands for: references, and parts of the input as `Given`."""
        if isinstance(node, MultiOutputNode):
            return [
                self.filled(output, True, self.result) for output in node.get_args()
            ]
        if isinstance(node, InputNode | InputAttributeNode):
            return Given(self.of(node))
        return self.of(node)

    def arguments(
        self, node: DAGNode, hidden: bool
    ) -> tuple[Sequence[object], dict[str, object]]:
        """Return what a node was bound with, filled."""
        return (
            [self.filled(arg, hidden) for arg in node.get_args()],
            {key: self.filled(arg, hidden) for key, arg in node.get_kwargs().items()},
        )

    def filled(
        self,
        value: object,
        hidden: bool,
        of: Callable[[DAGNode], object] | None = None,
    ) -> object:
        """Return `value` with every node replaced; `hidden` ones in a copy of their object."""
        return _Filling(of or self.of, hidden).of(value)

    def actor(self, node: ClassNode) -> Actor:
        """Return an actor of the graph, made now if it is not there yet."""
        known = self._known.get(id(node))
        if known is not None:
            return cast(Actor, known)
        options = internals.options(node)
        args, kwargs = self.arguments(node, True)
        actor = functions.make_actor(internals.body(node), options, args, kwargs)
        self.set(node, actor)
        if self._kept is not None:
            self._kept[id(node)] = actor
        elif functions.is_ours(options):
            self.actors.append(actor)
        return actor


def whole(inputs: tuple[object, ...]) -> object:
    """Return what an InputNode stands for."""
    return inputs[0] if len(inputs) == 1 else DAGInputData(*inputs)  # type: ignore[no-untyped-call]


def part(node: InputAttributeNode, inputs: tuple[object, ...]) -> object:
    """Return one part of the input, taken as the graph's author wrote it."""
    given, key = whole(inputs), node.key
    is_one = not isinstance(given, DAGInputData)
    if isinstance(key, str) and is_one and internals.accessor(node) == "__getattr__":
        return getattr(given, key)
    return given[key]  # type: ignore[index]


def references(value: object) -> Iterator[Reference]:
    """Yield the references in a value and in its lists, tuples and dicts."""
    return (item for item in leaves(value) if isinstance(item, ray.ObjectRef))


def leaves(value: object) -> Iterator[object]:
    """Yield what a value holds, its lists, tuples and dicts walked, each of them once."""
    stack = [value]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind not in CONTAINERS:
            yield item
        elif id(item) not in seen:
            # A container may stand in itself, and in many places.
            seen.add(id(item))
            stack.extend(item)  # type: ignore[arg-type]
            if kind is dict:
                stack.extend(item.values())  # type: ignore[attr-defined]
