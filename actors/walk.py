"""Runs a graph in the order of its dependencies.

A node is submitted when all it depends on has succeeded, so the window holds runnable work
alone and SKIPPED is exact. Everything finishes that does not depend on a failed node.
Contract 4.10 and 4.11.
"""

from collections import deque
from collections.abc import Callable

from actors import dag, internals
from actors.coordinator import Coordinator
from actors.dag import Call, Plan
from actors.window import Flight, Window, fetch

WAITING, SUBMITTED, ENDED = range(3)

Group = str | Callable[[str], str] | None


def run(
    coordinator: Coordinator,
    root: object,
    inputs: tuple[object, ...],
    *,
    max_in_flight: int | None,
    group: Group,
    prefix: bool,
) -> object:
    """Run a Ray DAG to its end and return the root's value, or raise the first failure.

    The whole graph is checked and registered before anything is submitted.
    """
    call = coordinator.begin()
    plan = dag.plan(root, inputs)
    ids = dag.identify(plan.calls, f"{call}." if prefix else "", coordinator.redacted)
    window = Window(coordinator, max_in_flight)
    try:
        walk = Walk(coordinator, window, plan, ids, group)
        coordinator.declare(call, len(plan.calls))
        walk.finish()
    finally:
        window.cancel()
    if walk.failure is not None:
        raise walk.failure
    return fetch(plan.result())


class Walk:
    """One graph on its way: what waits, what is ready, what may be forgotten."""

    def __init__(
        self,
        coordinator: Coordinator,
        window: Window,
        plan: Plan,
        ids: list[str],
        group: Group,
    ) -> None:
        self.failure: Exception | None = None
        self._coordinator = coordinator
        self._window = window
        self._plan = plan
        self._failed = len(ids)
        self._ordinals: list[int] = []
        self._states = bytearray(len(ids))
        self._waits = [len(call.after) for call in plan.calls]
        self._users = [0] * len(ids)
        self._dependents: list[list[int]] = [[] for _ in ids]
        for place, call in enumerate(plan.calls):
            for source in call.after:
                self._users[source] += 1
                self._dependents[source].append(place)
        for place in plan.kept:
            self._users[place] += 1
        self._ready = deque(
            place for place, waits in enumerate(self._waits) if not waits
        )
        self._register(ids, group)

    def finish(self) -> None:
        """Run everything that can run; interrupted, report the rest as cancelled."""
        window, ready = self._window, self._ready
        try:
            while ready or window.in_flight:
                while ready and window.has_room:
                    self._submit(ready.popleft())
                for flight in window.settle():
                    self._ended(flight)
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Report the nodes that were not submitted as cancelled."""
        for ordinal, state in zip(self._ordinals, self._states, strict=False):
            if state == WAITING:
                self._coordinator.cancelled(ordinal)

    def _register(self, ids: list[str], group: Group) -> None:
        ordinals, coordinator = self._ordinals, self._coordinator
        try:
            for node_id, call in zip(ids, self._plan.calls, strict=True):
                sources = [ordinals[place] for place in call.after]
                if call.references:
                    sources += coordinator.nodes_of(call.references)
                stage = _stage(call, group)
                ordinals.append(
                    coordinator.register(node_id, call.label, stage, sources)
                )
        except BaseException:
            # Ids of this graph are known to differ: an earlier call has taken one.
            self._abandon()
            raise

    def _submit(self, place: int) -> None:
        call = self._plan.calls[place]
        function = self._coordinator.function(
            internals.body(call.node), internals.options(call.node), named=False
        )
        args, kwargs = self._plan.arguments(place)
        flight = Flight(self._ordinals[place], place)
        self._states[place] = SUBMITTED
        self._window.submit(flight, function, args, kwargs)
        if flight.ended:
            self._ended(flight)
        elif flight.stream is None:
            self._plan.set(place, flight.value)

    def _ended(self, flight: Flight) -> None:
        place = flight.place
        self._close(place)
        if flight.error is not None:
            if place < self._failed:
                self._failed, self.failure = place, flight.error
            self._skip(place)
            return
        if flight.value is not None:
            self._plan.set(place, flight.value)
        for dependent in self._dependents[place]:
            self._waits[dependent] -= 1
            if not self._waits[dependent] and self._states[dependent] == WAITING:
                self._ready.append(dependent)

    def _skip(self, failed: int) -> None:
        """Skip everything that depends on a failed node, however far behind it."""
        stack = [failed]
        while stack:
            for place in self._dependents[stack.pop()]:
                if self._states[place] == WAITING:
                    self._close(place)
                    self._coordinator.skipped(self._ordinals[place])
                    stack.append(place)

    def _close(self, place: int) -> None:
        """Note an end, and forget the values that nothing waits for any more."""
        self._states[place] = ENDED
        for source in self._plan.calls[place].after:
            self._users[source] -= 1
            if not self._users[source]:
                self._plan.forget(source)


def _stage(call: Call, group: Group) -> str:
    if group is None:
        return call.path
    return group if isinstance(group, str) else group(call.label)
