"""Frames damaged as no accident would: by the heads of msgpack, and value by value."""

import random
from copy import deepcopy

import msgspec

from django_ray.errors import ProtocolError
from django_ray.protocol import frames
from django_ray.protocol.vocabulary import NODE_STATES

HEADS = [
    *(b"\xdd\xff\xff\xff\xff", b"\xdd\x00\x00\x04\x01", b"\xdc\xff\xff"),
    *(b"\xdf\xff\xff\xff\xff", b"\xde\xff\xff", b"\x8f", b"\x9f", b"\x90"),
    *(b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01"),
    *(b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", b"\xd3\x80\0\0\0\0\0\0\0", b"\xff"),
    *(b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xcb\x7f\xf0\0\0\0\0\0\0", b"\xca\x7f\x80\0\0"),
    *(b"\xc0", b"\xc1", b"\xc2", b"\xc3", b"\xa0", b"\xa1\0", b"\xa3\xed\xa0\x80"),
    *(b"\xa1\x1b", b"\xa2\xc2\x9b", b"\x91" * 64, b"\x81\xa1a" * 64, b"\xc4\x00"),
]
VALUES = [
    *(None, True, False, 0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1),
    *(-(2**63), 0.0, -0.0, 0.5, float("nan"), float("inf"), float("-inf"), 1e308),
    *("", "a", "é" * 129, "x" * 64, "x" * 65, "x" * 256, "x" * 257, "x" * 2_049),
    *("\x00", "a\nb", "\x1b[2J", "\x9b", "coordinator", "worker", "owner"),
    *(b"", b"\x00", b"\x07", b"\x40", b"{", b"[[[[[[1]]]]]]", b'{"a":1}', bytes(65)),
    *([], [0, 1], [1, 1, 0, 1], [[]], {}, {"a": 1}, {"a": {"b": 1}}, {1: 2}),
    *map(str, NODE_STATES),
]
ALIKE = {
    kind: [value for value in VALUES if type(value) is kind]
    for kind in {type(value) for value in VALUES}
}
SLICE = 64


def mutants(sent: list[bytes], seed: int, number: int):
    """Yield damaged copies of frames; a seed always gives the same."""
    draw = random.Random(seed)
    for _ in range(number):
        data = draw.choice(sent)
        if draw.random() < 0.5:
            parts = msgspec.msgpack.decode(data)
            for _ in range(draw.randint(1, 3)):
                _exchange(parts, draw)
            yield msgspec.msgpack.encode(parts)
        else:
            damaged = bytearray(data)
            for _ in range(draw.randint(1, 4)):
                _damage(damaged, draw, sent)
            yield bytes(damaged)


def _exchange(parts: list, draw: random.Random) -> None:
    """Put another value, or one more or less, somewhere into nested lists."""
    place = draw.randrange(len(parts))
    if isinstance(parts[place], list) and parts[place] and draw.random() < 0.95:
        _exchange(parts[place], draw)
    elif draw.random() < 0.9:
        # Mostly of the same type, to come past the parser.
        alike = ALIKE[type(parts[place])] if draw.random() < 0.8 else VALUES
        parts[place] = deepcopy(draw.choice(alike))
    elif draw.random() < 0.5:
        parts.insert(place, deepcopy(draw.choice(VALUES)))
    elif len(parts) > 1:
        del parts[place]


def _damage(data: bytearray, draw: random.Random, sent: list[bytes]) -> None:
    place = draw.randrange(len(data) + 1)
    match draw.randrange(6):
        case 0:
            data[place : place + 1] = draw.randbytes(1)
        case 1:
            data[place:place] = draw.choice(HEADS)
        case 2:
            head = draw.choice(HEADS)
            data[place : place + len(head)] = head
        case 3:
            del data[place : place + draw.randint(1, SLICE)]
        case 4:
            other = draw.choice(sent)
            start = draw.randrange(len(other))
            data[place:place] = other[start : start + draw.randint(1, SLICE)]
        case _:
            del data[place:]


def outcome(data: bytes) -> str:
    """Return what the decoder makes of bytes; what is none of its errors is raised."""
    try:
        frames.decode(data)
    except ProtocolError as exc:
        return exc.reason
    return "frame"
