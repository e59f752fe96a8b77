"""What does an event cost in the reducer, against replacing a field of a frozen value?

The success path of serial invocations in one session, with 1 output and with 64. The
events are made beforehand, as an owner has them when it reduces; driving the session with
the making of its events is a figure of its own. The baseline replaces one field of a
frozen, slotted value of twelve, once an event.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from cluster.harness import Harness
from cluster.measure import seconds
from cluster.scenario import Figure, Result
from django_ray.identity import RunIdentity
from django_ray.lifecycle import events
from django_ray.lifecycle.events import Event
from django_ray.lifecycle.reducer import initial_session, reduce_lifecycle
from django_ray.lifecycle.results import Transition
from django_ray.lifecycle.snapshot import lifecycle_snapshot
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.terms import (
    INVOCATION_STAGES,
    SESSION_STAGES,
    InvocationDeadlines,
    LifecycleCapacity,
    LifecycleDeadlines,
    SessionIdentity,
)
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind

FAR = 2**62
PREPARATION, INVOCATION, OUTPUT = 4, 5, 2
"""Events that prepare the session; of an invocation; and of each of its outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Invocations of a session, and repeats for each count of outputs."""

    invocations: int = 2_000
    outputs: tuple[int, ...] = (1, 64)
    repeats: tuple[int, ...] = (15, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Twelve:
    """The baseline's value."""

    identity: int = 0
    capacity: int = 0
    deadlines: int = 0
    state: int = 0
    graph: int = 0
    outcome: int = 0
    effect: int = 0
    retry: int = 0
    invocation: int = 0
    pending: int = 0
    issued: int = 0
    observed_at: int = 0


class Path:
    """One session driven along the success path, and what it was told."""

    def __init__(self) -> None:
        identity = SessionIdentity(
            run=RunIdentity(
                task_execution_pk=1,
                attempt_number=1,
                execution_generation=1,
                run_id="0b8f1d3e-6f0a-4c8e-9a51-3f4f5d2c7b10",
            ),
            graph_key="graph",
            session_id="session",
            owner_epoch=1,
        )
        self.first = initial_session(
            identity=identity,
            capacity=LifecycleCapacity(),
            deadlines=LifecycleDeadlines(**dict.fromkeys(SESSION_STAGES, FAR)),
            before=None,
        )
        self.state = self.first
        self.told: list[Event] = []

    def drive(self, invocations: int, outputs: int) -> None:
        """Prepare the session, then invoke it so many times."""
        self._ask(CommandKind.VALIDATION_REQUESTED, CallbackKind.VALIDATED)
        self._ask(CommandKind.PREPARATION_REQUESTED, CallbackKind.PREPARED)
        for number in range(invocations):
            self._invoke(f"invocation-{number}", outputs)

    def _invoke(self, invocation_id: str, outputs: int) -> None:
        deadlines = InvocationDeadlines(**dict.fromkeys(INVOCATION_STAGES, FAR))
        self._reduce(
            events.admission(
                self.state,
                len(self.told),
                invocation_id=invocation_id,
                outputs=outputs,
                deadlines=deadlines,
            )
        )
        self._answer(CallbackKind.ADMITTED)
        self._ask(CommandKind.SUBMISSION_REQUESTED, CallbackKind.SUBMITTED)
        for output in range(outputs):
            self._reduce(events.consumption(self.state, len(self.told), output=output))
            self._answer(CallbackKind.OUTPUT_CONSUMED)
        self._answer(CallbackKind.HEALTHY)

    def _ask(self, kind: CommandKind, answer: CallbackKind) -> None:
        self._reduce(events.command(self.state, kind, len(self.told)))
        self._answer(answer)

    def _answer(self, kind: CallbackKind) -> None:
        action = self.state.pending
        assert action is not None
        self._reduce(events.answer(action, kind, len(self.told)))

    def _reduce(self, event: Event) -> None:
        result = reduce_lifecycle(self.state, event)
        assert isinstance(result, Transition), result
        self.state = result.state
        self.told.append(event)


def reduced(
    state: CompiledGraphSessionState, told: Sequence[Event]
) -> tuple[CompiledGraphSessionState, int]:
    """Reduce all events; return the last state and how many were transitions."""
    transitions = 0
    for event in told:
        result = reduce_lifecycle(state, event)
        if type(result) is Transition:
            state = result.state
            transitions += 1
    return state, transitions


def replaced(told: Sequence[Event]) -> Twelve:
    """Replace one field for each event."""
    value = Twelve()
    for number in range(len(told)):
        value = replace(value, observed_at=number)
    return value


class Reducer:
    __doc__ = __doc__

    name = "reducer"
    needs_ray = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.figures: dict[str, Figure] = {}
        self.paths: dict[int, Path] = {}
        self.ends: dict[int, list[tuple[CompiledGraphSessionState, int]]] = {}

    def setup(self, harness: Harness) -> None:
        """Make the events of every path; the harness is not needed."""
        del harness
        for outputs in self.parameters.outputs:
            self.paths[outputs] = Path()
            self.paths[outputs].drive(self.parameters.invocations, outputs)

    def measure(self) -> None:
        """Reduce, replace and drive in turn; the first round is the warm-up."""
        counts = zip(self.parameters.outputs, self.parameters.repeats, strict=True)
        for outputs, repeats in counts:
            rounds = [self._round(outputs) for _ in range(repeats + 1)][1:]
            self._keep(outputs, rounds)

    def _round(self, outputs: int) -> tuple[float, float, float]:
        path, ends = self.paths[outputs], self.ends.setdefault(outputs, [])
        again = Path()
        return (
            seconds(lambda: ends.append(reduced(path.first, path.told))),
            seconds(lambda: replaced(path.told)),
            seconds(lambda: again.drive(self.parameters.invocations, outputs)),
        )

    def _keep(self, outputs: int, rounds: Sequence[tuple[float, float, float]]) -> None:
        events_told = len(self.paths[outputs].told)
        self.figures[f"ratio_{outputs}"] = Figure(
            values=tuple(ours / bare for ours, bare, _ in rounds),
            unit="x replace",
            reach=4.0,
            beyond=2.0,
        )
        self.figures[f"ratio_with_events_{outputs}"] = Figure(
            values=tuple(driven / bare for _, bare, driven in rounds), unit="x replace"
        )
        for place, key in enumerate(("reduce", "replace", "drive")):
            self.figures[f"{key}_{outputs}"] = Figure(
                values=tuple(1e6 * spans[place] / events_told for spans in rounds),
                unit="us an event",
            )

    def verify(self) -> None:
        """Every event was a transition, and every replay ended where the first did."""
        invocations = self.parameters.invocations
        for outputs, path in self.paths.items():
            events_told = PREPARATION + invocations * (INVOCATION + OUTPUT * outputs)
            assert len(path.told) == events_told, f"{len(path.told)} events"
            for state, transitions in self.ends[outputs]:
                assert transitions == events_told, f"{transitions} transitions"
                assert state == path.state, "a replay ended elsewhere"
            state, invocation = path.state, path.state.invocation
            assert (state.state, state.graph) == ("READY", "REUSABLE")
            assert (state.outcome, state.retry) == ("SUCCEEDED", "PROHIBITED")
            assert invocation is not None
            assert (invocation.number, invocation.state) == (invocations, "TERMINAL")
            assert set(invocation.outputs) == {"CONSUMED"}
            assert len(lifecycle_snapshot(state)) <= 16_384

    def result(self) -> Result:
        """Return the ratios, and what each side took for an event."""
        notes = tuple(
            f"{outputs} outputs: {len(path.told):,} transitions"
            for outputs, path in self.paths.items()
        )
        return Result(
            figures=self.figures, parameters=asdict(self.parameters), notes=notes
        )

    def teardown(self) -> None:
        """Nothing stays."""


def scenario() -> Reducer:
    """Return the scenario with its default parameters."""
    return Reducer(Parameters())
