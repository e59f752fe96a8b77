"""What a task author calls: run a graph, fan out over items, report progress.

    counts = fan_out(measure, paths, max_in_flight=64, refs=True)
    return run(summarize.bind(*counts))

A function whose output is worth a look names a projector, with `@preview(head)` below
`@ray.remote`.

Inside a Django task that Ray runs, each task becomes a node that readers see. Anywhere else
the same work is done and nobody watches: outside of a run, and inside a leaf, which is a
remote function that a run has started. Nothing here loads Ray or Django on import.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django_ray.errors import ConfigurationError
from django_ray.lifecycle.budgets import LONGEST_S, Deadlines
from django_ray.protocol import preview as previews
from django_ray.protocol.vocabulary import Effects

LEAST_IDLE_S = 0.1
"""A session that may stand idle for less would be compiled anew for each input."""

if TYPE_CHECKING:
    from actors.coordinator import Coordinator
    from actors.session import Session
    from actors.voice import Voice


@dataclass(frozen=True, slots=True)
class Failure:
    """What `fan_out(…, errors="yield")` yields in the place of an item that failed.

    `index` is the item's place among the items, from 0. `message` is the error's class and
    text, without secrets, at most 2 KiB and a few characters.
    """

    index: int
    message: str


def run(
    dag: object,
    *inputs: object,
    max_in_flight: int | None = None,
    group: str | Callable[[str], str] | None = None,
    prefix: bool = True,
) -> Any:  # noqa: ANN401 (it is what the author's own function returns)
    """Run a Ray DAG of functions and actors' methods and return the value of its root.

    `dag` is what `.bind()` made; `inputs` are what an InputNode in it stands for, with
    names as one DAGInputData. The root gives its value: a list of values for `num_returns`
    above 1 and for a MultiOutputNode, a tuple of ObjectRefs for a streaming generator.
    Arguments may hold nodes, and ObjectRefs of this run, at the top level and in lists,
    tuples and dicts: each becomes an edge. Ray passes the value of one at the top level,
    and the ObjectRef of one inside a container.

    An actor that the graph makes is no node; it is made for its first call, and ended when
    nobody holds it any more, at the latest with the run, unless its options leave it to
    others. The calls on one actor are submitted in the graph's order, which makes no edge.

    At most `max_in_flight` tasks are submitted and not ended, by default four for each CPU
    of the cluster. A task is submitted when everything it depends on has succeeded. When
    one fails, all that does not depend on it runs to its end, the rest is skipped, and the
    first failure in the graph's order is raised as Ray raises it.

    A node's id is `<call>.<name>` with a name given by `.options(name=…)`, which then must
    be unique in the graph and within 256 bytes, else `<call>.<path>#<n>`; `<call>` counts
    the calls of this module in the run. `prefix=False` leaves `<call>.` out, for graphs
    that bring their own ids: those must be unique in the run. `group` names the stage of
    the nodes, or finds it from each node's name; by default it is the function's path.

    Raises GraphRefused, before anything of the graph is submitted, for a cycle, a malformed
    or repeated id, a collective node, and a dependent of a streaming generator.
    """
    from actors import walk

    return walk.run(
        _coordinator(),
        dag,
        inputs,
        max_in_flight=max_in_flight,
        group=group,
        prefix=prefix,
    )


def fan_out(
    fn: object,
    items: Iterable[object],
    *,
    max_in_flight: int | None = None,
    key: Callable[[Any], str | int] | None = None,
    group: str | None = None,
    refs: bool = False,
    errors: Literal["raise", "yield"] = "raise",
) -> Iterator[Any]:
    """Call a remote function or an actor's method for each item; yield results in order.

    Lazy: `items` may be endless, each is taken when there is room for its task, and nothing
    happens before the first result is asked for. At most `max_in_flight` tasks are
    submitted and not ended, by default four for each CPU of the cluster, and at most four
    times as many results (64 at least) wait to be consumed. `fn` is what `@ray.remote` or
    its `.options(…)` made, or a method of an actor at hand; it is called with the item
    alone.

    With `refs=True` an ObjectRef is yielded, when its item has succeeded, and the value
    stays where it is; given to a later `run` or `fan_out` it makes an edge. A function of
    several returns gives a list, a streaming generator the tuple of its ObjectRefs.

    A failure is raised in its item's place, and what is in flight is cancelled; with
    `errors="yield"` a Failure is yielded there and the rest goes on. What iterating
    `items` raises is raised after the results of the items before it. Closing the iterator
    early, by `close()` or by letting go of it, cancels what is in flight: running Python
    code sees a KeyboardInterrupt, and a process that ignores it for 2 seconds is ended.

    A node's id is `<call>.<group>[<key or index>]`. `key(item)` gives text or an integer,
    unique in the call; `group` names the stage, by default the function's path. An id over
    256 bytes, with control characters or unpaired surrogates, or taken already, is the
    item's failure: GraphRefused.
    """
    from actors import fan

    if errors not in ("raise", "yield"):
        raise ConfigurationError("errors is neither 'raise' nor 'yield'.")
    return fan.fan_out(
        _coordinator(),
        fn,
        items,
        max_in_flight=max_in_flight,
        key=key,
        group=group,
        refs=refs,
        fail=Failure if errors == "yield" else None,
    )


@contextmanager
def compiled(
    build_graph: Callable[[], object],
    *,
    outputs: int = 1,
    deadlines: Deadlines | None = None,
    effects: Literal["read_only", "declared"] | None = None,
    buffer_bytes: int = 1_000_000,
    idle_s: float = 30.0,
) -> "Iterator[Session]":
    """Open a session of one graph through which input after input goes, with `invoke`.

        with compiled(build_graph) as session:
            for batch in batches:
                session.invoke(batch)

    `build_graph()` returns a Ray DAG of methods of actors that it makes itself, each with
    `.bind()` on its class or with `.remote()`; it is called in another process, and gives
    the same graph each time. A method takes the input or what other methods gave, as whole
    positional arguments, and gives one value. With `outputs` above 1 (at most 64) the root
    is a MultiOutputNode of so many methods, and `invoke` returns a list.

    Under the strategy `compiled_graph` the graph is compiled, and a graph that cannot be
    raises GraphRefused here. Under `automatic` such a graph is run dynamically. Under
    `dynamic`, and outside of a run, every input is one `run` of the graph. Once compiling
    has begun there is no way back to that.

    Each method is one node, whose row shows the latest invocation. What a method raises is
    raised by `invoke` as Ray raises it, and the session serves the next input. Every other
    end is an InvocationFailed. A graph that is no longer sound is taken down, and the next
    `invoke` prepares another one; so is one that was idle for `idle_s` seconds, since each
    of its actors keeps a core busy. An actor's state ends with it.

    `deadlines` are seconds; `idle_s` is from 0.1 to 10⁷ of them. An input over
    `buffer_bytes` as Ray serializes it is refused; what methods give should stay below it
    too: an output above it ends the session. `effects` must be what the task's options say; `declared` is the author's word that the
    graph does something outside of it.
    """
    from actors import session

    if deadlines is None:
        deadlines = Deadlines()
    _require_terms(outputs, deadlines, effects, buffer_bytes, idle_s)
    with session.opened(
        _coordinator(),
        build_graph,
        outputs=outputs,
        deadlines=deadlines,
        effects=None if effects is None else Effects(effects),
        buffer_bytes=buffer_bytes,
        idle_s=idle_s,
    ) as opened:
        yield opened


def _require_terms(
    outputs: object,
    deadlines: object,
    effects: object,
    buffer_bytes: object,
    idle_s: float,
) -> None:
    """Raise ConfigurationError for what no session can be opened with."""
    if type(outputs) is not int or not 1 <= outputs <= 64:
        raise ConfigurationError("outputs is not an integer from 1 to 64.")
    if type(buffer_bytes) is not int or buffer_bytes < 1_000:
        raise ConfigurationError("buffer_bytes is not an integer from 1,000.")
    if type(idle_s) not in (int, float) or not LEAST_IDLE_S <= idle_s <= LONGEST_S:
        raise ConfigurationError(
            f"idle_s is not a number of seconds from {LEAST_IDLE_S} to {LONGEST_S:,.0f}."
        )
    if not isinstance(deadlines, Deadlines):
        raise ConfigurationError("deadlines is not made with Deadlines(...).")
    if effects is not None and effects not in tuple(Effects):
        raise ConfigurationError("effects is neither read_only nor declared.")


def report(
    current: float | None = None,
    total: float | None = None,
    *,
    message: str | None = None,
    metrics: Mapping[str, bool | int | float | str] | None = None,
) -> None:
    """Say how far this leaf is; it costs microseconds, and the latest report counts.

    `current` and `total` are finite, not negative, and in order. `message` is text, cut to
    2 KiB with a marker. `metrics` holds at most 32 plain values: keys of 64 bytes, text of
    256, 4 KiB in all. Secrets are taken out of both before they leave the process.

    Never raises. What breaks a bound is not reported: the reason stands once in the log
    and among the run's events. Outside of a leaf, in a helper thread of one, and in an
    actor that does not stem from the run, it does nothing.
    """
    voice = _voice()
    if voice is not None:
        voice.report(current, total, message, metrics)


def preview[F: Callable[..., object]](
    projector: Callable[[Any], object] | str,
) -> Callable[[F], F]:
    """Show of each output of a remote function what `projector` makes of it.

        @ray.remote
        @preview(head)
        def parse(path): ...

    `projector` is a function at the top level of a module, or its path
    `"package.module.head"`. In the leaf's process, when the leaf has succeeded, it is given
    what the function returned: of several returns the tuple, of a streaming generator what
    its `return` says. It must leave that as it is. What it returns is None, a bool, a
    number, text, or lists, tuples and dicts with keys of text of these: at most 32 values
    in all, 4 levels deep, lists of 16, dicts of 15, keys of 64 bytes, texts of 256, and
    512 bytes as JSON. Secrets are taken out before it leaves the process.

    What breaks a bound, and a projector that raises or takes longer than a second,
    leaves `{"omitted": reason}` in the preview's place, and the leaf as it was. Nothing is
    projected where no detail is kept of the node.

    Raises ConfigurationError for a projector that has no path, and above `@ray.remote`.
    """
    path = previews.path_of(projector)

    def mark(function: F) -> F:
        previews.mark(function, path)
        return function

    return mark


def _voice() -> "Voice | None":
    """Return the node that this thread runs: a leaf, or a method of an actor."""
    # A process that has not loaded the leaves' module has no leaf, and without Ray there
    # is no actor.
    leaves = sys.modules.get("actors.leaf")
    leaf: Voice | None = None if leaves is None else leaves.current()
    if leaf is not None or "ray" not in sys.modules:
        return leaf
    from actors import methods

    return methods.current()


def _coordinator() -> "Coordinator":
    """Return the run of this process, or one that only checks and executes."""
    from actors import coordinator

    return coordinator.current() or coordinator.unobserved()
