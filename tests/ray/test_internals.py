"""Ray's private names, each as this project needs it to behave."""

import gc
import json
import os
import subprocess
import sys
import time

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode
from ray.exceptions import RayCgraphCapacityExceeded, RayTaskError

from actors import compiled_internals, internals
from django_ray.errors import ConfigurationError
from tests.ray.conftest import ROOT
from tests.ray.leaves import Box, collect, double, fail_long, fail_odd
from tests.ray.players import Counter
from tests.ray.runs import ray_log


def test_the_release_that_was_tried_is_accepted_and_another_refused():
    internals.require("2.60.0")
    internals.require("2.60.7")
    for version in ("2.6.0", "2.59.9", "2.61.0", "3.0"):
        with pytest.raises(ConfigurationError):
            internals.require(version)
    internals.require(ray.__version__)


def test_upstream_nodes_include_containers_keywords_and_duplicates():
    one, two = double.bind(1), double.bind(2)

    found = internals.upstream(collect.bind([one, one], more={"a": two}))

    assert {id(node) for node in found} == {id(one), id(two)}


def test_the_body_of_a_node_is_the_users_function():
    assert internals.body(double.bind(1)).__qualname__ == "double"
    assert internals.body(double.bind(1))(4) == 8


def test_the_nodes_of_a_function_share_its_options():
    assert internals.options(double.bind(1)) is internals.options(double.bind(2))
    assert internals.options(double.options(name="a").bind(1))["name"] == "a"


def test_the_accessor_tells_how_a_part_of_the_input_is_taken():
    with InputNode() as given:
        assert internals.accessor(given["a"]) == "__getitem__"
        assert internals.accessor(given.b) == "__getattr__"


def test_the_class_of_an_actors_node_is_the_one_its_author_wrote():
    node = Counter.bind(1)

    assert internals.users_class(node).__qualname__ == "Counter"
    assert internals.users_class(node).__module__ == Counter.__module__
    assert internals.parent(node.add.bind(1)) is node


def test_the_number_of_returns_is_what_a_methods_author_says():
    written = internals.users_class(Counter.bind())

    assert internals.method_returns(written.both) == 2
    assert internals.method_returns(written.add) is None


def test_nodes_anywhere_in_a_value_are_found():
    one, two = double.bind(1), double.bind(2)

    found = internals.hidden([Box(one), {"a": Box([two])}, 3])

    assert {id(node) for node in found} == {id(one), id(two)}
    assert internals.hidden([Box(1)]) == []


def test_nodes_are_replaced_in_a_copy_of_any_object():
    one = double.bind(1)
    box = Box([one])

    assert internals.replace(box, lambda node: node is one) == Box([True])
    assert box.inside == [one]
    assert internals.replace(plain := Box(1), lambda _: None) is plain


@ray.remote(num_cpus=0.5)
def attempt():
    return internals.attempt()


@ray.remote(num_cpus=0.5, max_retries=3, retry_exceptions=True)
def second_attempt():
    if internals.attempt() < 1:
        raise ValueError("again")
    return internals.attempt()


@pytest.mark.ray
def test_the_attempt_counts_rays_own_retries_from_zero(ray_cluster):
    assert ray.get([attempt.remote(), second_attempt.remote()]) == [0, 1]


@pytest.fixture
def counter(ray_cluster):
    actor = Counter.remote()
    yield actor
    ray.kill(actor)


@pytest.mark.ray
def test_a_live_actors_method_is_told_from_all_else(counter):
    told = {"num_returns": 1}

    assert internals.bound(counter.add) == (counter, "add", told)
    named = counter.both.options(name="n", num_returns=1)
    assert internals.bound(named) == (counter, "both", {**told, "name": "n"})
    assert internals.bound(counter.count_up)[2] == {"num_returns": "streaming"}
    for other in (counter, double, Counter, len, None, double.options(name="a")):
        assert internals.bound(other) is None


@pytest.mark.ray
def test_a_live_actor_is_known_by_id_and_class(counter):
    assert internals.identity(counter).hex() == ray.get(counter.id.remote())
    assert internals.class_path(counter) == "tests.ray.players.Counter"
    assert internals.parent(counter.add.bind(1)) == counter


@ray.remote(num_cpus=0)
class Root:
    """A detached actor, and what stems from it."""

    def roots(self):
        actor = ray.remote(num_cpus=0)(Inside).remote()
        return internals.root_actor(), *ray.get([root.remote(), actor.root.remote()])


class Inside:
    def root(self):
        return internals.root_actor()


@ray.remote(num_cpus=0)
def root():
    return internals.root_actor()


@pytest.mark.ray
@pytest.mark.deep
def test_all_that_stems_from_a_detached_actor_knows_its_id(ray_cluster):
    detached = Root.options(name="a root", lifetime="detached").remote()

    assert set(ray.get(detached.roots.remote())) == {internals.identity(detached)}
    assert internals.root_actor() is None
    assert ray.get(root.remote()) is None
    ray.kill(detached)


@ray.remote(num_cpus=0)
def recalled(actor):
    return internals.recall(actor)


@pytest.mark.ray
def test_what_is_remembered_is_known_to_every_process_until_it_is_forgotten(
    ray_cluster,
):
    internals.remember(b"actor", b"run")
    assert ray.get(recalled.remote(b"actor")) == b"run"
    assert internals.recall(b"other") is None

    internals.forget(b"actor")
    internals.forget(b"actor")

    assert internals.recall(b"actor") is None


@ray.remote(num_cpus=0.5)
def give(value):
    return value


@pytest.mark.ray
def test_raw_bytes_are_read_and_nothing_else_is_looked_at(ray_cluster):
    refs = [
        give.remote(b"status"),
        give.remote("text"),
        give.remote(b"x" * 1_000_000),
        fail_odd.remote(1),
        fail_long.remote(100_000),
        give.remote(b""),
    ]
    ray.wait(refs, num_returns=len(refs), fetch_local=False)

    assert internals.raw(refs)[:5] == [b"status", None, None, None, None]
    assert internals.raw(refs[:1]) == [b"status"]
    assert internals.raw([]) == []
    assert internals.raw(refs[5:]) in ([b""], [None])


@pytest.mark.ray
def test_a_failure_is_told_without_its_value(ray_cluster):
    refs = [
        give.remote(1),
        give.remote(b"x" * 1_000_000),
        fail_odd.remote(1),
        fail_long.remote(100_000),
    ]
    ray.wait(refs, num_returns=len(refs), fetch_local=False)

    assert [internals.is_failure(ref) for ref in refs] == [False, False, True, True]


@pytest.mark.ray
@pytest.mark.deep
def test_a_failure_on_another_machine_is_told_unless_it_is_large():
    command = [sys.executable, "-m", "tests.ray.two_nodes"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)

    assert json.loads(said.stdout) == [False, None, True]


@pytest.mark.ray
def test_a_small_value_is_in_the_owners_memory_and_a_large_one_is_not(ray_cluster):
    refs = [give.remote(1), give.remote(b"x" * 1_000_000)]
    ray.wait(refs, num_returns=len(refs), fetch_local=False)

    assert [internals.is_inline(ref) for ref in refs] == [True, False]


@pytest.mark.ray
@pytest.mark.parametrize("size", [10, 100_000])
def test_an_error_that_was_seen_is_not_logged_when_it_is_let_go(ray_cluster, size):
    refs = [fail_long.remote(size)]
    ray.wait(refs, fetch_local=False)

    with ray_log() as logged:
        internals.mark_seen(refs)
        refs.clear()
        gc.collect()

    assert logged == []


class Bounded:
    def __init__(self, limit: int) -> None:
        internals.bound_arguments(limit)

    def size(self, given: object) -> int:
        return -1 if isinstance(given, internals.Unread) else len(given)


@pytest.mark.ray
def test_an_argument_over_the_bound_reaches_the_method_unread(ray_cluster):
    actor = ray.remote(num_cpus=0)(Bounded).remote(1_000)

    for given, size in [
        (bytes(1_000), 1_000),
        (bytes(1_001), -1),
        (bytes(1_000_000), -1),
        (ray.put(bytes(1_000_000)), -1),
        ([b"x"], 1),
        (["x" * 1_000_000], -1),
    ]:
        assert ray.get(actor.size.remote(given)) == size
    ray.kill(actor)


@pytest.fixture
def compiled(ray_cluster):
    """A compiled graph of one actor that raises for 0, and its parts.

    Of one test: while it stands it takes a core from all others.
    """
    actor = Counter.remote()
    with InputNode() as given:
        root = MultiOutputNode([actor.raw.bind(given), actor.fail.bind(given)])
    graph = compiled_internals.compile_graph(root, 1_000)
    yield graph, actor
    graph.teardown(kill_actors=True)


@pytest.mark.deep
def test_a_compiled_graph_takes_one_execution_and_what_is_serialized_as_it_is(compiled):
    graph, actor = compiled
    packed = compiled_internals.serialize(b"0" * 500)
    assert 500 <= packed.total_bytes < 1_000

    refs = graph.execute(packed)
    with pytest.raises(RayCgraphCapacityExceeded):
        graph.execute(packed)
    settled = [compiled_internals.settle(ref, 30) for ref in refs]
    compiled_internals.finish(graph, 30)

    # What came first is an error, so Ray gives it for every output.
    assert isinstance(settled[-1], RayTaskError)
    inside = ray.get(internals.call(actor, lambda _: os.getpid()))
    assert compiled_internals.raised_in(settled[-1]) == inside
    assert (
        compiled_internals.raised_in(RayTaskError("f", "a (pid=1) b", ValueError()))
        is None
    )
    assert internals.is_own(actor)


@pytest.mark.ray
def test_a_live_graph_is_watched_and_its_loops_go_on(compiled):
    graph, _ = compiled

    assert compiled_internals.is_live(graph)
    ended, running = ray.wait(compiled_internals.loops(graph), timeout=0)
    assert (len(ended), len(running)) == (0, 1)
    alive = internals.call(compiled_internals.proxy(graph), lambda _: "alive")
    assert ray.get(alive) == "alive"


@pytest.mark.deep
def test_an_output_that_is_let_go_is_not_waited_for_and_a_graph_given_up_stays(
    ray_cluster,
):
    actor = Counter.remote()
    with InputNode() as given:
        graph = compiled_internals.compile_graph(actor.sleep.bind(given), 1_000)
    begun = time.monotonic()
    ref = graph.execute(5)
    compiled_internals.let_go(ref)
    del ref
    ray.kill(actor)
    ray.kill(compiled_internals.proxy(graph))
    compiled_internals.give_up(graph)
    assert graph.is_teardown
    assert time.monotonic() - begun < 4
