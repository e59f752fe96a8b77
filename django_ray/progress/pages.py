"""Topology pages and manifest, built and checked back. Contract 2, 4.1.

A page closes at 256 items or before 256 KiB and is never reopened; a growing graph
republishes only its tail page.
"""

from dataclasses import dataclass

from django_ray.protocol.records import Encoding, PageKind


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
