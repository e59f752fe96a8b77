"""A page that inflates without end is given up at its bound, whatever is stated of it."""

import tracemalloc
import zlib

import pytest

from django_ray.errors import IntegrityFault
from django_ray.progress import pages
from django_ray.protocol.limits import MIB, V1


def bomb(megabytes):
    """Return a zlib stream of so many zeros."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(bytes(MIB)) for _ in range(megabytes)]
    return b"".join([*parts, packer.flush()])


def test_no_more_than_a_page_is_inflated():
    body = bomb(200)
    assert len(body) <= V1.page_encoded

    tracemalloc.start()
    with pytest.raises(IntegrityFault):
        pages.unpack(body, "zlib")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # The buffer that grows to the bound and the bytes cut from it, not the 200 MiB.
    assert peak < 4 * V1.page_decoded


def test_a_stream_longer_than_a_page_is_not_inflated_at_all():
    tracemalloc.start()
    with pytest.raises(IntegrityFault):
        pages.unpack(bytes(V1.page_encoded + 1), "zlib")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2 * V1.page_encoded
