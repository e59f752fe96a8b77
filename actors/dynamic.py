"""A session under the strategy `dynamic`: each input is a run of the graph by itself."""

from collections.abc import Callable
from typing import cast

from ray.dag import MultiOutputNode

from actors import functions, walk
from actors.coordinator import Coordinator
from actors.internals import Actor
from django_ray.errors import GraphRefused


class DynamicSession:
    """The same graph run dynamically, each input by itself, on actors that stay."""

    def __init__(
        self, coordinator: Coordinator, build: Callable[[], object], outputs: int
    ) -> None:
        self._coordinator = coordinator
        self._root = build()
        self._outputs = outputs
        root = self._root
        found = len(root.get_args()) if isinstance(root, MultiOutputNode) else 1
        if found != outputs:
            raise GraphRefused(
                f"the graph has {found:,} outputs, and {outputs:,} are declared"
            )
        self._kept: dict[int, Actor] = {}

    def invoke(self, value: object) -> object:
        """Run the graph on one input and return its output, of several a list."""
        found = walk.run(
            self._coordinator,
            self._root,
            (value,),
            max_in_flight=None,
            group=None,
            prefix=True,
            kept=self._kept,
        )
        if self._outputs == 1 and isinstance(self._root, MultiOutputNode):
            (found,) = cast("list[object]", found)
        return found

    def cancel(self) -> None:
        """End the graph's actors: the run has ended."""
        self.close()

    def close(self) -> None:
        """End the graph's actors."""
        functions.end_actors(tuple(self._kept.values()))
        self._kept.clear()
