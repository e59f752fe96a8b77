"""What is in flight, how much of it, and how it is cancelled."""

import _thread
import gc
import signal
import threading
import time

import pytest
import ray
from ray.exceptions import TaskCancelledError

from actors import internals
from actors.coordinator import activate
from actors.window import PAUSE_S, Flight, Window
from django_ray.protocol.vocabulary import NodeState
from django_ray.workflow import fan_out, run
from tests.ray.leaves import (
    add,
    double,
    fail_or_wait,
    fail_secret,
    fail_secret_thrice,
    hold,
    pass_gate,
    wait_in_python,
    wait_stubbornly,
)
from tests.ray.runs import Recorder, coordinator, observed, ray_log

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

PATH = "tests.ray.leaves."


class Gate(Recorder):
    """Lets no leaf end before so many are in flight, and counts how many ever were."""

    def __init__(self, path, number):
        super().__init__()
        self.most = 0
        self._path = path
        self._number = number
        self._flying = set()

    def state(self, state):
        super().state(state)
        self._flying ^= {state.ordinal}
        self.most = max(self.most, len(self._flying))
        if len(self._flying) == self._number:
            self._path.touch()


@pytest.mark.parametrize("window", [1, 2, 20])
def test_the_window_bounds_what_is_in_flight(tmp_path, window):
    path = tmp_path / "gate"
    items = [str(path)] * (window + 2)

    with observed(recorder=Gate(path, window)) as seen:
        list(fan_out(pass_gate, items, max_in_flight=window))
        run(add.bind(*map(pass_gate.bind, items)), max_in_flight=window)

    assert seen.most == window


def test_the_runs_own_window_holds_where_none_is_given(tmp_path):
    path = tmp_path / "gate"

    with observed(max_in_flight=3, recorder=Gate(path, 3)) as seen:
        list(fan_out(pass_gate, [str(path)] * 5))

    assert seen.most == 3


def test_a_slow_head_does_not_stall_the_window(tmp_path):
    # The first item waits for all the others, and two are in flight.
    items = [(str(tmp_path), str(n), 1 if n else 20) for n in range(20)]

    with observed():
        assert list(fan_out(hold, items, max_in_flight=2)) == [
            str(n) for n in range(20)
        ]


def test_closing_a_fan_out_cancels_what_is_in_flight():
    with observed() as seen:
        results = fan_out(wait_in_python, [0, 60, 60, 60], max_in_flight=3)
        next(results)
        begun = time.monotonic()
        results.close()
        took = time.monotonic() - begun

    assert seen.count(NodeState.CANCELLED) == len(seen.nodes) - 1
    assert took < 30


def test_leaving_a_loop_cancels_what_is_in_flight():
    with observed() as seen:
        for _ in fan_out(wait_in_python, [0, 60], max_in_flight=2):
            break

    assert list(seen.latest.values()) == [NodeState.SUCCEEDED, NodeState.CANCELLED]


def test_an_iterator_forgotten_on_another_thread_is_left_to_the_runs_end():
    with observed() as seen:
        held = [fan_out(wait_in_python, [0, 60], max_in_flight=2)]
        next(held[0])
        thread = threading.Thread(target=held.clear)
        begun = time.monotonic()
        thread.start()
        thread.join()
        assert time.monotonic() - begun < PAUSE_S
        assert seen.count(NodeState.SUBMITTED) == 1

    assert seen.count(NodeState.CANCELLED) == 1


def test_the_thread_that_consumed_last_is_the_one_that_cancels():
    def work(results):
        next(results)
        results.close()

    with observed() as seen:
        results = fan_out(wait_in_python, [0, 0, 60], max_in_flight=3)
        next(results)
        thread = threading.Thread(target=work, args=(results,))
        thread.start()
        thread.join()
        assert seen.count(NodeState.CANCELLED) == 1


def test_a_task_that_ray_takes_while_the_run_ends_is_cancelled():
    recorder = Recorder()
    made = coordinator(recorder)
    node = double.bind()
    function = made.function(internals.body(node), internals.options(node), named=True)

    class EndsMeanwhile:
        returns = function.returns
        has_status = True

        def remote(self, *arguments):
            taken = function.remote(*arguments)
            thread = threading.Thread(target=made.end, args=("CANCELLED", None))
            thread.start()
            thread.join()
            return taken

    window = Window(made, 2)
    flight = Flight(made.register("1.x", "x", "x", ()), 0)
    with pytest.raises(KeyboardInterrupt):
        window.submit(flight, EndsMeanwhile(), (1,), {})

    assert window.in_flight == 0
    assert flight.ended
    assert [said.state for said in recorder.states] == [NodeState.CANCELLED]


def test_a_failure_that_is_raised_cancels_what_is_in_flight():
    with observed() as seen, pytest.raises(ValueError, match="odd"):
        list(fan_out(fail_or_wait, [0, 60], max_in_flight=2))

    assert list(seen.latest.values()) == [NodeState.FAILED, NodeState.CANCELLED]


def test_a_leaf_that_ignores_its_cancellation_is_ended():
    with observed() as seen:
        results = fan_out(wait_stubbornly, [0, 60], max_in_flight=2)
        next(results)
        results.close()

    assert seen.count(NodeState.CANCELLED) == 1


@pytest.fixture
def heeds_interrupts():
    """A process started in the background of a script ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_when(condition):
    """Interrupt this thread, as `ray.cancel` does the outer task, when it has begun."""

    def wait():
        until = time.monotonic() + 60
        while not condition() and time.monotonic() < until:
            time.sleep(0.01)
        _thread.interrupt_main()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupt_cancels_what_is_in_flight_and_what_waits_for_it():
    waiting = wait_in_python.bind(60)

    with observed() as seen:
        thread = interrupt_when(lambda: seen.states)
        with pytest.raises(KeyboardInterrupt):
            run(double.bind(waiting))
        thread.join()

    assert list(seen.latest.values()) == [NodeState.CANCELLED, NodeState.CANCELLED]


def test_the_end_of_a_run_cancels_what_its_threads_have_in_flight():
    recorder = Recorder()
    made = coordinator(recorder)
    raised = []

    def work():
        try:
            list(fan_out(wait_in_python, [60, 60, 60], max_in_flight=2))
        except KeyboardInterrupt as exc:
            raised.append(exc)

    with activate(made):
        thread = threading.Thread(target=work)
        thread.start()
        until = time.monotonic() + 60
        while len(recorder.states) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert made.end("CANCELLED", None)
    thread.join(60)

    assert len(raised) == 1
    recorder.require_exact()
    assert recorder.count(NodeState.CANCELLED) == len(recorder.nodes)


def test_an_iterator_that_outlives_its_run_gives_nothing_more():
    recorder = Recorder()
    made = coordinator(recorder)
    with activate(made):
        results = fan_out(double, range(100), max_in_flight=2)
        next(results)
    made.end("SUCCEEDED", None)

    with pytest.raises(KeyboardInterrupt):
        list(results)

    recorder.require_exact()


def test_a_task_that_its_author_cancels_is_cancelled():
    @ray.remote(num_cpus=0.5)
    def cancel_itself():
        raise KeyboardInterrupt

    with observed() as seen, pytest.raises(TaskCancelledError):
        run(cancel_itself.bind())

    assert list(seen.latest.values()) == [NodeState.CANCELLED]


@pytest.mark.parametrize(
    "function", [fail_secret, fail_secret_thrice], ids=["one", "three"]
)
def test_ray_does_not_log_the_text_of_a_failure_that_was_reported(function):
    with ray_log() as logged, observed():
        list(fan_out(function, range(3), errors="yield"))
        with pytest.raises(ValueError, match="cannot log in"):
            run(double.bind(function.bind(1)))
        gc.collect()

    assert logged == []
