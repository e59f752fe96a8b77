"""Terms, states and events of one session for the tests of the reducer."""

from dataclasses import replace

from django_ray.identity import RunIdentity
from django_ray.lifecycle import events
from django_ray.lifecycle.reducer import initial_session, reduce_lifecycle
from django_ray.lifecycle.results import Rejection, Transition
from django_ray.lifecycle.terms import (
    InvocationDeadlines,
    LifecycleCapacity,
    LifecycleDeadlines,
    SessionIdentity,
    WorkflowInvocationIdentity,
)
from django_ray.lifecycle.vocabulary import CallbackKind, CommandKind

RUN = RunIdentity(
    task_execution_pk=7,
    attempt_number=1,
    execution_generation=1,
    run_id="0b8f1d3e-6f0a-4c8e-9a51-3f4f5d2c7b10",
)
IDENTITY = SessionIdentity(
    run=RUN, graph_key="a" * 64, session_id="session-1", owner_epoch=1
)
OUTER = 9_000
DEADLINES = LifecycleDeadlines(
    outer=OUTER,
    admission=1_000,
    submission=2_000,
    result=3_000,
    cancellation=4_000,
    drain=5_000,
    teardown=6_000,
)
INVOCATION_DEADLINES = InvocationDeadlines(
    admission=1_000, submission=2_000, result=3_000, cancellation=4_000, drain=5_000
)


def session(deadlines=DEADLINES, before=None):
    """Return a NEW session."""
    return initial_session(
        identity=IDENTITY,
        capacity=LifecycleCapacity(),
        deadlines=deadlines,
        before=before,
    )


def invocation_identity(invocation_id):
    return WorkflowInvocationIdentity(run=RUN, invocation_id=invocation_id)


class Session:
    """A session being driven: each call is one event and must be accepted.

    The time stands at 0 unless `at` moves it. `state` and `action` are the latest.
    """

    def __init__(self, deadlines=DEADLINES, before=None):
        self.state = session(deadlines, before)
        self.action = None
        self.now = 0

    def at(self, now):
        self.now = now
        return self

    def reduce(self, event):
        result = reduce_lifecycle(self.state, event)
        assert isinstance(result, Transition), result
        self.state, self.action = result.state, result.action
        return self

    def refused(self, event):
        """Return the code with which `event` is rejected."""
        result = reduce_lifecycle(self.state, event)
        assert isinstance(result, Rejection), result
        return result.code

    def asked(self, kind):
        return self.reduce(events.command(self.state, CommandKind[kind], self.now))

    def told(self, kind, *, not_started=False):
        return self.reduce(
            events.answer(
                self.state.pending,
                CallbackKind[kind],
                self.now,
                not_started=not_started,
            )
        )

    def admitted(
        self, invocation_id="first", outputs=1, deadlines=INVOCATION_DEADLINES
    ):
        """Ask for an admission; it is not answered yet."""
        return self.reduce(self.admission(invocation_id, outputs, deadlines))

    def admission(
        self, invocation_id="first", outputs=1, deadlines=INVOCATION_DEADLINES
    ):
        return events.admission(
            self.state,
            self.now,
            invocation_id=invocation_id,
            outputs=outputs,
            deadlines=deadlines,
        )

    def consuming(self, output=0):
        return self.reduce(self.consumption(output))

    def consumption(self, output=0):
        return events.consumption(self.state, self.now, output=output)

    def ready(self):
        self.asked("VALIDATION_REQUESTED").told("VALIDATED")
        return self.asked("PREPARATION_REQUESTED").told("PREPARED")

    def running(self, invocation_id="first", outputs=1, deadlines=INVOCATION_DEADLINES):
        self.admitted(invocation_id, outputs, deadlines).told("ADMITTED")
        return self.asked("SUBMISSION_REQUESTED").told("SUBMITTED")

    def succeeded(
        self, invocation_id="first", outputs=1, deadlines=INVOCATION_DEADLINES
    ):
        self.running(invocation_id, outputs, deadlines)
        for output in range(outputs):
            self.consuming(output).told("OUTPUT_CONSUMED")
        return self.told("HEALTHY")

    def altered(self, **changes):
        """Put the state together anew with `changes`, as a foreign hand would."""
        self.state = replace(self.state, **changes)
        return self
