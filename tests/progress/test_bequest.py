import pytest
from msgspec.structs import replace

from django_ray.errors import IntegrityFault
from django_ray.progress import bequest
from django_ray.progress.bequest import Bequest
from django_ray.protocol.frames import MAXIMUM_ORDINAL
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import TruncationReason


def left(**changes):
    values = {
        "applied": 7,
        "edges_ended": None,
        "hosts": (bequest.key("a"),),
        "nodes_ended": TruncationReason.topology_size_limit,
        "producer": "0" * 32,
        "reasons": (),
        "registered": 3,
        "running": ((2, 1),),
        "schema": 1,
        "stages": (bequest.key("s"), bequest.key("t")),
    }
    return Bequest(**{**values, **changes})


def test_it_is_read_back_as_it_was_written():
    assert bequest.decode(bequest.encode(left())) == left()


def test_its_bytes_are_canonical():
    data = bequest.encode(left(stages=(), hosts=(), running=()))
    assert data == (
        b'{"applied":7,"edges_ended":null,"hosts":[],'
        b'"nodes_ended":"topology_size_limit","producer":"'
        + b"0" * 32
        + b'","reasons":[],"registered":3,"running":[],"schema":1,"stages":[]}'
    )


def test_the_largest_is_within_the_bound_of_its_column():
    largest = left(
        applied=2**63 - 1,
        hosts=(bequest.key("a"),) * V1.bequest_hosts,
        nodes_ended=max(TruncationReason, key=len),
        edges_ended=max(TruncationReason, key=len),
        reasons=tuple(TruncationReason),
        registered=MAXIMUM_ORDINAL,
        running=((MAXIMUM_ORDINAL, 32),) * V1.bequest_running,
        stages=(bequest.key("a"),) * V1.stages,
    )
    data = bequest.encode(largest)
    assert V1.bequest / 2 < len(data) <= V1.bequest
    assert bequest.decode(data) == largest


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("hosts", V1.bequest_hosts),
        ("running", V1.bequest_running),
        ("stages", V1.stages),
    ],
)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_what_is_longer_than_its_bound_is_corrupt(name, most, beyond):
    value = (1, 1) if name == "running" else bequest.key("a")
    data = bequest.encode(replace(left(), **{name: (value,) * (most + beyond)}))
    if beyond < 1:
        assert len(getattr(bequest.decode(data), name)) == most + beyond
        return
    with pytest.raises(IntegrityFault):
        bequest.decode(data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"schema":1', b'"schema":2'),
        (b'"registered":3', b'"registered":-1'),
        (b'"producer":"0', b'"producer":"g'),
        (b'"producer":"0', b'"producer":"'),
        (b'"producer":"' + b"0" * 32, b'"producer":"\\n'),
        (b'"hosts":["', b'"hosts":["g'),
        (b'"hosts":["' + bequest.key("a").encode(), b'"hosts":["' + b"g" * 16),
        (b'"registered":3', b'"registered":3,"more":1'),
        (b'"applied":7,', b""),
        (b'"topology_size_limit"', b'"no_such_reason"'),
        (b"}", b""),
    ],
)
def test_what_does_not_parse_is_corrupt(old, new):
    data = bequest.encode(left()).replace(old, new)
    with pytest.raises(IntegrityFault) as raised:
        bequest.decode(data)
    assert raised.value.availability == "CORRUPT"


def test_names_are_told_apart_by_short_keys():
    keys = {bequest.key(f"stage {number}") for number in range(10_000)}
    assert len(keys) == 10_000
    assert {len(key) for key in keys} == {16}
