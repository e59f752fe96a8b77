"""Runs a graph in the order of its dependencies.

A node is submitted when all it depends on has succeeded, so the window holds runnable work
alone and SKIPPED is exact. Everything finishes that does not depend on a failed node.
Contract 4.10 and 4.11.
"""

from collections import deque
from collections.abc import Callable

from ray.dag.class_node import ClassMethodNode

from actors import dag, functions, ids, internals
from actors.coordinator import Coordinator
from actors.dag import Call, Plan
from actors.functions import Function, Method
from actors.internals import Actor
from actors.values import Stream
from actors.window import Flight, Window, fetch
from django_ray.errors import ConfigurationError, GraphRefused

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
    kept: dict[int, Actor] | None = None,
) -> object:
    """Run a Ray DAG to its end and return the root's value, or raise the first failure.

    The whole graph is checked and registered before anything is submitted. `kept` are the
    graph's actors by node, which the caller ends: what is made is added to it.
    """
    if not (isinstance(group, str | None) or callable(group)):
        raise ConfigurationError("group is neither text nor a function.")
    call = coordinator.begin()
    plan = dag.plan(root, inputs)
    plan.values.keep_in(kept)
    named = ids.identify(plan.calls, f"{call}." if prefix else "", coordinator.redacted)
    window = Window(coordinator, max_in_flight)
    try:
        walk = Walk(coordinator, window, plan, named, group)
        coordinator.declare(call, len(plan.calls))
        walk.finish()
    except BaseException:
        window.cancel()
        # What their methods are at is abandoned.
        functions.end_actors(plan.values.actors)
        raise
    window.cancel()
    return walk.result()


class Walk:
    """One graph on its way: what waits, what is ready, what may be forgotten."""

    def __init__(
        self,
        coordinator: Coordinator,
        window: Window,
        plan: Plan,
        named: list[str],
        group: Group,
    ) -> None:
        self.failure: Exception | None = None
        self._coordinator = coordinator
        self._window = window
        self._plan = plan
        self._failed = len(named)
        self._ordinals: list[int] = []
        self._states = bytearray(len(named))
        self._waits = [
            len(call.after) + (call.before is not None) for call in plan.calls
        ]
        self._next = {
            call.before: place
            for place, call in enumerate(plan.calls)
            if call.before is not None
        }
        self._passed: set[int] = set()
        self._users = [0] * len(named)
        self._dependents: list[list[int]] = [[] for _ in named]
        for place, call in enumerate(plan.calls):
            for source in call.after:
                self._users[source] += 1
                self._dependents[source].append(place)
        for place in plan.kept:
            self._users[place] += 1
        self._ready = deque(
            place for place, waits in enumerate(self._waits) if not waits
        )
        self._register(named, group)

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

    def result(self) -> object:
        """Return the root's value, or raise the first failure by ordinal."""
        plan, coordinator = self._plan, self._coordinator
        if self.failure is not None:
            coordinator.keep(plan.values.actors)
            raise self.failure
        for place in plan.kept:
            value = plan.values.of(plan.calls[place].node)
            if isinstance(value, Stream):
                coordinator.hand_out(value, self._ordinals[place])
        found = fetch(plan.result())
        coordinator.keep(plan.values.actors)
        return found

    def _abandon(self) -> None:
        """Report the nodes that were not submitted as cancelled."""
        for ordinal, state in zip(self._ordinals, self._states, strict=False):
            if state == WAITING:
                self._coordinator.cancelled(ordinal)

    def _register(self, named: list[str], group: Group) -> None:
        ordinals, coordinator = self._ordinals, self._coordinator
        try:
            for node_id, call in zip(named, self._plan.calls, strict=True):
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
        flight = Flight(self._ordinals[place], place)
        self._states[place] = SUBMITTED
        try:
            function = self._function(place)
            args, kwargs = self._plan.arguments(place)
        except Exception as exc:
            # Actors and arguments are the user's: one that cannot be made fails its node.
            self._window.fail(flight, exc)
        else:
            self._window.submit(flight, function, args, kwargs)
        self._pass(place)
        if flight.ended:
            self._ended(flight)
        elif flight.stream is None:
            self._plan.set(place, flight.value)

    def _function(self, place: int) -> Function | Method:
        call = self._plan.calls[place]
        node = call.node
        if isinstance(node, ClassMethodNode):
            actor = self._plan.actor(node)
            options = internals.options(node)
            return Method(actor, node.get_method_name(), options, call.returns)
        return self._coordinator.function(
            internals.body(node), internals.options(node), named=False
        )

    def _pass(self, place: int) -> None:
        """Let the next call on the same actor be submitted, past those that are skipped."""
        following: int | None = place
        while following is not None:
            self._passed.add(following)
            following = self._next.get(following)
            if following is not None and self._states[following] == WAITING:
                self._loosen(following)
                return

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
            self._loosen(dependent)

    def _loosen(self, place: int) -> None:
        """Note that a call waits for one thing less."""
        self._waits[place] -= 1
        if not self._waits[place] and self._states[place] == WAITING:
            self._ready.append(place)

    def _skip(self, failed: int) -> None:
        """Skip everything that depends on a failed node, however far behind it."""
        stack = [failed]
        while stack:
            for place in self._dependents[stack.pop()]:
                if self._states[place] == WAITING:
                    self._close(place)
                    self._coordinator.skipped(self._ordinals[place])
                    stack.append(place)
                    before = self._plan.calls[place].before
                    if before is None or before in self._passed:
                        self._pass(place)

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
    stage: object = group if isinstance(group, str) else group(call.label)
    if not isinstance(stage, str):
        raise GraphRefused("group gives something else than text")
    return stage
