"""Whatever is done to a frame's bytes, the decoder answers by name and keeps nothing."""

import gc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_ray.protocol import frames
from tests.protocol.mutation import mutants, outcome
from tests.protocol.test_frames import SENT

FRAMES = [frames.encode(frame) for frame in SENT]
EACH = 20
EACH_DEEP = 500
"""Mutants of one seed: two thousand seeds of the deep profile make a million."""

STEADY = 100_000
GROWTH_KIB = 4 * 1024


@given(st.integers(0, 2**64 - 1))
def test_a_mutated_frame_is_decoded_or_refused_by_name(seed):
    assert all(map(outcome, mutants(FRAMES, seed, EACH)))


@pytest.mark.deep
@settings(max_examples=2_000)
@given(st.integers(0, 2**64 - 1))
def test_a_million_mutated_frames_are_decoded_or_refused_by_name(seed):
    assert all(map(outcome, mutants(FRAMES, seed, EACH_DEEP)))


def test_the_mutants_meet_the_decoder_s_every_side():
    found = {outcome(data) for data in mutants(FRAMES, 1, 20_000)}

    assert {"frame", "malformed_frame", "malformed_json", "unsafe_text"} < found
    assert {"foreign_record", "unpaired_states", "progress_past_total"} < found


def anonymous_kib():
    status = Path("/proc/self/status").read_text()
    (line,) = (each for each in status.splitlines() if each.startswith("RssAnon"))
    return int(line.split()[1])


@pytest.mark.deep
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs procfs")
def test_memory_is_flat_whatever_arrives():
    sizes = []
    for seed in range(4):
        for data in mutants(FRAMES, seed, STEADY):
            outcome(data)
        gc.collect()
        sizes.append(anonymous_kib())

    assert sizes[-1] - sizes[0] < GROWTH_KIB
