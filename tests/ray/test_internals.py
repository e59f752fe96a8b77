"""Ray's private names, each as this project needs it to behave."""

import gc

import pytest
import ray
from ray.dag import InputNode

from actors import internals
from django_ray.errors import ConfigurationError
from tests.ray.leaves import Box, collect, double, fail_long, fail_odd
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
