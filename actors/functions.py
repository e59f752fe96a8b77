"""What a run submits: its author's functions, each made remote once, and actors' methods.

A function is wrapped and carries its leaf's status as the last return. A class cannot be
wrapped: a method returns what its author says, and is known by its Ray task.
"""

import threading
from collections.abc import Callable, Sequence
from typing import cast

import ray

from actors import leaf
from actors.internals import Actor, Body, Options
from actors.leaf import BACKPRESSURE, STREAMING


class Function:
    """A user's function as this run submits it."""

    __slots__ = ("body", "has_status", "options", "remote", "returns")

    def __init__(self, body: Body, options: Options, *, observed: bool) -> None:
        self.body = body
        self.options = options
        self.returns = leaf.returns(body, options)
        self.has_status = observed
        make = leaf.wrap if observed else leaf.plain
        self.remote = make(body, options).remote


class Method:
    """A method of a live actor, as one call submits it; it keeps the actor alive."""

    __slots__ = ("has_status", "remote", "returns")

    def __init__(self, actor: Actor, name: str, options: Options, returns: int) -> None:
        self.returns = returns
        self.has_status = False
        told = {
            key: value
            for key, value in options.items()
            # A name is one node's, and Ray labels its metrics by it.
            if value is not None and key != "name"
        }
        # One that returns nothing has a return here: without one nobody could tell that
        # it has ended. Nobody consumes a stream before that: it must not wait for it.
        told["num_returns"] = "streaming" if returns == STREAMING else max(1, returns)
        told[BACKPRESSURE] = -1
        self.remote: Callable[..., object] = getattr(actor, name).options(**told).remote


class Functions:
    """The functions of one run: one for a body under its options."""

    def __init__(self, *, observed: bool) -> None:
        self._observed = observed
        self._lock = threading.Lock()
        self._known: dict[int, list[Function]] = {}

    def of(self, body: Body, options: Options, *, named: bool) -> Function:
        """Return the one remote function of a body under its options.

        Without its name where that names one node: names are then as many as nodes, each
        would be one more function to export, and Ray labels its metrics by them.
        """
        if not named and "name" in options:
            options = {key: options[key] for key in options if key != "name"}
        with self._lock:
            variants = self._known.setdefault(id(body), [])
            for known in variants:
                if known.options is options or known.options == options:
                    return known
            variants.append(Function(body, options, observed=self._observed))
            return variants[-1]


def make_actor(
    body: Body, options: Options, args: Sequence[object], kwargs: dict[str, object]
) -> Actor:
    """Make an actor of a class node; its constructor has not run when this returns."""
    # Ray takes options as a decorator's arguments, and a bare decorator without any.
    decorate = ray.remote(**options) if options else ray.remote  # type: ignore[call-overload]
    return cast(Actor, decorate(body).remote(*args, **kwargs))


def is_ours(options: Options) -> bool:
    """Claim that an actor of a graph ends with its run: nobody else may hold it by name."""
    return options.get("lifetime") != "detached" and not options.get("get_if_exists")


def end_actors(actors: Sequence[Actor]) -> None:
    """End actors at once, whatever they are at."""
    for actor in actors:
        ray.kill(actor, no_restart=True)
