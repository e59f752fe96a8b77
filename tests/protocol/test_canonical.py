import hashlib
import json

import pytest

from django_ray.protocol import canonical


@pytest.mark.parametrize(
    "value", [None, True, 0, -1, "text", [], {}, {"b": 1, "a": [2, {"d": 3, "c": 4}]}]
)
def test_canonical_bytes_are_sorted_and_without_space(value):
    expected = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert canonical.encode(value) == expected


def test_text_is_utf_8_and_not_escaped():
    assert canonical.encode("é日🙂") == '"é日🙂"'.encode()


def test_the_order_of_keys_does_not_matter():
    assert canonical.encode({"a": 1, "b": 2}) == canonical.encode({"b": 2, "a": 1})


def test_a_digest_is_the_sha_256():
    assert canonical.digest(b"abc") == hashlib.sha256(b"abc").digest()
    assert canonical.node_key("1.é") == hashlib.sha256("1.é".encode()).digest()
