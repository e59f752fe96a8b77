"""Topology pages and manifest, built and checked back. Contract 2, 4.1.

A page is the canonical JSON array of its items; its digest is over those bytes, so a page
is the same page whether it is stored as it is or as zlib. A decoder trusts no stated size:
it stops at either bound.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import msgspec

from django_ray.errors import IntegrityFault, ProtocolError
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1
from django_ray.protocol.records import (
    EdgeItem,
    Encoding,
    NodeItem,
    PageKind,
    require_lines,
)
from django_ray.protocol.vocabulary import DetailAvailability

FORMAT = 1
"""The first element a manifest's digest is over."""

ZLIB_LEVEL = 1

DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page as stored; `digest` is over its canonical, decoded bytes."""

    kind: PageKind
    item_count: int
    encoding: Encoding
    decoded_size: int
    digest: bytes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Ordered page digests, node pages first, with their aggregate counts and sizes."""

    version: int
    node_count: int
    edge_count: int
    encoded_bytes: int
    decoded_bytes: int
    digests: tuple[bytes, ...]
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A topology to stage: its manifest, and the pages the run may not hold yet."""

    manifest: Manifest
    pages: tuple[Page, ...]


_nodes_decoder = msgspec.json.Decoder(tuple[NodeItem, ...])
_edges_decoder = msgspec.json.Decoder(tuple[EdgeItem, ...])


def seal(kind: PageKind, item_count: int, data: bytes) -> Page:
    """Return the page of canonical bytes `data`: compressed where that is smaller."""
    packed = zlib.compress(data, ZLIB_LEVEL)
    smaller = len(packed) < len(data)
    return Page(
        kind=kind,
        item_count=item_count,
        encoding="zlib" if smaller else "identity",
        decoded_size=len(data),
        digest=canonical.digest(data),
        body=packed if smaller else data,
    )


def manifest_digest(
    node_count: int, edge_count: int, digests: Sequence[bytes]
) -> bytes:
    """Return the digest of a manifest: equal registrations have equal ones.

    The version is not part of it, so that a topology staged again is the same topology.
    """
    pages = [digest.hex() for digest in digests]
    return canonical.digest(canonical.encode((FORMAT, node_count, edge_count, pages)))


def unpack(body: bytes, encoding: str) -> bytes:
    """Return a stored page's decoded bytes, or raise IntegrityFault(CORRUPT).

    Reads at most a page's encoded bytes, and makes at most its decoded ones.
    """
    if len(body) > V1.page_encoded:
        raise _corrupt("A topology page is oversized.")
    if encoding == "identity":
        return body
    if encoding != "zlib":
        raise _corrupt("A topology page is in no known encoding.")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, V1.page_decoded)
    except zlib.error as exc:
        raise _corrupt("A topology page does not decompress.") from exc
    if not unpacker.eof or unpacker.unused_data:
        raise _corrupt("A topology page is oversized or cut.")
    return data


@overload
def decode(
    body: bytes, encoding: str, digest: bytes, kind: Literal["nodes"]
) -> tuple[NodeItem, ...]: ...
@overload
def decode(
    body: bytes, encoding: str, digest: bytes, kind: Literal["edges"]
) -> tuple[EdgeItem, ...]: ...
@overload
def decode(
    body: bytes, encoding: str, digest: bytes, kind: str
) -> tuple[NodeItem, ...] | tuple[EdgeItem, ...]: ...
def decode(
    body: bytes, encoding: str, digest: bytes, kind: str
) -> tuple[NodeItem, ...] | tuple[EdgeItem, ...]:
    """Return a stored page's items, or raise IntegrityFault(CORRUPT)."""
    return parse(unpack(body, encoding), digest, kind)


def parse(
    data: bytes, digest: bytes, kind: str
) -> tuple[NodeItem, ...] | tuple[EdgeItem, ...]:
    """Return the items of a page's decoded bytes, or raise IntegrityFault(CORRUPT)."""
    if canonical.digest(data) != digest:
        raise _corrupt("A topology page does not match its digest.")
    items: tuple[NodeItem, ...] | tuple[EdgeItem, ...]
    try:
        match kind:
            case "nodes":
                items = _nodes_decoder.decode(data)
                # Without an escape a page of ASCII holds no control character but DEL,
                # and as many bytes as characters, which the types have bounded.
                if not data.isascii() or b"\\" in data or b"\x7f" in data:
                    require_lines(items)
            case "edges":
                items = _edges_decoder.decode(data)
            case _:
                raise _corrupt("A topology page is of no known kind.")
    except (msgspec.MsgspecError, ValueError, RecursionError, ProtocolError) as exc:
        raise _corrupt("A topology page does not parse.") from exc
    if not 1 <= len(items) <= V1.page_items:
        raise _corrupt("A topology page's number of items is out of bounds.")
    return items


def check_manifest(manifest: Manifest) -> None:
    """Raise IntegrityFault(CORRUPT) unless the manifest agrees with itself and V1."""
    within = (
        0 <= manifest.node_count <= V1.retained_nodes
        and 0 <= manifest.edge_count <= V1.retained_edges
        and 0 <= manifest.encoded_bytes <= V1.topology_encoded
        and 0 <= manifest.decoded_bytes <= V1.topology_decoded
        and manifest.version >= 1
        # No page is empty, so this bounds what the digests themselves take.
        and len(manifest.digests) <= manifest.node_count + manifest.edge_count
    )
    if not within:
        raise _corrupt("A topology manifest is out of bounds.")
    expected = manifest_digest(
        manifest.node_count, manifest.edge_count, manifest.digests
    )
    if manifest.digest != expected:
        raise _corrupt("A topology manifest does not match its digest.")


def check_pages(manifest: Manifest, pages: Iterable[Page]) -> None:
    """Raise IntegrityFault unless `pages`, in order, are exactly the manifest's.

    Decodes one page at a time: MISSING when pages end early, CORRUPT when a digest, a
    count, a size, or the order of items disagrees.
    """
    nodes, edges, encoded, decoded = 0, 0, 0, 0
    last = (-1, -1)
    number = 0
    for number, page in enumerate(pages, 1):
        if manifest.digests[number - 1 : number] != (page.digest,):
            raise _corrupt("A topology's pages are not in its manifest's order.")
        encoded += len(page.body)
        decoded += page.decoded_size
        if page.kind == "nodes":
            if edges:
                raise _corrupt("A topology's node pages do not come first.")
            nodes = _check_nodes(page, nodes)
        else:
            last = _check_edges(page, last, nodes)
            edges += page.item_count
    if number < len(manifest.digests):
        raise IntegrityFault("A topology page is missing.", DetailAvailability.MISSING)
    found = (nodes, edges, encoded, decoded)
    if found != (
        manifest.node_count,
        manifest.edge_count,
        manifest.encoded_bytes,
        manifest.decoded_bytes,
    ):
        raise _corrupt("A topology's counts or sizes do not add up.")


def _check_nodes(page: Page, first: int) -> int:
    items = decode(page.body, page.encoding, page.digest, "nodes")
    after = first + page.item_count
    if [item.ordinal for item in items] != list(range(first, after)):
        raise _corrupt("A topology's ordinals are not dense.")
    return after


def _check_edges(page: Page, last: tuple[int, int], nodes: int) -> tuple[int, int]:
    items = decode(page.body, page.encoding, page.digest, "edges")
    if len(items) != page.item_count:
        raise _corrupt("A topology page's count is not that of its items.")
    for item in items:
        if not (last < (item.target, item.source) and item.source < item.target):
            raise _corrupt("A topology's edges are not in order.")
        last = (item.target, item.source)
    if last[0] >= nodes or min(item.source for item in items) < 0:
        raise _corrupt("A topology's edge ends at no retained node.")
    return last


def _corrupt(message: str) -> IntegrityFault:
    return IntegrityFault(message, DetailAvailability.CORRUPT)
