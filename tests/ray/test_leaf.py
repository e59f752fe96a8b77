"""Wrapped functions in real worker processes, and what those report to a collector."""

import time
import uuid
from fractions import Fraction

import pytest
import ray

from actors import internals, leaf, reports, voice
from actors.names import ActorName
from actors.remote import NAMESPACE
from django_ray.errors import GraphRefused
from django_ray.protocol import frames
from django_ray.protocol.frames import Acknowledgement, Status
from django_ray.protocol.limits import V1
from django_ray.protocol.text import size
from django_ray.protocol.vocabulary import NodeState
from django_ray.workflow import report
from tests.ray.conftest import wait_until
from tests.ray.leaves import (
    SECRET,
    Broken,
    count_up,
    double,
    fail_odd,
    fail_stubbornly,
    nothing,
    one_too_few,
    say,
    say_and_last,
    say_in_a_thread,
    say_streaming,
    signature,
    succeed_at_last,
    three,
    three_made,
)

INTERVAL_MS = 20


@ray.remote(num_cpus=0)
class Collector:
    """Keeps what producers send, and answers that it is committed."""

    def __init__(self):
        self._frames = []

    def ingest(self, data):
        number = frames.decode(data).number
        self._frames.append(data)
        answer = Acknowledgement(1, Status.OK, 1, number, number, INTERVAL_MS)
        return frames.encode(answer)

    def told(self):
        return self._frames


class Told:
    """One run as its leaves see it: where they are, and what its collector was told."""

    def __init__(self, redact):
        self.run_id = str(uuid.uuid4())
        self._run = reports.encode(reports.Run(self.run_id, 1, redact, 25_000))
        self._ordinals = self.first = 0
        name = str(ActorName("collector", self.run_id, 1))
        options = {"name": name, "namespace": NAMESPACE, "lifetime": "detached"}
        self._collector = Collector.options(**options).remote()

    def start(self, function, *args, **kwargs):
        """Start a function as the next leaf of the run; return what Ray returns."""
        node = function.bind()
        wrapped = leaf.wrap(internals.body(node), internals.options(node))
        place = leaf.place(self._run, self._ordinals, 1)
        self._ordinals += 1
        return wrapped.remote(place, *args, **kwargs)

    def call(self, function, *args, **kwargs):
        """Run a function of one return to its end; return its value and its status."""
        value, status = ray.get(self.start(function, *args, **kwargs))
        return value, leaf.decode_status(status)

    def begin(self):
        """Let the records of earlier leaves be those of another test."""
        self.first = self._ordinals

    def records(self, kind):
        """The records of a kind about this test's leaves, in order."""
        sent = ray.get(self._collector.told.remote())
        return [
            record
            for data in sent
            for record in frames.decode(data).records
            if isinstance(record, kind) and ordinal_of(record) >= self.first
        ]

    def stop(self):
        ray.kill(self._collector)


def ordinal_of(record):
    return record.target if isinstance(record, frames.Progress) else record.ordinal


@pytest.fixture(scope="module")
def run(ray_cluster):
    run = Told(())
    yield run
    run.stop()


@pytest.fixture
def told(run):
    run.begin()
    return run


@pytest.fixture
def told_to_redact(ray_cluster):
    run = Told(("internal-[0-9]+",))
    yield run
    run.stop()


pytestmark = pytest.mark.ray


def test_a_wrapped_function_returns_its_value_and_its_status(told):
    before = time.time_ns() // 1_000_000

    value, status = told.call(double, 4)

    assert value == 8
    assert before - 5_000 <= status.started_ms <= status.ended_ms
    assert status.attempt == 0
    assert status.host == reports.host()


def test_the_status_comes_behind_every_number_of_returns(told):
    *values, status = ray.get(told.start(three, 4))
    assert values == [4, 5, 6]
    assert leaf.decode_status(status).attempt == 0

    *values, _ = ray.get(told.start(three_made, 4))
    assert values == [4, 5, 6]

    assert leaf.decode_status(ray.get(told.start(nothing))).attempt == 0


def test_a_wrong_number_of_values_fails_the_leaf(told):
    refs = told.start(one_too_few)

    with pytest.raises(ValueError, match="returned 1 values"):
        ray.get(refs[-1])


def test_arguments_are_the_users_own_business(told):
    assert told.call(signature, 1)[0] == (1, 2, 3)
    assert told.call(signature, 1, third=5, second=4)[0] == (1, 4, 5)
    with pytest.raises(TypeError):
        told.call(signature)


def test_an_error_carries_the_status_of_its_leaf(told):
    with pytest.raises(ValueError, match="odd: 3") as caught:
        told.call(fail_odd, 3)

    status = leaf.status_of(caught.value.cause)
    assert status.started_ms <= status.ended_ms
    assert status.host == reports.host()


def test_an_error_that_takes_no_attribute_goes_without_a_status(told):
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        told.call(fail_stubbornly)

    assert leaf.status_of(caught.value.cause) is None


def test_a_stream_ends_with_its_status_and_is_current_at_each_item(told):
    refs = list(told.start(say_streaming))

    *items, status = ray.get(refs)

    assert items == [True, True, True]
    assert leaf.decode_status(status).attempt == 0


def test_a_stream_that_raises_midway_ends_with_the_error(told):
    refs = list(told.start(count_up, 5))

    assert ray.get(refs[:3]) == [0, 1, 2]
    with pytest.raises(ValueError, match="midway"):
        ray.get(refs[3])
    assert len(refs) == 4


@ray.remote
def task_name():
    return ray.get_runtime_context().get_task_name()


def test_names_and_options_of_the_users_function_stay(told):
    assert told.call(task_name)[0].endswith("task_name")
    named = task_name.options(name="census", num_cpus=0.5, max_retries=1)
    assert told.call(named)[0] == "census"


@ray.remote(num_cpus=0.5, max_calls=1)
def process():
    return ray.get_runtime_context().get_worker_id()


def test_a_function_that_ends_its_process_after_a_call_still_does(told):
    assert told.call(process)[0] != told.call(process)[0]


def test_rays_own_retry_is_told_and_its_reports_are_newer(told, tmp_path):
    value, status = told.call(succeed_at_last, str(tmp_path))

    assert (value, status.attempt) == (3, 2)
    (said,) = wait_until(lambda: told.records(frames.Progress))
    assert said.sequence > 2 << voice.COUNTER_BITS


def test_a_report_reaches_the_leafs_own_node(told):
    told.call(double, 1)
    current, status = told.call(say, 3, 10, message="parsing", metrics={"bytes": 812})

    (said,) = wait_until(lambda: told.records(frames.Progress))

    assert current
    assert (said.target, said.try_, said.invocation) == (told.first + 1, 1, 0)
    assert (said.current, said.total, said.message) == (3, 10, "parsing")
    assert said.metrics == {"bytes": 812}
    assert said.host == status.host
    assert status.started_ms <= said.at_ms <= status.ended_ms


def test_a_silent_leaf_sends_nothing_and_a_lasting_one_is_running(told):
    told.call(double, 1)
    _, status = told.call(say_and_last, 2.0)

    (said,) = wait_until(lambda: told.records(frames.State))

    assert (said.ordinal, said.state) == (told.first + 1, NodeState.RUNNING)
    assert said.started_ms == status.started_ms
    assert {record.target for record in told.records(frames.Progress)} == {
        told.first + 1
    }


BAD = {
    "NaN": ((float("nan"),), {}, "progress_not_finite"),
    "infinite": ((float("inf"), 2), {}, "progress_not_finite"),
    "past total": ((3, 2), {}, "progress_past_total"),
    "negative": ((-1,), {}, "progress_negative"),
    "no number": (("1",), {}, "progress_not_a_number"),
    "no float": ((Fraction(10**400),), {}, "malformed"),
    "broken metrics": ((1, 2), {"metrics": Broken()}, "malformed"),
    "message": ((1, 2), {"message": 7}, "message_not_text"),
    "33 metrics": ((1, 2), {"metrics": dict.fromkeys(map(str, range(33)), 1)}, "33"),
    "NaN metric": ((1, 2), {"metrics": {"a": float("nan")}}, "metrics_not_finite"),
    "list metric": ((1, 2), {"metrics": {"a": [1]}}, "metrics_value_not_plain"),
}


@pytest.mark.parametrize(("arguments", "words", "reason"), BAD.values(), ids=BAD)
def test_a_bad_report_is_an_event_and_not_an_error(told, arguments, words, reason):
    assert told.call(say, *arguments, **words)[0]

    (event,) = wait_until(lambda: told.records(frames.Event))

    assert (event.kind, event.ordinal) == ("report_refused", told.first)
    assert reason in event.text
    # What is right of it is reported all the same: the progress beside bad metrics.
    kept = [(said.current, said.total) for said in told.records(frames.Progress)]
    assert kept in ([], [(1, 2)])
    assert bool(kept) == bool(words)


def test_a_message_is_cut_at_its_bound_with_a_marker(told):
    told.call(say, message="x" * 10_000_000)

    (said,) = wait_until(lambda: told.records(frames.Progress))

    assert size(said.message) <= V1.message
    assert said.message.endswith("[10,000,000 bytes]")


def test_secrets_stay_in_the_process_of_the_leaf(told_to_redact):
    told_to_redact.call(
        say,
        message=f"password={SECRET} internal-42",
        metrics={"api_key": SECRET, "note": f"token={SECRET}", "count": 3},
    )

    (said,) = wait_until(lambda: told_to_redact.records(frames.Progress))

    assert SECRET not in str(said)
    assert "internal-42" not in str(said)
    assert said.metrics["count"] == 3


def test_a_helper_thread_of_a_leaf_reports_nothing(told):
    assert told.call(say_in_a_thread)[0]
    told.call(say, 1, 1)

    (said,) = wait_until(lambda: told.records(frames.Progress))

    assert said.target == told.first + 1


def test_outside_of_a_leaf_a_report_does_nothing():
    assert leaf.current() is None
    report(float("nan"), metrics={"a": object()})


@pytest.mark.parametrize(
    ("function", "options", "number"),
    [
        (double, {}, 1),
        (double, {"num_returns": 0}, 0),
        (double, {"num_returns": 4}, 4),
        (count_up, {}, leaf.STREAMING),
        (count_up, {"num_returns": "streaming"}, leaf.STREAMING),
        (three_made, {"num_returns": 3}, 3),
    ],
    ids=["one", "none", "four", "a generator", "a stream", "a generator of three"],
)
def test_the_number_of_returns_follows_from_function_and_options(
    function, options, number
):
    assert leaf.returns(internals.body(function.bind()), options) == number


def test_a_dynamic_number_of_returns_is_refused():
    with pytest.raises(GraphRefused, match="dynamic"):
        leaf.returns(internals.body(count_up.bind()), {"num_returns": "dynamic"})
