import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from django_ray.errors import IntegrityFault
from django_ray.progress.pages import (
    Manifest,
    check_manifest,
    check_pages,
    decode,
    manifest_digest,
    seal,
)
from django_ray.progress.topology import Topology
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.records import EdgeItem
from django_ray.protocol.vocabulary import DetailAvailability
from tests.progress.making import item

RECORDED = Path(__file__).parent.parent / "recorded"


def recorded_topology():
    topology = Topology(V1)
    nodes = [
        item(0, id="1.read", label="app.read", stage="app.read"),
        item(1, id="1.parse[«a»]", label="app.parse", stage="app.parse", rank=1),
        item(2, id='1.parse["b"]', label="app.parse", stage="app.parse", rank=1),
        item(3, id="2.join", label="app.join", stage="app.join", rank=2),
    ]
    topology.extend(nodes, [(1, 1, (0, 1)), (2, 1, (0, 1)), (3, 3, (0, 3))])
    return topology.candidate(1)


def plain(manifest):
    return {
        "digest": manifest.digest.hex(),
        "digests": [digest.hex() for digest in manifest.digests],
        "edge_count": manifest.edge_count,
        "node_count": manifest.node_count,
    }


@pytest.mark.parametrize(("number", "kind"), [(0, "nodes"), (1, "edges")])
def test_a_recorded_page_is_built_byte_for_byte(number, kind):
    page = recorded_topology().pages[number]
    recorded = (RECORDED / f"page_{kind}.json").read_bytes()

    data = zlib.decompress(page.body) if page.encoding == "zlib" else page.body

    assert (page.kind, data) == (kind, recorded)
    assert page.digest == canonical.digest(recorded)


def test_a_recorded_manifest_is_built_byte_for_byte():
    recorded = (RECORDED / "manifest.json").read_bytes()

    assert canonical.encode(plain(recorded_topology().manifest)) == recorded


@pytest.mark.parametrize("kind", ["nodes", "edges"])
def test_a_recorded_page_is_read_back(kind):
    recorded = (RECORDED / f"page_{kind}.json").read_bytes()

    items = decode(recorded, "identity", canonical.digest(recorded), kind)

    assert canonical.encode(items) == recorded


def test_a_page_is_compressed_only_where_that_is_smaller():
    short = seal("edges", 1, b"[[1,0]]")
    long = seal("edges", 1, b"[" + b" " * 500 + b"[1,0]]")

    assert (short.encoding, short.body) == ("identity", b"[[1,0]]")
    assert (long.encoding, long.decoded_size) == ("zlib", 507)


def test_a_page_has_the_same_items_in_either_encoding():
    data = canonical.encode([(target, 0) for target in range(1, 257)])
    digest = canonical.digest(data)

    packed = decode(zlib.compress(data), "zlib", digest, "edges")

    assert packed == decode(data, "identity", digest, "edges")
    assert packed[0] == EdgeItem(1, 0)


def padded(size):
    body = b"[[1,0]"
    return body + b" " * (size - len(body) - 1) + b"]"


@pytest.mark.parametrize("size", [V1.page_encoded - 1, V1.page_encoded])
def test_a_stored_page_up_to_256_kib_is_read(size):
    data = padded(size)

    assert decode(data, "identity", canonical.digest(data), "edges") == (
        EdgeItem(1, 0),
    )


@pytest.mark.parametrize("size", [V1.page_decoded - 1, V1.page_decoded])
def test_a_page_up_to_1_mib_decoded_is_read(size):
    data = padded(size)

    items = decode(zlib.compress(data), "zlib", canonical.digest(data), "edges")

    assert items == (EdgeItem(1, 0),)


def corrupt_pages():
    page = b"[[1,0]]"
    digest = canonical.digest(page)
    large, bomb = padded(V1.page_encoded + 1), padded(V1.page_decoded + 1)
    many = canonical.encode([(target, 0) for target in range(1, 258)])
    packed = zlib.compress(page)
    yield "oversized", (large, "identity", canonical.digest(large), "edges")
    yield "bomb", (zlib.compress(bomb), "zlib", canonical.digest(bomb), "edges")
    yield "encoding", (page, "gzip", digest, "edges")
    yield "kind", (page, "identity", digest, "events")
    yield "digest", (page, "identity", bytes(32), "edges")
    yield "not zlib", (page, "zlib", digest, "edges")
    yield "cut", (packed[:-1], "zlib", digest, "edges")
    yield "more", (packed + b"x", "zlib", digest, "edges")
    yield "items", (many, "identity", canonical.digest(many), "edges")
    for name, body in (("empty", b"[]"), ("fields", b"[[1]]"), ("text", b"nodes")):
        yield name, (body, "identity", canonical.digest(body), "edges")
    yield "other kind", (page, "identity", digest, "nodes")


@pytest.mark.parametrize(
    "arguments", [pytest.param(each, id=name) for name, each in corrupt_pages()]
)
def test_a_page_that_is_not_itself_is_corrupt(arguments):
    with pytest.raises(IntegrityFault) as caught:
        decode(*arguments)

    assert caught.value.availability is DetailAvailability.CORRUPT


def test_256_items_are_a_page():
    data = canonical.encode([(target, 0) for target in range(1, 257)])

    assert len(decode(data, "identity", canonical.digest(data), "edges")) == 256


def test_a_manifests_digest_does_not_know_the_version():
    first, again = recorded_topology().manifest, recorded_topology()

    assert replace(first, version=9).digest == again.manifest.digest
    check_manifest(replace(first, version=9))


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": bytes(32)},
        {"node_count": 5},
        {"edge_count": 6},
        {"digests": ()},
        {"version": 0},
        {"encoded_bytes": V1.topology_encoded + 1},
        {"decoded_bytes": V1.topology_decoded + 1},
    ],
)
def test_a_manifest_that_disagrees_with_itself_is_corrupt(changes):
    manifest = replace(recorded_topology().manifest, **changes)

    with pytest.raises(IntegrityFault):
        check_manifest(manifest)


@pytest.mark.parametrize("over", [{"node_count": 25_001}, {"edge_count": 100_001}])
def test_a_manifest_past_the_caps_is_corrupt_even_with_its_digest(over):
    manifest = replace(recorded_topology().manifest, **over)
    digest = manifest_digest(manifest.node_count, manifest.edge_count, manifest.digests)

    with pytest.raises(IntegrityFault):
        check_manifest(replace(manifest, digest=digest))


def test_the_pages_of_a_candidate_check():
    candidate = recorded_topology()

    check_pages(candidate.manifest, candidate.pages)


def test_a_page_that_is_not_there_is_missing():
    candidate = recorded_topology()

    with pytest.raises(IntegrityFault) as caught:
        check_pages(candidate.manifest, candidate.pages[:1])

    assert caught.value.availability is DetailAvailability.MISSING


def made(*pages, **changes):
    """Return a manifest over pages given as (kind, items), with those pages."""
    sealed = [seal(kind, len(items), canonical.encode(items)) for kind, items in pages]
    sums = {
        "node_count": sum(p.item_count for p in sealed if p.kind == "nodes"),
        "edge_count": sum(p.item_count for p in sealed if p.kind == "edges"),
        "encoded_bytes": sum(len(p.body) for p in sealed),
        "decoded_bytes": sum(p.decoded_size for p in sealed),
    } | changes
    digests = tuple(page.digest for page in sealed)
    return Manifest(version=1, digests=digests, digest=bytes(32), **sums), sealed


TWO = ("nodes", [item(0), item(1)])


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(made(("edges", [(1, 0)]), TWO), id="edges first"),
        pytest.param(made(("nodes", [item(0), item(2)])), id="gap"),
        pytest.param(made(TWO, ("edges", [(1, 1)])), id="to itself"),
        pytest.param(made(TWO, ("edges", [(1, 0), (1, 0)])), id="twice"),
        pytest.param(made(TWO, ("edges", [(2, 0)])), id="to no node"),
        pytest.param(made(TWO, ("edges", [(1, -1)])), id="from no node"),
        pytest.param(made(TWO, node_count=3), id="nodes"),
        pytest.param(made(TWO, ("edges", [(1, 0)]), edge_count=2), id="edges"),
        pytest.param(made(TWO, encoded_bytes=1), id="encoded"),
        pytest.param(made(TWO, decoded_bytes=1), id="decoded"),
    ],
)
def test_pages_that_disagree_with_their_manifest_are_corrupt(topology):
    with pytest.raises(IntegrityFault) as caught:
        check_pages(*topology)

    assert caught.value.availability is DetailAvailability.CORRUPT


def test_pages_in_another_order_are_corrupt():
    candidate = recorded_topology()

    with pytest.raises(IntegrityFault):
        check_pages(candidate.manifest, candidate.pages[::-1])


def test_a_page_with_another_count_is_corrupt():
    manifest, pages = made(TWO, ("edges", [(1, 0)]))
    pages[1] = replace(pages[1], item_count=2)

    with pytest.raises(IntegrityFault):
        check_pages(replace(manifest, edge_count=2), pages)


def test_the_recorded_manifest_is_json_anyone_reads():
    assert json.loads((RECORDED / "manifest.json").read_bytes())["node_count"] == 4
