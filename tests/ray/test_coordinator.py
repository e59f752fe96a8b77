"""Registration, states and the end of a run, told to a recording producer."""

import threading
import time

import msgspec
import pytest
from msgspec.structs import replace
from ray.exceptions import RayTaskError, TaskCancelledError, WorkerCrashedError

from actors import coordinator as module
from actors import leaf
from actors.coordinator import (
    REFERENCES,
    SETTLE_S,
    Coordinator,
    activate,
    current,
    require_window,
)
from actors.leaf import Status, decode_status
from django_ray.errors import ConfigurationError, GraphRefused
from django_ray.protocol import frames, text
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import NODE_STATES, NodeState
from tests.fakes import START_MS, FakeClock
from tests.progress.making import limits
from tests.ray.leaves import Stubborn
from tests.ray.runs import Recorder, coordinator, settings

STATUS = Status(START_MS + 5, START_MS + 9, 2, "node-7")


class Reference:
    """What the coordinator asks of an ObjectRef."""

    def __init__(self, number):
        self._number = number

    def binary(self):
        return self._number.to_bytes(28)


class Work:
    """Something in flight that the run's end cancels."""

    def __init__(self):
        self.cancelled = 0

    def cancel(self):
        self.cancelled += 1


def registered(recorder, count=1, told=None):
    made = coordinator(recorder, told=told)
    for number in range(count):
        made.register(f"1.x[{number}]", "x", "x", ())
    return made


def wrapped(cause):
    """The error of a leaf as `ray.get` raises it."""
    return RayTaskError("leaf", "traceback", cause).as_instanceof_cause()


def test_calls_are_numbered_from_one():
    made = coordinator(Recorder())

    assert [made.begin(), made.begin()] == [1, 2]


def test_a_registered_node_is_reported_with_its_dependencies():
    recorder = Recorder()
    made = registered(recorder, 3)

    assert made.register("1.y", "label", "stage", [2, 0, 1]) == 3

    assert recorder.nodes[3].dependencies == (0, 3)
    assert (recorder.nodes[3].label, recorder.nodes[3].stage) == ("label", "stage")


def test_a_taken_id_is_refused_and_takes_no_ordinal():
    recorder = Recorder()
    made = registered(recorder)

    for label in ("x", "another"):
        with pytest.raises(GraphRefused):
            made.register("1.x[0]", label, "x", ())

    assert made.register("1.x[1]", "x", "x", ()) == 1


URL = "https://ann:{}@host/file"


def test_secrets_are_taken_out_of_ids_labels_and_stages():
    recorder = Recorder()
    made = coordinator(recorder, told=settings(redact=("internal-[0-9]+",)))

    for number in range(2):
        secret = URL.format("hunter2")
        made.register(f"1.x[{number} {secret}]", secret, "on internal-42", ())

    assert recorder.ids == [f"1.x[{n} https://[redacted]@host/file]" for n in (0, 1)]
    assert {node.label for node in recorder.nodes} == {"https://[redacted]@host/file"}
    assert {node.stage for node in recorder.nodes} == {"on [redacted]"}
    assert recorder.count(NodeState.PENDING) == 2


def test_ids_that_differ_in_their_secrets_alone_are_one():
    made = coordinator(Recorder())
    made.register(URL.format("first"), "x", "x", ())

    with pytest.raises(GraphRefused) as caught:
        made.register(URL.format("second"), "x", "x", ())

    assert "second" not in str(caught.value)


@pytest.mark.parametrize("size", [V1.label, V1.label + 1, 4 * V1.label + 1, 10**6])
def test_a_secret_at_the_cut_of_a_label_does_not_stay(size):
    recorder = Recorder()
    label = "x" * (V1.label - 20) + " password=" + "hunter2" * size

    coordinator(recorder).register("1.x", label, label, ())

    (node,) = recorder.nodes
    assert text.size(node.label) <= V1.label
    assert "hunter" not in node.label + node.stage


def test_an_id_of_10_mb_is_refused_without_reading_all_of_it():
    made = coordinator(Recorder())

    began = time.perf_counter()
    with pytest.raises(GraphRefused, match="the limit is 256"):
        made.register("token" * 2_000_000, "x", "x", ())

    assert time.perf_counter() - began < 0.5


def test_taking_out_secrets_costs_an_id_without_any_a_few_microseconds():
    made = coordinator(None)
    number = 20_000

    took = []
    for place in range(number):
        node_id = f"1.tests.ray.leaves.double[{place}]"
        began = time.perf_counter()
        made.redacted(node_id)
        took.append(time.perf_counter() - began)

    # The median is of those calls that nothing else on the machine interrupted.
    assert sorted(took)[number // 2] < 20e-6


def test_threads_get_dense_ordinals_in_the_order_of_the_reports():
    recorder = Recorder()
    made = coordinator(recorder)

    def register(thread):
        for number in range(200):
            made.register(f"{thread}.x[{number}]", "x", "x", ())

    threads = [threading.Thread(target=register, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # The recorder itself requires each ordinal to follow the last.
    assert len(set(recorder.ids)) == 800


def test_a_success_carries_the_times_of_its_own_process():
    recorder = Recorder()
    made = registered(recorder)
    made.submitted(0, None)
    made.succeeded(0, STATUS)

    said = recorder.told("1.x[0]", NodeState.SUCCEEDED)

    assert (said.started_ms, said.at_ms) == (STATUS.started_ms, STATUS.ended_ms)
    assert (said.host, said.ray_attempt, said.try_) == ("node-7", 2, 1)
    assert recorder.told("1.x[0]", NodeState.SUBMITTED).at_ms == START_MS


def test_the_first_end_of_a_node_stands():
    recorder = Recorder()
    made = registered(recorder)

    made.succeeded(0, None)
    made.cancelled(0)
    made.failed(0, ValueError("late"))

    assert [said.state for said in recorder.states] == [NodeState.SUCCEEDED]


def test_a_node_known_by_its_task_is_told_again_with_it_those_that_ended_first():
    recorder = Recorder()
    made = registered(recorder, 4)
    for ordinal, task in enumerate((b"first", b"second", b"third", None)):
        made.submitted(ordinal, task)
    made.succeeded(1, None)

    told = [said for said in made.resync() if isinstance(said, frames.Task)]

    assert recorder.tasks == {0: b"first", 1: b"second", 2: b"third"}
    assert [said.ordinal for said in told] == [1, 0, 2]


def test_the_task_of_a_node_without_detail_is_forgotten_when_it_has_ended():
    made = registered(Recorder(), 3, settings(limits=limits(retained_nodes=1)))
    for ordinal in range(3):
        made.submitted(ordinal, bytes([ordinal]) * 8)
    made.succeeded(0, None)
    made.succeeded(1, None)

    told = [said for said in made.resync() if isinstance(said, frames.Task)]

    assert [said.ordinal for said in told] == [0, 2]


def test_a_failure_tells_class_and_text_of_the_users_own_error():
    recorder = Recorder()
    made = registered(recorder, 2)

    made.failed(0, wrapped(ValueError("wrong")))
    made.failed(1, WorkerCrashedError())

    first, second = recorder.states
    assert (first.state, first.error.kind) == (NodeState.FAILED, "ValueError")
    assert first.error.text == "wrong"
    assert second.error.kind == "WorkerCrashedError"


@pytest.mark.parametrize(
    "error",
    [TaskCancelledError(), wrapped(TaskCancelledError())],
    ids=["queued", "running"],
)
def test_a_task_that_ray_cancelled_is_cancelled(error):
    recorder = Recorder()
    made = registered(recorder)

    made.failed(0, error)

    assert [said.state for said in recorder.states] == [NodeState.CANCELLED]


def test_the_status_on_an_error_gives_its_node_times_and_host():
    recorder = Recorder()
    made = registered(recorder)
    error = ValueError("wrong")
    error.django_ray_status = b"\x94\x01\x02\x03\xa1h"

    made.failed(0, wrapped(error))

    (said,) = recorder.states
    assert (said.started_ms, said.at_ms, said.ray_attempt, said.host) == (1, 2, 3, "h")


def test_a_foreign_status_on_an_error_is_ignored():
    recorder = Recorder()
    made = registered(recorder)
    error = ValueError("wrong")
    error.django_ray_status = b"\xc1"

    made.failed(0, error)

    assert recorder.states[0].at_ms == START_MS


REPORT = frames.Progress(0, 0, 1, 7, START_MS + 8, current=3, message="last")
LAST = replace(STATUS, report=REPORT, preview=b'{"rows":3}')


def test_what_a_leaf_said_last_is_reported_with_its_end():
    recorder = Recorder()
    made = registered(recorder)

    made.succeeded(0, decode_status(msgspec.msgpack.encode(LAST)))

    assert recorder.reports == [REPORT]
    assert recorder.previews == [frames.Preview(0, 0, 1, b'{"rows":3}')]
    assert [said.at_ms for said in recorder.states] == [STATUS.ended_ms]


def test_what_a_failed_leaf_said_last_comes_with_its_error():
    recorder = Recorder()
    made = registered(recorder)
    error = ValueError("wrong")
    error.django_ray_status = msgspec.msgpack.encode(replace(LAST, preview=None))

    made.failed(0, wrapped(error))

    assert (recorder.reports, recorder.previews) == ([REPORT], [])
    assert recorder.latest == {"1.x[0]": NodeState.FAILED}


def test_behind_a_nodes_end_nothing_more_is_told_of_it():
    recorder = Recorder()
    made = registered(recorder)
    made.cancelled(0)

    made.succeeded(0, LAST)

    assert (recorder.reports, recorder.previews) == ([], [])


def test_a_report_on_another_node_is_not_passed_on():
    recorder = Recorder()
    made = registered(recorder, 2)

    made.succeeded(1, LAST)

    assert recorder.reports == []


@pytest.mark.parametrize(
    "changes",
    [
        {"report": replace(REPORT, current=4, total=3)},
        {"report": replace(REPORT, message="\x1b[31m")},
        {"preview": b"[1, 2]"},
        {"preview": b"[" * 400},
    ],
    ids=range(4),
)
def test_a_status_out_of_bounds_is_without_what_would_spoil_a_frame(changes):
    status = decode_status(msgspec.msgpack.encode(replace(LAST, **changes)))

    assert status == STATUS


def test_a_leaf_that_says_nothing_has_a_status_of_a_few_bytes():
    assert len(msgspec.msgpack.encode(STATUS)) <= 36


def test_an_error_of_10_mb_is_cut_within_its_bound():
    made = coordinator(Recorder())

    failure = made.classify(ValueError("x" * 10_485_760))

    assert text.size(failure.kind) + text.size(failure.text) <= V1.error
    assert failure.text.endswith("[10,485,760 bytes]")


def test_an_error_without_a_text_is_told_by_its_class():
    failure = coordinator(Recorder()).classify(Stubborn())

    assert (failure.kind, failure.text) == ("Stubborn", "")


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), GeneratorExit()])
def test_an_error_whose_text_raises_is_told_by_its_class(raised):
    class Mute(Exception):
        def __str__(self):
            raise raised

    failure = coordinator(Recorder()).classify(Mute())
    assert (failure.kind, failure.text) == ("Mute", "")


def test_text_of_a_users_class_in_an_error_is_plain():
    class Loud(str):
        def lower(self):
            raise RuntimeError("not to be compared")

    class Told(Exception):
        def __str__(self):
            return Loud("password=hunter2")

    assert "hunter2" not in coordinator(Recorder()).classify(Told()).text


def test_an_error_that_guards_its_attributes_has_no_status():
    class Guarded(Exception):
        def __getattr__(self, name):
            raise RuntimeError(name)

    assert leaf.status_of(Guarded()) is None


@pytest.mark.parametrize(
    ("number", "told"),
    [(2**31 - 2, 2**31 - 2), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1)],
)
def test_a_declaration_stays_within_what_there_can_be(number, told):
    recorder = Recorder()
    made = coordinator(recorder)
    made.declare(1, number)
    assert recorder.declared == {1: told}
    assert [r for r in made.resync() if isinstance(r, frames.Declare)] == [
        frames.Declare(1, told)
    ]


def test_secrets_are_taken_out_of_errors_those_of_the_deployment_too():
    made = coordinator(Recorder(), told=settings(redact=("internal-[0-9]+",)))

    failure = made.classify(ValueError("password=hunter2 on internal-42"))

    assert "hunter2" not in failure.text
    assert "internal-42" not in failure.text


def test_resync_tells_state_and_stage_of_every_node():
    recorder = Recorder()
    made = coordinator(recorder)
    for number in range(70):
        made.register(f"1.x[{number}]", "x", f"stage {number}", ())
    made.submitted(1, None)
    made.skipped(2)

    (record,) = made.resync()

    assert record.first == 0
    codes = [NODE_STATES[byte & 7] for byte in record.states[:3]]
    assert codes == [NodeState.PENDING, NodeState.SUBMITTED, NodeState.SKIPPED]
    assert list(record.stages) == [*range(63)] + [63] * 7


def test_resync_of_many_nodes_comes_in_records_that_fit_a_frame():
    made = registered(Recorder(), 60_000)

    records = list(made.resync())

    assert sum(len(record.states) for record in records) == 60_000
    assert max(len(r.states) + len(r.stages) for r in records) <= V1.frame_cut // 2


def test_only_references_of_this_run_are_known():
    made = registered(Recorder(), 2)
    assert not made.has_handed_out

    made.hand_out([Reference(1), Reference(2)], 1)

    assert made.has_handed_out
    assert made.nodes_of([Reference(3), Reference(2)]) == [1]


@pytest.mark.deep
def test_of_references_past_the_bound_the_oldest_are_forgotten():
    made = registered(Recorder(), 2)
    made.hand_out((Reference(number) for number in range(REFERENCES)), 0)
    assert made.nodes_of([Reference(0)]) == [0]

    made.hand_out([Reference(REFERENCES)], 1)

    assert made.nodes_of([Reference(0), Reference(1), Reference(REFERENCES)]) == [0, 1]


def test_the_end_cancels_work_reports_and_waits_until_it_is_committed():
    recorder = Recorder()
    made = registered(recorder)
    over, open_ = Work(), Work()
    made.opened(over)
    made.opened(open_)
    made.closed(over)

    assert made.end("FAILED", ValueError("password=hunter2"))

    assert (over.cancelled, open_.cancelled) == (0, 1)
    assert recorder.ended.outcome == "FAILED"
    assert recorder.ended.error.kind == "ValueError"
    assert "hunter2" not in recorder.ended.error.text
    assert recorder.waited_s == SETTLE_S == 10.0


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_no_node_of_an_ended_run_is_left_as_it_was(outcome):
    recorder = Recorder()
    made = registered(recorder, 4)
    made.submitted(0, None)
    made.succeeded(0, STATUS)
    made.submitted(1, None)
    made.skipped(2)

    made.end(outcome, None)
    made.submitted(3, None)
    made.succeeded(1, STATUS)

    assert list(recorder.latest.values()) == [
        NodeState.SUCCEEDED,
        NodeState.CANCELLED,
        NodeState.SKIPPED,
        NodeState.CANCELLED,
    ]
    recorder.require_exact()


def test_no_state_comes_behind_the_end_whatever_threads_do():
    recorder = Recorder()
    made = registered(recorder, 2_000)
    late = []

    def tell(state):
        if recorder.ended is not None:
            late.append(state)
        told(state)

    def work(first):
        for ordinal in range(first, 2_000, 2):
            made.submitted(ordinal, None)
            made.succeeded(ordinal, None)

    told, recorder.state = recorder.state, tell
    threads = [threading.Thread(target=work, args=[first]) for first in range(2)]
    for thread in threads:
        thread.start()
    made.end("FAILED", ValueError("wrong"))
    for thread in threads:
        thread.join()

    assert late == []
    recorder.require_exact()


def test_an_end_that_is_not_committed_is_told_to_the_caller():
    assert not coordinator(Recorder(settles=False)).end("SUCCEEDED", None)


def test_nothing_is_registered_after_the_end():
    made = registered(Recorder())
    made.end("SUCCEEDED", None)

    with pytest.raises(GraphRefused, match="ended"):
        made.register("1.late", "x", "x", ())
    with pytest.raises(GraphRefused, match="ended"):
        made.opened(Work())


def test_a_disabled_run_checks_its_graph_and_reports_nothing():
    made = coordinator(None)
    made.declare(1, 3)
    made.register("1.x", "x", "x", ())
    made.submitted(0, None)
    made.succeeded(0, None)
    made.failed(0, ValueError())

    with pytest.raises(GraphRefused):
        made.register("1.x", "x", "x", ())

    assert list(made.resync()) == []
    assert made.end("SUCCEEDED", None)


def test_a_call_declares_its_number():
    recorder = Recorder()

    coordinator(recorder).declare(2, 40)

    assert recorder.declared == {2: 40}


def test_one_run_is_current_while_it_is_active_in_every_thread():
    made = coordinator(None)
    seen = []
    assert current() is None

    with activate(made):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert current() is made

    assert seen == [made]
    assert current() is None


def test_one_function_and_its_options_are_one_remote_function():
    made = coordinator(Recorder())

    def body():
        pass

    def other():
        pass

    shared = {"num_cpus": 0.5}
    first = made.function(body, shared, named=False)

    assert made.function(body, shared, named=False) is first
    assert made.function(body, {"num_cpus": 0.5}, named=False) is first
    assert made.function(body, {"num_cpus": 0.5, "name": "a"}, named=False) is first
    assert made.function(body, {"num_cpus": 0.5, "name": "a"}, named=True) is not first
    assert made.function(body, {}, named=False) is not first
    assert made.function(other, shared, named=False) is not first


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "4", None])
def test_a_window_is_a_positive_integer(value):
    with pytest.raises(ConfigurationError):
        require_window(value)
    with pytest.raises(ConfigurationError):
        Coordinator(None, None, max_in_flight=value, clock=FakeClock())


def test_a_window_of_one_is_enough():
    assert require_window(1) == 1


@pytest.mark.ray
def test_the_default_window_is_four_tasks_a_cpu(ray_cluster):
    assert module.default_window() == 8
    assert module.unobserved().max_in_flight == 8
