"""Performs a scenario file: what is asked of the reducer, and what it answers, as text.

A file begins with its title and explanation, each line after a `#`. A line after `>` is an
input; what it makes the reducer answer stands below it, up to the empty line. Inputs:

    > deadlines outer=9000 drain=700       of the session and its invocations, at the top
    > 100 VALIDATION_REQUESTED             an event, by the time at which it is observed
    > 100 ADMISSION_REQUESTED first outputs=2
    > 100 CONSUMPTION_REQUESTED output=0
    > 100 CHANNEL_ERROR not_started        a callback: it answers the pending action
    > 100 ADMITTED token=3                 any event with something else in it: token=,
                                           session=, invocation=, output=, number=
    > 100 reach RUNNING first outputs=2    the success path up to there: READY, ADMITTED,
                                           RUNNING, CHECKING_HEALTH or TERMINAL
    > 100 consume 0-62                     request and answer for each of these slots
    > tokens left 127                      as if the session had used up all others

The answer is the action to dispatch and until when, or the rejection, then every fact of
the session that changed. RECORD=1 writes the answers anew, to be read in review.
"""

from dataclasses import replace
from itertools import groupby

from django_ray.identity import MAXIMUM_63
from django_ray.lifecycle import events
from django_ray.lifecycle.reducer import reduce_lifecycle
from django_ray.lifecycle.results import Rejection
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind
from tests.lifecycle.making import (
    DEADLINES,
    IDENTITY,
    INVOCATION_DEADLINES,
    Session,
    invocation_identity,
)


def perform(text):
    """Return the scenario with the answers that the reducer gives now."""
    script, lines = Script(), []
    for line in text.splitlines():
        if line.startswith("#"):
            lines.append(line)
        elif line.startswith(">"):
            lines += ["", line, *script.line(line.removeprefix(">").split())]
    return "\n".join(lines) + "\n"


class Script:
    """One session, told line by line."""

    def __init__(self):
        self.session = Session()
        self.own = INVOCATION_DEADLINES

    def line(self, words):
        before = facts(self.session.state)
        match words:
            case ["deadlines", *pairs]:
                self.deadlines(pairs)
                return []
            case ["tokens", "left", count]:
                self.session.altered(issued=MAXIMUM_63 - int(count))
                return []
            case [time, "reach", goal, *rest]:
                self.reach(int(time), goal, *rest)
                answer = []
            case [time, "consume", slots]:
                first, _, last = slots.partition("-")
                for slot in range(int(first), int(last or first) + 1):
                    self.session.at(int(time)).consuming(slot).told("OUTPUT_CONSUMED")
                answer = issued(self.session)
            case [time, kind, *rest]:
                answer = self.event(self.made(int(time), kind, rest))
        after = facts(self.session.state)
        return answer + [
            f"    {name}: {before[name]} -> {after[name]}"
            for name in after
            if after[name] != before[name]
        ]

    def deadlines(self, pairs):
        times = {name: int(time) for name, time in (p.split("=") for p in pairs)}
        self.session = Session(replace(DEADLINES, **times))
        times.pop("outer", None)
        times.pop("teardown", None)
        self.own = replace(INVOCATION_DEADLINES, **times)

    def reach(self, time, goal, invocation_id="first", outputs="outputs=1"):
        session = self.session.at(time)
        if (
            session.state.last_invocation is None
            and session.state.graph == "UNPREPARED"
        ):
            session.ready()
        if goal == "READY":
            return
        session.admitted(invocation_id, int(outputs.removeprefix("outputs=")), self.own)
        session.told("ADMITTED")
        if goal == "ADMITTED":
            return
        session.asked("SUBMISSION_REQUESTED").told("SUBMITTED")
        if goal == "RUNNING":
            return
        for slot in range(len(session.state.invocation.outputs)):
            session.consuming(slot).told("OUTPUT_CONSUMED")
        if goal == "TERMINAL":
            session.told("HEALTHY")

    def event(self, event):
        result = reduce_lifecycle(self.session.state, event)
        if isinstance(result, Rejection):
            return [f"rejected: {result.code}"]
        self.session.state, self.session.action = result.state, result.action
        return issued(self.session)

    def made(self, time, kind, rest):
        words = [word for word in rest if "=" not in word]
        pairs = dict(word.split("=") for word in rest if "=" in word)
        state = self.session.state
        if kind == CommandKind.ADMISSION_REQUESTED:
            event = events.admission(
                state,
                time,
                invocation_id=words[0],
                outputs=int(pairs.pop("outputs", 1)),
                deadlines=self.own,
            )
        elif kind == CommandKind.CONSUMPTION_REQUESTED:
            event = events.consumption(state, time, output=int(pairs.pop("output")))
        elif kind in CommandKind.__members__:
            event = events.command(state, CommandKind[kind], time)
        else:
            event = self.callback(state, CallbackKind[kind], time, words)
        return altered(event, pairs)

    def callback(self, state, kind, time, words):
        if state.pending is None:
            current = state.invocation
            return events.Callback(
                kind=kind,
                session=state.identity,
                observed_at=time,
                invocation=None if current is None else current.identity,
            )
        return events.answer(
            state.pending, kind, time, not_started="not_started" in words
        )


def altered(event, pairs):
    for name, value in pairs.items():
        if name == "invocation":
            event = replace(
                event,
                invocation=None if value == "none" else invocation_identity(value),
            )
        elif name == "session":
            event = replace(event, session=replace(IDENTITY, session_id=value))
        elif name == "number":
            event = replace(
                event, admission=replace(event.admission, number=int(value))
            )
        else:
            event = replace(event, **{name: None if value == "none" else int(value)})
    return event


def issued(session):
    action = session.action
    if action is None:
        return ["nothing to dispatch"]
    slot = "" if action.output is None else f" of output {action.output}"
    return [
        f"dispatch {action.kind}{slot}, token {action.token}, until {action.deadline}"
    ]


def facts(state):
    """Return what there is to know of a state, in words."""
    invocation = state.invocation
    named = "NONE"
    if invocation is not None:
        named = f"{invocation.state} ({invocation.identity.invocation_id})"
    return {
        "session": str(state.state),
        "invocation": named,
        "outputs": "none" if invocation is None else slots(invocation.outputs),
        "outcome": str(state.outcome or "none"),
        "effect": str(state.effect),
        "retry": str(state.retry),
        "graph": str(state.graph),
        "cleanup": ", ".join(state.cleanup) or "clean",
        "admission": "open" if state.admission_open else "closed",
        "fallback": "open" if state.fallback_open else "closed",
    }


def slots(outputs):
    """Return runs of equal slots: `0 CONSUMED, 1-63 AVAILABLE`."""
    found, start = [], 0
    for output, run in groupby(outputs):
        end = start + len(list(run))
        span = str(start) if end == start + 1 else f"{start}-{end - 1}"
        found.append(f"{span} {output}")
        start = end
    return ", ".join(found)
