"""Every byte of every recorded example changed in turn: a value or a named fault, no more.

What no digest covers may still read as another value; it is never an exception a reader
does not know, and what it shows can be sent and printed.
"""

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from django_ray.errors import IntegrityFault
from django_ray.progress import pages, stages
from django_ray.protocol import canonical, records, text
from django_ray.protocol import summary as codec
from django_ray.readers import public
from tests.app import pictures

RECORDED = Path(__file__).parents[1] / "recorded"
FLIPS = (0x01, 0x20, 0x80, 0xFF)


def recorded(name):
    return (RECORDED / name).read_bytes()


def damaged(data):
    """Yield the bytes with each byte changed in four ways, cut at it, and doubled."""
    for place, byte in enumerate(data):
        for flip in FLIPS:
            yield data[:place] + bytes([byte ^ flip]) + data[place + 1 :]
        yield data[:place]
        yield data[: place + 1] + data[place:]


def printable(value):
    """Claim that every text in parsed JSON may be stored and printed."""
    if isinstance(value, dict):
        return all(
            text.is_clean(key) and printable(each) for key, each in value.items()
        )
    if isinstance(value, list):
        return all(map(printable, value))
    return not isinstance(value, str) or text.is_clean(value)


def show_summary(summary):
    return canonical.encode(public.body(pictures.make_reading(summary)))


READERS = {
    "summary.json": (codec.decode, show_summary),
    "summary_derived.json": (codec.decode, show_summary),
    "detail.json": (records.decode_detail, canonical.encode),
    "events.json": (records.decode_events, canonical.encode),
    "stages.json": (stages.decode, canonical.encode),
}


def attempt(decode, *arguments):
    """Return the value, or what the fault says: no other error passes."""
    try:
        return decode(*arguments)
    except IntegrityFault as fault:
        return fault.availability


@pytest.mark.parametrize("name", READERS)
def test_changed_bytes_are_a_value_that_can_be_shown_or_corrupt(name):
    decode, show = READERS[name]
    refused = 0
    for data in damaged(recorded(name)):
        value = attempt(decode, data)
        if value == "CORRUPT":
            refused += 1
        else:
            assert printable(json.loads(show(value)))
    assert refused > len(recorded(name))


@pytest.mark.parametrize("kind", ["nodes", "edges"])
@pytest.mark.parametrize("encoding", ["identity", "zlib"])
def test_changed_bytes_of_a_page_are_corrupt_or_unpack_to_the_same_page(kind, encoding):
    data = recorded(f"page_{kind}.json")
    body = zlib.compress(data) if encoding == "zlib" else data
    whole = pages.decode(body, encoding, canonical.digest(data), kind)

    found = [
        attempt(pages.decode, changed, encoding, canonical.digest(data), kind)
        for changed in damaged(body)
    ]

    # Of a zlib stream some bits do not matter to what it holds.
    same = [each for each in found if each == whole]
    assert len(same) <= (16 if encoding == "zlib" else 0)
    assert {each for each in found if each not in same} == {"CORRUPT"}


def test_a_changed_digest_in_a_manifest_is_always_corrupt():
    stored = json.loads(recorded("manifest.json"))
    digests = tuple(map(bytes.fromhex, stored["digests"]))
    manifest = pages.Manifest(
        version=1,
        node_count=stored["node_count"],
        edge_count=stored["edge_count"],
        encoded_bytes=1,
        decoded_bytes=1,
        digests=digests,
        digest=bytes.fromhex(stored["digest"]),
    )
    pages.check_manifest(manifest)

    for place in range(len(digests)):
        for changed in damaged(digests[place]):
            if len(changed) == pages.DIGEST_BYTES:
                named = (*digests[:place], changed, *digests[place + 1 :])
                with pytest.raises(IntegrityFault):
                    pages.check_manifest(replace(manifest, digests=named))
